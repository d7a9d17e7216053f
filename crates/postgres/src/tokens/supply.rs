//! Tokens that come, and that went elsewhere; what an outside ledger tells by the topic `token-updates` is taken over in the
//! transaction that also moves the offset.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::HOLD_PREFIX;
use holdfast_messages::{Message as _, TokenEvent, TokenUpdate};
use holdfast_tokens::{Name, Refusal, Token, TokenId};
use postgres::types::ToSql;
use postgres::{GenericClient, Transaction};

use super::moment;
use super::rows::lists_of;
use crate::batch::{Batch, Readable, Reading};
use crate::guard::unsigned;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::types::{Moment, list};
use crate::{Claim, Error};

/// Makes rows of new tokens whose locks are there already.
fn insert_tokens(tx: &mut Transaction<'_>, tokens: &[&Token], now: Option<Moment>) -> Result<(), Error> {
    let lists = lists_of(tokens);
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&now];
    parameters.extend(lists.iter().map(|list| &**list as &(dyn ToSql + Sync)));
    tx.execute(
        "INSERT INTO token (token_id, wallet, external_id, public_key, token_type, currency, quantity, issuer, notary,
             attributes, created_at)
         SELECT p.token_id, p.wallet, p.external_id, p.public_key, p.token_type, p.currency, p.quantity, p.issuer,
             p.notary, p.attributes::json, coalesce($1::timestamptz, hub_clock())
         FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::text[],
                 $10::text[], $11::text[])
             AS p (token_id, wallet, external_id, public_key, token_type, currency, quantity, issuer, notary, attributes)",
        &parameters,
    )?;
    Ok(())
}

/// Rows for ids that have none yet, in their order; which of them are new.
fn insert_locks(
    tx: &mut Transaction<'_>,
    ids: &BTreeSet<&str>,
    spent: bool,
) -> Result<BTreeSet<String>, Error> {
    let ids = list(ids, |id| *id);
    let rows = tx.query(
        "INSERT INTO token_lock (token_id, spent) SELECT id, $2 FROM unnest($1::text[]) AS id
         ON CONFLICT DO NOTHING RETURNING token_id",
        &[&ids, &spent],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Tokens of one event: so many fit into a message of Kafka's.
const EVENT_TOKENS_MAX: usize = 1_000;

/// Tells an event, in pieces that can be sent. Each can be taken by itself.
pub(super) fn tell_in_pieces(tx: &mut Transaction<'_>, event: &TokenEvent) -> Result<(), Error> {
    match event {
        TokenEvent::Issued(tokens) => tokens
            .chunks(EVENT_TOKENS_MAX)
            .try_for_each(|tokens| tell(tx, &TokenEvent::Issued(tokens.to_vec()))),
        TokenEvent::Updated { consumed, produced, broken } => {
            let pieces = consumed.len().max(produced.len()).max(broken.len()).div_ceil(EVENT_TOKENS_MAX);
            for piece in 0..pieces {
                tell(
                    tx,
                    &TokenEvent::Updated {
                        consumed: piece_of(consumed, piece),
                        produced: piece_of(produced, piece),
                        broken: piece_of(broken, piece),
                    },
                )?;
            }
            Ok(())
        }
        other => tell(tx, other),
    }
}

fn piece_of<T: Clone>(list: &[T], piece: usize) -> Vec<T> {
    list.chunks(EVENT_TOKENS_MAX).nth(piece).unwrap_or_default().to_vec()
}

pub(super) fn tell(tx: &mut impl GenericClient, event: &TokenEvent) -> Result<(), Error> {
    let json = String::from_utf8(event.to_json()).expect("JSON is text");
    tx.execute("INSERT INTO token_change (event) VALUES ($1)", &[&json])?;
    Ok(())
}

impl Store {
    /// Adds new tokens, all or none. The inner result says which of them is there already, or was consumed.
    pub fn issue_tokens(
        &mut self,
        tokens: &[Token],
        now: Option<Millis>,
    ) -> Result<Result<TokenEvent, Refusal>, Error> {
        let mut ids = BTreeSet::new();
        if let Some(twin) = tokens.iter().find(|token| !ids.insert(token.id.as_str())) {
            return Ok(Err(Refusal::TokenExists(twin.id.clone())));
        }
        self.retrying(|store| {
            let mut tx = store.client.transaction()?;
            let new = insert_locks(&mut tx, &ids, false)?;
            if let Some(known) = tokens.iter().find(|token| !new.contains(token.id.as_str())) {
                let sql = "SELECT spent FROM token_lock WHERE token_id = $1";
                let spent: bool = tx.query_one(sql, &[&known.id.as_str()])?.get(0);
                let id = known.id.clone();
                return Ok(Err(if spent { Refusal::TokenConsumed(id) } else { Refusal::TokenExists(id) }));
            }
            insert_tokens(&mut tx, &tokens.iter().collect::<Vec<_>>(), moment(now))?;
            let event = TokenEvent::Issued(tokens.to_vec());
            tell_in_pieces(&mut tx, &event)?;
            tx.commit()?;
            Ok(Ok(event))
        })
    }

    /// Takes over what another ledger did, in any order: what was consumed never comes alive, also if it is produced later.
    /// What is known already is left out of the event; without an event nothing was new. The inner result says which token
    /// cannot go.
    pub fn update_tokens(
        &mut self,
        consumed: &[TokenId],
        produced: &[Token],
        now: Option<Millis>,
    ) -> Result<Result<Option<TokenEvent>, Refusal>, Error> {
        self.retrying(|store| {
            let mut tx = store.client.transaction()?;
            let locked = lock_in_order(&mut tx, consumed.iter().map(TokenId::as_str))?;
            let event = update(&mut tx, (consumed, &locked), produced, OfTransfers::Refused, moment(now))?;
            if event.is_ok() {
                tx.commit()?;
            }
            Ok(event)
        })
    }

    /// Takes over a batch of updates; those that cannot be read become dead letters.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn token_updates(&mut self, claim: &Claim, batch: &Batch<'_, TokenUpdate>) -> Result<Step, Error> {
        let step = self.run(claim, batch, |store, part| part.step(store, Updates(part.read())))?;
        if matches!(&step, Step::Done(done) if done.messages > 0) {
            self.tell_token_change();
        }
        Ok(step)
    }
}

/// Updates, which the database itself judges: that is done where they are written.
struct Updates<'p, 'm>(Reading<'p, 'm, TokenUpdate>);

impl<'m> Work<'m> for Updates<'_, 'm> {
    type Known = Millis;
    type Rows = Vec<Readable<'m, TokenUpdate>>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Millis, Error> {
        step.loader().clock()
    }

    fn decide(self, now: Millis, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, messages, outbox } = self.0;
        Some(part.decided(now, outbox, messages))
    }

    fn write(
        updates: Vec<Readable<'m, TokenUpdate>>,
        step: &mut Opened<'_>,
        outbox: &mut Outbox<'m>,
    ) -> Result<(), Error> {
        // Of all messages at once: one after the other they would be locked in no order.
        let consumed = updates.iter().flat_map(|(_, message)| message.consumed.iter().map(TokenId::as_str));
        let locked = lock_in_order(&mut step.tx, consumed)?;
        for (incoming, TokenUpdate { consumed, produced, .. }) in updates {
            let mut part = step.tx.transaction()?;
            match update(&mut part, (consumed, &locked), produced, OfTransfers::Remembered, None)? {
                Ok(event) => {
                    part.commit()?;
                    event.iter().for_each(|event| step.written.token_event(event));
                }
                Err(refusal) => {
                    part.rollback()?;
                    outbox.bury(incoming.dead(step.source, refusal.to_string()));
                }
            }
        }
        Ok(())
    }
}

/// Locks all that updates of these tokens may touch: first the selections that hold them, then the tokens, each in order. Spends
/// and holds do the same, so that nobody waits for another who waits for him. Which tokens were there to be locked.
fn lock_in_order<'a>(
    tx: &mut Transaction<'_>,
    consumed: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, Error> {
    let ids: BTreeSet<&str> = consumed.into_iter().collect();
    if ids.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids: Vec<&str> = ids.into_iter().collect();
    let holders = tx.query(
        "SELECT DISTINCT spender_tx_id FROM token_lock
         WHERE token_id = ANY($1) AND NOT spent AND spender_tx_id IS NOT NULL",
        &[&ids],
    )?;
    let holders: Vec<&str> = holders.iter().map(|row| row.get(0)).collect();
    // A step that is just making a hold of its claim is waited for.
    tx.execute(
        "SELECT 1 FROM token_selection WHERE spender_tx_id = ANY($1) ORDER BY spender_tx_id FOR UPDATE",
        &[&holders],
    )?;
    // Whoever took one meanwhile was first; then it is begun anew.
    let locked = tx.query(
        "WITH tokens AS MATERIALIZED (
             SELECT token_id, spender_tx_id FROM token_lock WHERE token_id = ANY($1) AND NOT spent
             ORDER BY token_id FOR UPDATE)
         SELECT token_id, CASE WHEN spender_tx_id IS NOT NULL AND spender_tx_id <> ALL($2) THEN token_race() END
         FROM tokens",
        &[&ids, &holders],
    )?;
    Ok(locked.iter().map(|row| row.get(0)).collect())
}

/// What becomes of a consumed token that a transfer or checkout holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfTransfers {
    /// The whole update is refused; whoever asked may ask again.
    Refused,
    /// It is remembered, and goes when the hold ends: nobody would tell of it again.
    Remembered,
}

/// An update within a transaction, after [`lock_in_order`], which has locked what was there by then; the event is told in the
/// same. A refusal leaves rows behind that must be undone.
fn update(
    tx: &mut Transaction<'_>,
    (consumed, locked): (&[TokenId], &BTreeSet<String>),
    produced: &[Token],
    of_transfers: OfTransfers,
    now: Option<Moment>,
) -> Result<Result<Option<TokenEvent>, Refusal>, Error> {
    let gone: BTreeSet<&str> = consumed.iter().map(TokenId::as_str).collect();
    let came: BTreeMap<&str, &Token> = produced
        .iter()
        .rev()
        .map(|token| (token.id.as_str(), token))
        .filter(|(id, _)| !gone.contains(id))
        .collect();
    // What never was is dead from now on.
    let dead = insert_locks(tx, &gone, true)?;
    if let Some(id) = dead.iter().find(|id| id.starts_with(HOLD_PREFIX)) {
        // It would be in the way of a transfer that is yet to pay out.
        let why = format!(
            "token ids that begin with {HOLD_PREFIX} are made by transfers and checkouts alone; {id} is not there"
        );
        return Ok(Err(Refusal::Invalid(why)));
    }
    // What came between that and this may be in somebody's hand, or about to be held.
    let came_since = gone.iter().copied().filter(|id| !dead.contains(*id) && !locked.contains(*id));
    lock_in_order(tx, came_since)?;
    let ids: Vec<&str> = gone.iter().copied().collect();
    let rows = tx.query(
        "SELECT l.token_id, l.spender_tx_id, l.fence, s.payee_wallet IS NOT NULL FROM token_lock l
         LEFT JOIN LATERAL (SELECT * FROM token_selection WHERE spender_tx_id = l.spender_tx_id OFFSET 0) s
             ON s.fence = l.fence AND s.state = 'HELD'
         WHERE l.token_id = ANY($1) AND NOT l.spent ORDER BY l.token_id",
        &[&ids],
    )?;
    let mut consumed: Vec<&str> = Vec::new();
    let mut kept: Vec<&str> = Vec::new();
    let mut held: BTreeSet<(&str, i64)> = BTreeSet::new();
    for row in &rows {
        let (id, holder): (&str, Option<&str>) = (row.get(0), row.get(1));
        match (holder, row.get(2), row.get(3), of_transfers) {
            (Some(holder), _, true, OfTransfers::Refused) => {
                let why = format!("token {id} is held by transfer or checkout {holder}; end that first");
                return Ok(Err(Refusal::Invalid(why)));
            }
            (Some(holder), _, true, OfTransfers::Remembered) => {
                tracing::warn!(
                    token = id,
                    holder,
                    "another ledger has consumed what a transfer or checkout holds"
                );
                kept.push(id);
            }
            (Some(holder), Some(fence), false, _) => {
                held.insert((holder, fence));
                consumed.push(id);
            }
            _ => consumed.push(id),
        }
    }
    tx.execute("UPDATE token_lock SET gone_outside = true WHERE token_id = ANY($1)", &[&kept])?;
    tx.execute("UPDATE token_lock SET spent = true WHERE token_id = ANY($1)", &[&consumed])?;
    let Broken { selections, .. } = break_selections(tx, &held, now)?;
    let new = insert_locks(tx, &came.keys().copied().collect(), false)?;
    let produced: Vec<&Token> = new.iter().filter_map(|id| came.get(id.as_str()).copied()).collect();
    insert_tokens(tx, &produced, now)?;
    let produced: Vec<Token> = produced.into_iter().cloned().collect();
    if consumed.is_empty() && produced.is_empty() {
        return Ok(Ok(None));
    }
    let consumed = consumed.into_iter().map(TokenId::from).collect();
    let event = TokenEvent::Updated { consumed, produced, broken: selections };
    tell_in_pieces(tx, &event)?;
    Ok(Ok(Some(event)))
}

/// Selections that were ended.
#[derive(Debug, Default)]
pub(super) struct Broken {
    /// Those that were live, in any order.
    pub(super) selections: Vec<(Name, u64)>,
    /// What of their tokens is not free, but spent from now on: another ledger has consumed it meanwhile.
    pub(super) gone: Vec<TokenId>,
}

/// Ends selections; what they still hold is free, or goes if another ledger has consumed it.
pub(super) fn break_selections(
    tx: &mut Transaction<'_>,
    held: &BTreeSet<(&str, i64)>,
    now: Option<Moment>,
) -> Result<Broken, Error> {
    let mut broken = Broken::default();
    if held.is_empty() {
        return Ok(broken);
    }
    let (spenders, fences): (Vec<&str>, Vec<i64>) = held.iter().copied().unzip();
    let rows = tx.query(
        "WITH given AS (
             UPDATE token_selection s SET state = 'RELEASED', changed_at = coalesce($3::timestamptz, hub_clock())
             FROM unnest($1::text[], $2::bigint[]) AS h (spender, fence)
             WHERE s.spender_tx_id = h.spender AND s.spender_tx_id = ANY($1) AND s.fence = h.fence
                 AND s.state = 'HELD'
             RETURNING s.spender_tx_id, s.fence, s.token_ids),
         freed AS (
             UPDATE token_lock l SET spender_tx_id = NULL, expires_at = NULL, spent = l.gone_outside, gone_outside = false
             FROM given g
             WHERE l.token_id = ANY(g.token_ids) AND l.spender_tx_id = g.spender_tx_id AND l.fence = g.fence
                 AND NOT l.spent
             RETURNING l.token_id, l.spent)
         SELECT spender_tx_id, fence, NULL FROM given
         UNION ALL SELECT NULL, NULL, token_id FROM freed WHERE spent",
        &[&spenders, &fences, &now],
    )?;
    for row in &rows {
        match (row.get::<_, Option<&str>>(0), row.get::<_, Option<i64>>(1), row.get::<_, Option<&str>>(2)) {
            (Some(spender), Some(fence), _) => {
                broken.selections.push((spender.into(), unsigned("token_selection", fence)?));
            }
            (_, _, Some(gone)) => broken.gone.push(gone.into()),
            _ => {}
        }
    }
    Ok(broken)
}
