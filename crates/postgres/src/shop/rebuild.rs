//! Starting, and taking over a partition of `outcomes`: what is open is rebuilt from the log, and what was left half-way goes
//! on, in one transaction that also moves the offset to the end of what was folded.

use std::collections::{BTreeSet, HashSet};

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::{Effects as Did, LogBounds, Record, Told};
use holdfast_domain::shop::{Alarm, OrderId, OrderState, TryKey};
use holdfast_messages::OutcomeMessage;
use postgres::Transaction;

use super::load::{self, Lock};
use super::open::follow;
use super::outcomes::note_oldest;
use super::rows::ShopRows;
use super::settle::Settling;
use super::{report, write};
use crate::batch::Done;
use crate::guard::{Guard, unsigned};
use crate::hung::folding_max;
use crate::incoming::Incoming;
use crate::load::Loader;
use crate::session::{Point, Statements, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error, Source};

/// So many orders are asked for at a time.
const ORDERS_AT_ONCE: usize = 10_000;

/// What became of a rebuild.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once for each takeover")]
pub enum Rebuilt {
    /// The consumer may begin at `next`, with this coordinator.
    Done {
        /// What is open.
        coordinator: Coordinator,
        /// The next offset to read.
        next: u64,
        /// The step in numbers. Its alarms tell if the log no longer has what was needed.
        done: Box<Done>,
    },
    /// Somebody else has claimed the partition meanwhile. Nothing was written.
    Fenced,
}

impl Store {
    /// From where a partition of `outcomes` has to be read to know what is open; `None`: from its beginning.
    ///
    /// # Errors
    /// If the database fails.
    pub fn outcome_offset(&mut self, partition: u32) -> Result<Option<u64>, Error> {
        let source = Source::Consumer(holdfast_messages::Topic::Outcomes, partition);
        let row = self
            .client
            .query_opt("SELECT value FROM outcome_offset WHERE partition = $1", &[&source.enumeration()])?;
        row.map(|row| unsigned("outcome_offset", row.get(0))).transpose()
    }

    /// Makes the coordinator of a partition that was just claimed. `log`: what of it is there; `records`: all of it from
    /// [`Store::outcome_offset`] on, ascending; what lies before the log's start is gone, which is reported and survived.
    ///
    /// What has both outcomes and no decision is decided now, and what was not answered is asked again.
    ///
    /// # Errors
    /// As [`Store::transfers`]; [`Error::Newer`] is for messages with versions, which these have not.
    pub fn rebuild_outcomes(
        &mut self,
        claim: &Claim,
        log: LogBounds,
        records: &[Incoming<OutcomeMessage>],
    ) -> Result<Rebuilt, Error> {
        self.retrying(|store| store.try_rebuild(claim, log, records))
    }

    fn try_rebuild(
        &mut self,
        claim: &Claim,
        log: LogBounds,
        records: &[Incoming<OutcomeMessage>],
    ) -> Result<Rebuilt, Error> {
        let stored = self.outcome_offset(claim.source.number())?;
        let Store { client, statements, settings, watch, .. } = self;
        let mut tx = client.transaction()?;
        watch.reached(Point::Begun);
        // A long log is folded meanwhile. Should this node hang in it, the partition must not be locked for ever.
        let idle_max = folding_max(settings.idle_timeout).as_millis();
        tx.batch_execute(&format!("SET LOCAL idle_in_transaction_session_timeout = {idle_max}"))?;
        let Some(guard) = Guard::lock(&mut tx, statements, claim)? else { return Ok(Rebuilt::Fenced) };
        watch.reached(Point::GuardLocked);
        let mut besides = Besides::default();
        // What could not be read was buried when the offset passed it.
        let unread = records.partition_point(|record| record.offset < guard.offset);
        besides.sort_out(claim.source, &records[unread..], None);
        let open = open_orders(&mut tx, statements)?;
        let (first, _) = log.first_to_read(stored);
        let folded = not_over(records, first, &open);
        let keys: BTreeSet<&TryKey> = folded.iter().map(|record| &record.message.key).collect();
        let mut rows = ShopRows::default();
        let rebuild = |rows: &ShopRows| Coordinator::rebuild(rows, stored, log, &folded);
        let (mut coordinator, mut did) = decide(&mut tx, statements, &mut rows, &keys, rebuild)?;
        load::keys(&mut tx, statements, &mut rows, [])?;
        let mut loader = Loader::new(&mut tx, statements);
        let paid = paid(&did);
        let charged = loader.lock_reserved(&paid)?;
        let now = loader.clock()?;
        let loaded = loader.loaded;
        watch.reached(Point::Loaded);

        let mut settling = Settling::new(&charged, &loaded, now);
        paid.iter().for_each(|key| settling.settle(&mut rows, key, &mut besides));
        let effects = settling.charges.into_effects();
        if !rows.unsettled.is_empty() {
            // The same again, with those failing that could not be settled.
            (coordinator, did) = rebuild(&rows);
        }
        let mut alarms = std::mem::take(&mut did.alarms);
        if guard.offset > log.end && stored.is_none_or(|stored| stored <= log.end) {
            alarms.push(Alarm::OffsetAboveLog { stored: guard.offset, end: log.end });
        }
        let oldest = did.outcome_offset;
        follow(&mut rows, &coordinator, did, keys.iter().copied(), now, &mut besides);
        report(&alarms);
        watch.reached(Point::Decided);

        write::write(&mut tx, statements, &rows, settings, now)?;
        note_oldest(&mut tx, statements, claim.source, oldest, now, &mut besides)?;
        let next = guard.offset.max(log.end);
        let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
        let moves_tokens = loaded.pledged.moves(&effects);
        let guard = writer.write(guard, next, loaded, &effects, &besides, 0)?;
        tx.commit()?;
        watch.reached(Point::Committed);
        if moves_tokens {
            self.tell_token_change();
        }
        let (dead_letters, tally) = (besides.dead_letters.len(), besides.tally);
        let outbox = besides.numbered(&guard);
        let (messages, transactions) = (records.len(), 1);
        let done = Done {
            messages,
            dead_letters,
            outbox,
            transactions,
            time: now,
            alarms,
            tally,
            ..Done::default()
        };
        Ok(Rebuilt::Done { coordinator, next, done: Box::new(done) })
    }
}

/// Rebuilds over orders that are not locked, locks those that it wants to move, and rebuilds again where one of them was another
/// meanwhile. What is over is most of a log, and is locked by nobody.
fn decide(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    rows: &mut ShopRows,
    keys: &BTreeSet<&TryKey>,
    rebuild: impl Fn(&ShopRows) -> (Coordinator, Did),
) -> Result<(Coordinator, Did), Error> {
    let named: BTreeSet<&OrderId> = keys.iter().map(|key| &key.order_id).collect();
    let named: Vec<&OrderId> = named.into_iter().collect();
    for some in named.chunks(ORDERS_AT_ONCE) {
        load::orders(tx, statements, rows, some.iter().copied(), Lock::None)?;
    }
    // Of open tries the row is written too, if it does not know what the log knows.
    let mut locked: BTreeSet<OrderId> = rows.checkouts.keys().cloned().collect();
    load::orders(tx, statements, rows, &locked, Lock::Wait)?;
    loop {
        let (coordinator, did) = rebuild(rows);
        let sent = did.sent.iter().map(|message| &message.key.order_id);
        let moved = did.orders.iter().map(|order| &order.order_id).chain(sent);
        let more: BTreeSet<OrderId> = moved.filter(|id| !locked.contains(*id)).cloned().collect();
        if more.is_empty() {
            // One that is open by now and was not when it was first read may not be written: it is not locked.
            rows.checkouts.retain(|order, _| locked.contains(order));
            return Ok((coordinator, did));
        }
        load::orders(tx, statements, rows, &more, Lock::Wait)?;
        locked.extend(more);
    }
}

/// The tries that are paid by it.
fn paid(did: &Did) -> BTreeSet<TryKey> {
    let paid = did.orders.iter().filter_map(|order| match order.state {
        OrderState::Paid(tr) => Some(order.key(tr)),
        OrderState::NotPaid(_) | OrderState::Pending(_) | OrderState::Cancelling(_) => None,
    });
    paid.collect()
}

/// The orders that are open now, of all partitions: few, whatever the log's length.
fn open_orders(tx: &mut Transaction<'_>, statements: &Statements) -> Result<HashSet<OrderId>, Error> {
    let statement = statements
        .asked
        .prepared(tx, "SELECT order_id FROM orders WHERE state IN ('pending', 'cancelling')")?;
    let rows = tx.query(&statement, &[])?;
    rows.iter().map(|row| load::id("orders", row.get(0))).collect()
}

/// The records from there on, without those of tries of which the log has said everything, if their orders agree.
fn not_over(records: &[Incoming<OutcomeMessage>], first: u64, open: &HashSet<OrderId>) -> Vec<Record> {
    let from = records.partition_point(|record| record.offset < first);
    let said = || {
        records[from..]
            .iter()
            .filter_map(|record| Some((record.offset, record.message.as_ref().ok()?.said())))
    };
    let mut told = Told::default();
    said().for_each(|(_, message)| told.hear(message));
    said()
        .filter(|(_, message)| open.contains(&message.key.order_id) || !told.is_over(&message.key))
        .map(|(offset, message)| Record { offset, message: message.clone() })
        .collect()
}
