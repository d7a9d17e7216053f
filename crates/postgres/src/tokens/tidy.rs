//! What only one node at a time does: tell the topic how far it has been written, and remove what is over.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_messages::{Message as _, TokenEvent};

use postgres::Transaction;

use super::changes::{Position, xid_of};
use super::moment;
use crate::session::Store;
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
}

impl Tidied {
    /// Whether there was anything.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Tidied::default()
    }
}

impl Store {
    /// How far the topic has been written.
    ///
    /// # Errors
    /// If the database fails.
    pub fn tokens_sent(&mut self) -> Result<Position, Error> {
        let row = self.client.query_one("SELECT sent_xid::text, sent_no FROM token_progress", &[])?;
        Ok(Position { xid: xid_of(row.get(0))?, change_no: row.get(1) })
    }

    /// Notes how far it has been written, if the claim is still the latest; else `false`.
    ///
    /// # Errors
    /// If the database fails.
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

    /// Removes changes older than `history` that the topic has, at most `limit`, with the tokens that were spent by them. That
    /// they were spent stays in `token_lock` for ever: whatever tells of them again comes too late. Nothing is removed if the
    /// claim is no longer the latest.
    ///
    /// # Errors
    /// If the database fails.
    pub fn tidy_changes(
        &mut self,
        claim: &Claim,
        history: Duration,
        limit: u32,
        now: Option<Millis>,
    ) -> Result<Tidied, Error> {
        let Some(mut tx) = self.tidying(claim)? else { return Ok(Tidied::default()) };
        let changes = tx.query(
            "DELETE FROM token_change WHERE (xid, change_no) IN (
                 SELECT xid, change_no FROM token_change
                 WHERE (xid, change_no) <= (SELECT sent_xid, sent_no FROM token_progress)
                     AND created_at < coalesce($3::timestamptz, hub_clock()) - $1::double precision * interval '1 second'
                 ORDER BY xid, change_no LIMIT $2)
             RETURNING xid::text, change_no, event",
            &[&history.as_secs_f64(), &i64::from(limit), &moment(now)],
        )?;
        let mut gone: Vec<String> = Vec::new();
        let mut last = Position::default();
        for row in &changes {
            let place = Position { xid: xid_of(row.get(0))?, change_no: row.get(1) };
            last = last.max(place);
            gone.extend(consumed_of(row.get(2))?);
        }
        gone.sort_unstable();
        let tokens = tx.execute("DELETE FROM token WHERE token_id = ANY($1)", &[&gone])?;
        if !changes.is_empty() {
            tx.execute(
                "UPDATE token_progress SET removed_xid = $1::text::xid8, removed_no = $2",
                &[&last.xid.to_string(), &last.change_no],
            )?;
        }
        tx.commit()?;
        Ok(Tidied { tokens, changes: count(changes.len()), ..Tidied::default() })
    }

    /// Removes selections that ended and spends that are older than `memory`, at most `limit`: from then on a repeat is not
    /// known again. Nothing is removed if the claim is no longer the latest.
    ///
    /// # Errors
    /// If the database fails.
    pub fn tidy_selections(
        &mut self,
        claim: &Claim,
        memory: Duration,
        limit: u32,
        now: Option<Millis>,
    ) -> Result<Tidied, Error> {
        let Some(mut tx) = self.tidying(claim)? else { return Ok(Tidied::default()) };
        let selections = tx.execute(
            "DELETE FROM token_selection WHERE spender_tx_id IN (
                 SELECT spender_tx_id FROM token_selection
                 WHERE changed_at < coalesce($1::timestamptz, hub_clock()) - $2::double precision * interval '1 second'
                     AND (state <> 'HELD' OR expires_at < coalesce($1::timestamptz, hub_clock()))
                 LIMIT $3 FOR UPDATE SKIP LOCKED)",
            &[&moment(now), &memory.as_secs_f64(), &i64::from(limit)],
        )?;
        tx.commit()?;
        Ok(Tidied { selections, ..Tidied::default() })
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
        TokenEvent::Issued(_) | TokenEvent::Released { .. } => Vec::new(),
    };
    Ok(ids.iter().map(|id| id.as_str().to_owned()).collect())
}
