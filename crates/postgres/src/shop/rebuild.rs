//! Starting, and taking over a partition of `outcomes`: what is open is rebuilt from the log, and what was left half-way goes
//! on, in one transaction that also moves the offset to the end of what was folded.

use std::collections::{BTreeSet, HashSet};

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::{Effects as Did, LogBounds, Record, Told};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Alarm, OrderId, OrderState, TryKey};
use holdfast_messages::OutcomeMessage;

use super::charges::Charged;
use super::load::{Lock, id};
use super::open::follow;
use super::outcomes::note_oldest;
use super::rows::ShopRows;
use super::settle::Settling;
use crate::guard::unsigned;
use crate::hung::folding_max;
use crate::incoming::Incoming;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Done, Opened, Step, Work};
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
        let mut rebuilt = None;
        let rebuilding = Rebuilding { source: claim.source, stored, log, records, rebuilt: &mut rebuilt };
        let step = self.step(claim, None, 0, rebuilding)?;
        Ok(match (step, rebuilt) {
            (Step::Done(done), Some((coordinator, next))) => {
                Rebuilt::Done { coordinator, next, done: Box::new(done) }
            }
            _ => Rebuilt::Fenced,
        })
    }
}

/// A takeover of a partition.
struct Rebuilding<'m, 'r> {
    source: Source,
    /// From where the log has to be read, as it is stored.
    stored: Option<u64>,
    log: LogBounds,
    records: &'m [Incoming<OutcomeMessage>],
    /// What the consumer begins with: the coordinator, and the next offset to read.
    rebuilt: &'r mut Option<(Coordinator, u64)>,
}

/// What is open, by the log and by the orders' rows.
struct Known {
    folded: Vec<Record>,
    coordinator: Coordinator,
    did: Did,
    charged: Charged,
    loaded: Loaded,
    now: Millis,
    /// Where the source stands.
    offset: u64,
}

impl Rebuilding<'_, '_> {
    fn fold(&self, rows: &ShopRows, folded: &[Record]) -> (Coordinator, Did) {
        Coordinator::rebuild(rows, self.stored, self.log, folded)
    }
}

impl<'m> Work<'m> for Rebuilding<'m, '_> {
    type Known = Known;
    type Rows = Option<u64>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Known, Error> {
        // A long log is folded meanwhile. Should this node hang in it, the partition must not be locked for ever.
        let idle_max = folding_max(step.settings.idle_timeout).as_millis();
        step.tx.batch_execute(&format!("SET LOCAL idle_in_transaction_session_timeout = {idle_max}"))?;
        let offset = step.guard.offset;
        let mut loader = step.loader();
        let open = open_orders(&mut loader)?;
        let (first, _) = self.log.first_to_read(self.stored);
        let folded = not_over(self.records, first, &open);
        let (coordinator, did) = lock_moved(&mut loader, &folded, |rows| self.fold(rows, &folded))?;
        loader.keys([])?;
        let charged = loader.lock_reserved(&paid(&did))?;
        let (loaded, now) = loader.finish()?;
        Ok(Known { folded, coordinator, did, charged, loaded, now, offset })
    }

    fn decide(self, known: Known, _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Known { folded, mut coordinator, mut did, charged, mut loaded, now, offset } = known;
        let (mut rows, mut outbox) = (std::mem::take(&mut loaded.shop), Outbox::default());
        // What could not be read was buried when the offset passed it.
        let unread = self.records.partition_point(|record| record.offset < offset);
        outbox.sort_out(self.source, &self.records[unread..], None);
        let mut settling = Settling::new(&charged, &loaded, now);
        paid(&did).iter().for_each(|key| settling.settle(&mut rows, key, &mut outbox));
        let effects = settling.charges.into_effects();
        if !rows.unsettled.is_empty() {
            // The same again, with those failing that could not be settled.
            (coordinator, did) = self.fold(&rows, &folded);
        }
        let mut alarms = std::mem::take(&mut did.alarms);
        if offset > self.log.end && self.stored.is_none_or(|stored| stored <= self.log.end) {
            alarms.push(Alarm::OffsetAboveLog { stored: offset, end: self.log.end });
        }
        let oldest = did.outcome_offset;
        let heard: BTreeSet<&TryKey> = folded.iter().map(|record| &record.message.key).collect();
        follow(&mut rows, &coordinator, did, heard, now, &mut outbox);
        loaded.shop = rows;
        let next = offset.max(self.log.end);
        *self.rebuilt = Some((coordinator, next));
        let done = Done { messages: self.records.len(), alarms, ..Done::default() };
        Some(Decided { loaded, effects, done, ..Decided::new(now, next, outbox, oldest) })
    }

    fn write(oldest: Option<u64>, step: &mut Opened<'_>, outbox: &mut Outbox<'m>) -> Result<(), Error> {
        note_oldest(step, oldest, outbox)
    }
}

/// Rebuilds over orders that are not locked, locks those that it wants to move, and rebuilds again where one of them was another
/// meanwhile. What is over is most of a log, and is locked by nobody.
fn lock_moved(
    loader: &mut Loader<'_, '_>,
    folded: &[Record],
    fold: impl Fn(&ShopRows) -> (Coordinator, Did),
) -> Result<(Coordinator, Did), Error> {
    let named: BTreeSet<&OrderId> = folded.iter().map(|record| &record.message.key.order_id).collect();
    let named: Vec<&OrderId> = named.into_iter().collect();
    for some in named.chunks(ORDERS_AT_ONCE) {
        loader.orders(some.iter().copied(), Lock::None)?;
    }
    // Of open tries the row is written too, if it does not know what the log knows.
    let mut locked: BTreeSet<OrderId> = loader.loaded.shop.checkouts.keys().cloned().collect();
    loader.orders(&locked, Lock::Wait)?;
    loop {
        let (coordinator, did) = fold(&loader.loaded.shop);
        let sent = did.sent.iter().map(|message| &message.key.order_id);
        let moved = did.orders.iter().map(|order| &order.order_id).chain(sent);
        let more: BTreeSet<OrderId> = moved.filter(|id| !locked.contains(*id)).cloned().collect();
        if more.is_empty() {
            // One that is open by now and was not when it was first read may not be written: it is not locked.
            loader.loaded.shop.checkouts.retain(|order, _| locked.contains(order));
            return Ok((coordinator, did));
        }
        loader.orders(&more, Lock::Wait)?;
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
fn open_orders(loader: &mut Loader<'_, '_>) -> Result<HashSet<OrderId>, Error> {
    let sql = "SELECT order_id FROM orders WHERE state IN ('pending', 'cancelling')";
    loader.query(sql, &[])?.iter().map(|row| id("orders", row.get(0))).collect()
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
