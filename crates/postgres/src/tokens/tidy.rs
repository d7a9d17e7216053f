//! What only one node at a time does: tell the topic how far it has been written, and remove what is over.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_messages::{Message as _, TokenEvent};

use postgres::Transaction;

use super::changes::{PAGE_BYTES, Position, xid_of};
use super::moment;
use crate::guard::unsigned;
use crate::session::Store;
use crate::types::Moment;
use crate::{Claim, Error};

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tidied {
    /// Tokens that were spent.
    pub tokens: u64,
    /// Selections that were given back, ran out, or were spent long ago.
    pub selections: u64,
    /// Changes that all have read.
    pub changes: u64,
    /// Selections whose lease was over, and that count as given back from now on.
    pub ended: u64,
}

impl Tidied {
    /// Whether there was anything.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Tidied::default()
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Tidied) -> Tidied {
        Tidied {
            tokens: self.tokens.saturating_add(other.tokens),
            selections: self.selections.saturating_add(other.selections),
            changes: self.changes.saturating_add(other.changes),
            ended: self.ended.saturating_add(other.ended),
        }
    }
}

/// Tokens that another ledger has consumed while a transfer or checkout held them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GoneOutside {
    /// Still held: they go with the end of the hold.
    pub held: u64,
    /// Paid out here nevertheless.
    pub paid: u64,
}

/// The first changes behind the removed ones that the topic has, as far as they are old: what lies behind a younger one stays
/// until that has its age too. However many there are, so many are looked at; with each go the tokens that it tells of.
const OLD_CHANGES: &str = "
    WITH look AS MATERIALIZED (
        SELECT xid, change_no, created_at, octet_length(event) AS bytes FROM token_change
        WHERE (xid, change_no) > ($4::text::xid8, $5) AND (xid, change_no) <= ($6::text::xid8, $7)
        ORDER BY xid, change_no LIMIT $2),
    old AS (
        SELECT xid, change_no, bool_and(
            created_at < coalesce($3::timestamptz, (SELECT hub_clock())) - $1::double precision * interval '1 second'
        ) OVER inorder AND sum(bytes) OVER inorder - bytes < $8 AS is_old
        FROM look WINDOW inorder AS (ORDER BY xid, change_no))
    DELETE FROM token_change c USING old o WHERE c.xid = o.xid AND c.change_no = o.change_no AND o.is_old
    RETURNING c.xid::text, c.change_no, c.event";

/// By the index over their ends, from one end on: what was looked at before is not looked at again.
const ENDED_LEASES: &str = "
    UPDATE token_selection SET state = 'RELEASED', changed_at = coalesce($1::timestamptz, hub_clock())
    WHERE spender_tx_id IN (
        SELECT spender_tx_id FROM token_selection
        WHERE state = 'HELD' AND expires_at <= coalesce($1::timestamptz, (SELECT hub_clock()))
            AND expires_at >= coalesce($2::timestamptz, '-infinity') AND payee_wallet IS NULL
        ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED)";

/// The same, by when they ended; with when the last of them did.
const OLD_SELECTIONS: &str = "
    WITH gone AS (
        DELETE FROM token_selection WHERE spender_tx_id IN (
            SELECT spender_tx_id FROM token_selection
            WHERE state <> 'HELD' AND changed_at >= coalesce($4::timestamptz, '-infinity')
                AND changed_at < coalesce($1::timestamptz, (SELECT hub_clock())) - $2::double precision * interval '1 second'
            ORDER BY changed_at LIMIT $3 FOR UPDATE)
        RETURNING changed_at)
    SELECT count(*), max(changed_at) FROM gone";

impl Store {
    /// How far the topic has been written, and what time it is.
    pub fn tokens_sent(&mut self) -> Result<(Position, Millis), Error> {
        let row =
            self.client.query_one("SELECT sent_xid::text, sent_no, hub_clock() FROM token_progress", &[])?;
        let Moment(now) = row.get(2);
        Ok((Position { xid: xid_of(row.get(0))?, change_no: row.get(1) }, now))
    }

    /// Notes how far it has been written, if the claim is still the latest; else `false`.
    pub fn mark_tokens_sent(&mut self, claim: &Claim, sent: Position) -> Result<bool, Error> {
        let Position { xid, change_no } = sent;
        let marked = self.client.execute(
            "WITH guard AS (SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR UPDATE)
             UPDATE token_progress SET sent_xid = $3::text::xid8, sent_no = $4 FROM guard
             WHERE (sent_xid, sent_no) <= ($3::text::xid8, $4)",
            &[&claim.segment_id, &claim.epoch, &xid.to_string(), &change_no],
        )?;
        Ok(marked == 1)
    }

    /// Removes changes up to `last` that are older than `history` and that the topic has, at most `limit`, with the tokens that
    /// were spent by them. That they were spent stays in `token_lock` for ever: whatever tells of them again comes too late.
    /// Nothing is removed if the claim is no longer the latest.
    pub fn tidy_changes(
        &mut self,
        claim: &Claim,
        last: Position,
        history: Duration,
        limit: u32,
        now: Option<Millis>,
    ) -> Result<Tidied, Error> {
        let Some(mut tx) = self.tidying(claim)? else { return Ok(Tidied::default()) };
        let progress = tx.query_one(
            "SELECT removed_xid::text, removed_no, sent_xid::text, sent_no FROM token_progress",
            &[],
        )?;
        let (before, before_no): (&str, i64) = (progress.get(0), progress.get(1));
        let sent = Position { xid: xid_of(progress.get(2))?, change_no: progress.get(3) };
        let Position { xid: last, change_no: last_no } = last.min(sent);
        let (age, limit, last) = (history.as_secs_f64(), i64::from(limit), last.to_string());
        let changes = tx.query(
            OLD_CHANGES,
            &[&age, &limit, &moment(now), &before, &before_no, &last, &last_no, &PAGE_BYTES],
        )?;
        let mut gone: Vec<String> = Vec::new();
        let mut removed = Position::default();
        for row in &changes {
            let place = Position { xid: xid_of(row.get(0))?, change_no: row.get(1) };
            removed = removed.max(place);
            gone.extend(consumed_of(row.get(2))?);
        }
        gone.sort_unstable();
        let tokens = tx.execute("DELETE FROM token WHERE token_id = ANY($1)", &[&gone])?;
        if !changes.is_empty() {
            tx.execute(
                "UPDATE token_progress SET removed_xid = $1::text::xid8, removed_no = $2",
                &[&removed.xid.to_string(), &removed.change_no],
            )?;
        }
        tx.commit()?;
        Ok(Tidied { tokens, changes: count(changes.len()), ..Tidied::default() })
    }

    /// Selections whose lease is over count as given back from now on, at most `limit`, of those that ended at `from` or later.
    /// It frees nothing: their tokens are free since the lease's end. Nothing is done if the claim is no longer the latest.
    pub fn end_token_leases(
        &mut self,
        claim: &Claim,
        from: Option<Millis>,
        limit: u32,
        now: Option<Millis>,
    ) -> Result<Tidied, Error> {
        let Some(mut tx) = self.tidying(claim)? else { return Ok(Tidied::default()) };
        let ended = tx.execute(ENDED_LEASES, &[&moment(now), &moment(from), &i64::from(limit)])?;
        tx.commit()?;
        Ok(Tidied { ended, ..Tidied::default() })
    }

    /// Removes selections that were given back and spends, older than `memory`, at most `limit`, of those that ended at `from` or
    /// later: from then on a repeat is not known again. With where to go on. Nothing is removed if the claim is no longer the
    /// latest.
    pub fn tidy_selections(
        &mut self,
        claim: &Claim,
        memory: Duration,
        from: Option<Millis>,
        limit: u32,
        now: Option<Millis>,
    ) -> Result<(Tidied, Option<Millis>), Error> {
        let Some(mut tx) = self.tidying(claim)? else { return Ok((Tidied::default(), from)) };
        let row = tx.query_one(
            OLD_SELECTIONS,
            &[&moment(now), &memory.as_secs_f64(), &i64::from(limit), &moment(from)],
        )?;
        tx.commit()?;
        let selections = unsigned("token_selection", row.get(0))?;
        let last = row.get::<_, Option<Moment>>(1).map(|Moment(last)| last);
        Ok((Tidied { selections, ..Tidied::default() }, last.or(from)))
    }

    /// How many tokens another ledger has consumed while they were held; at most `limit` of each.
    pub fn tokens_gone_outside(&mut self, limit: u32) -> Result<GoneOutside, Error> {
        let row = self.client.query_one(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM token_lock WHERE gone_outside AND NOT spent LIMIT $1) h),
                 (SELECT count(*) FROM (SELECT 1 FROM token_lock WHERE gone_outside AND spent LIMIT $1) p)",
            &[&i64::from(limit)],
        )?;
        let (held, paid) = (unsigned("token_lock", row.get(0))?, unsigned("token_lock", row.get(1))?);
        Ok(GoneOutside { held, paid })
    }

    /// A transaction of whoever keeps house; `None` if that is another by now.
    fn tidying(&mut self, claim: &Claim) -> Result<Option<Transaction<'_>>, Error> {
        let mut tx = self.client.transaction()?;
        let guard = "SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR UPDATE";
        let held = tx.query_opt(guard, &[&claim.segment_id, &claim.epoch])?;
        Ok(held.map(|_| tx))
    }
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// The tokens that an event has taken away.
fn consumed_of(event: &str) -> Result<Vec<String>, Error> {
    let event = TokenEvent::from_json(event.as_bytes());
    let ids = match event.map_err(|poison| Error::corrupt("token_change", poison))? {
        TokenEvent::Spent { transaction, .. } => transaction.consumed,
        TokenEvent::Updated { consumed, .. } => consumed,
        TokenEvent::Issued(_) | TokenEvent::Released { .. } | TokenEvent::Shortened { .. } => Vec::new(),
    };
    Ok(ids.iter().map(|id| id.as_str().to_owned()).collect())
}
