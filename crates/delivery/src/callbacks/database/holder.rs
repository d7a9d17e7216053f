//! The thread that has the connection: leases, ends, what is due, and the messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_database::limits::{SCAN_EVERY, TROUBLE_PAUSE};
use holdfast_database::{Part, Shards};
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::Millis;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_hub::CallbackRow;
use holdfast_postgres::{CallbackFacts, Claim, DueCallback, Error, Source, Store};

use super::super::callback::Callback;
use super::super::message::Facts;
use super::super::meters::Meters;
use super::super::requests::{Written, written};
use super::rows::Rows;
use super::under_way::{Ends, Held};
use super::{DEAD_COUNTED_MAX, DatabaseCallbackSettings, LOOK_EVERY};
use crate::lanes::Lanes;
use crate::options::{CallbackOptions, END_WAIT_MAX, LANE_IN_FLIGHT_MAX, SYNC_INTERVAL};
use crate::request::Failure;

/// Holds shards and has their callbacks delivered.
pub(super) struct ShardHolder {
    connect: Box<dyn Fn() -> Result<Store, Error> + Send>,
    store: Option<Store>,
    shards: Shards,
    lanes: Arc<Lanes<Rows>>,
    options: CallbackOptions,
    meters: Meters,
    clock: SystemClock,
    renewed: Option<Instant>,
    shown: Option<Instant>,
    /// The last look found as much as it may: there is more.
    is_busy: bool,
    is_troubled: bool,
    /// Where trouble is seen.
    part: Arc<Part>,
}

impl ShardHolder {
    pub(super) fn new(settings: DatabaseCallbackSettings, lanes: Arc<Lanes<Rows>>) -> ShardHolder {
        let DatabaseCallbackSettings { connect, node, shards, options, part, .. } = settings;
        ShardHolder {
            connect,
            store: None,
            shards: Shards::new(node, shards, Source::Callback),
            lanes,
            options,
            meters: Meters::default(),
            clock: SystemClock::new(),
            renewed: None,
            shown: None,
            is_busy: false,
            is_troubled: false,
            part,
        }
    }

    pub(super) fn run(mut self, over: &AtomicBool) {
        // What ends from here on wakes this thread.
        self.lanes.source.holder.get_or_init(std::thread::current);
        while !over.load(Ordering::Acquire) {
            let went = self.with_store(ShardHolder::round);
            self.told(went);
            std::thread::park_timeout(self.pause());
        }
        self.end();
    }

    /// How long nothing happens unless something ends.
    const fn pause(&self) -> Duration {
        match (self.is_troubled, self.is_busy) {
            (true, _) => TROUBLE_PAUSE,
            (false, true) => Duration::ZERO,
            (false, false) => LOOK_EVERY,
        }
    }

    fn with_store(
        &mut self,
        work: fn(&mut ShardHolder, &mut Store) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut store = match self.store.take() {
            Some(store) => store,
            None => (self.connect)()?,
        };
        work(self, &mut store)?;
        // One that failed is not used again.
        self.store = Some(store);
        Ok(())
    }

    fn told(&mut self, went: Result<(), Error>) {
        match went {
            Ok(()) => {
                if self.is_troubled {
                    self.meters.unreadable.set(0.0);
                    self.is_troubled = false;
                }
                self.part.works();
            }
            Err(error) => {
                // Which says it once.
                self.part
                    .fails(format!("callbacks cannot be read; none is delivered until they can: {error}"));
                self.meters.unreadable.set(1.0);
                self.is_troubled = true;
            }
        }
    }

    fn round(&mut self, store: &mut Store) -> Result<(), Error> {
        self.renew(store)?;
        self.write_ends(store)?;
        self.drop_lost();
        self.take_due(store)?;
        if self.shown.is_none_or(|at| at.elapsed() >= SYNC_INTERVAL) {
            self.shown = Some(Instant::now());
            self.show(store)?;
        }
        Ok(())
    }

    fn renew(&mut self, store: &mut Store) -> Result<(), Error> {
        let now = Instant::now();
        if self.renewed.is_none_or(|at| now.duration_since(at) >= SCAN_EVERY) {
            // What is in hand is compared with the claims later.
            self.shards.renew(store, |_| ())?;
            self.renewed = Some(now);
        }
        Ok(())
    }

    /// What becomes of a participant whose shard is another node's is that node's business.
    fn drop_lost(&self) {
        let lost = self.lanes.source.under_way().drop_lost(|to| self.shards.claim_of(to.0));
        self.take_out(lost);
    }

    fn take_out(&self, dropped: Vec<Held>) {
        dropped.into_iter().for_each(|held| drop(self.lanes.take_out(held)));
    }

    /// Writes down what became of attempts, shard by shard.
    fn write_ends(&mut self, store: &mut Store) -> Result<(), Error> {
        let mut all = self.lanes.source.under_way().take_ends().into_iter();
        while let Some((held, claim, ends)) = all.next() {
            let written = write_down(store, &claim, &ends);
            if matches!(written, Ok(true)) {
                self.lanes.source.under_way().written(held, &ends);
                let (delivered, failed, dead) = (ends.delivered.len(), ends.failed.len(), ends.dead.len());
                self.meters.delivered.increment(delivered as u64);
                self.meters.failed_attempts.increment((failed + dead) as u64);
                self.meters.dead.increment(dead as u64);
                continue;
            }
            self.lanes.source.under_way().put_back(held, ends);
            if let Err(error) = written {
                for (held, _, ends) in all {
                    self.lanes.source.under_way().put_back(held, ends);
                }
                return Err(error);
            }
            self.shards.lost(&claim);
        }
        Ok(())
    }

    /// Takes in hand what is due, as far as there is room, and writes the messages.
    fn take_due(&mut self, store: &mut Store) -> Result<(), Error> {
        let (in_hand, full) = {
            let under_way = self.lanes.source.under_way();
            (under_way.ids(), under_way.full())
        };
        let room = self.options.connections_max.saturating_sub(in_hand.len());
        let claims: Vec<Claim> = self.shards.held().map(|(_, claim)| claim).collect();
        let due = store.due_callbacks(&claims, &in_hand, &full, LANE_IN_FLIGHT_MAX, room)?;
        self.is_busy = !due.is_empty();
        if due.is_empty() {
            return Ok(());
        }
        let facts = store.callback_facts(&due)?;
        let wall = self.clock.read().wall;
        for (due, facts) in due.into_iter().zip(facts) {
            let DueCallback { id, to, transfer, message, decided_at, attempts, .. } = due;
            let Some(claim) = self.shards.claim_of(to.0) else { continue };
            let Some(held) = self.lanes.source.under_way().take(to, claim, id) else { continue };
            let row = CallbackRow { number: id, offset: 0, time: decided_at, to, transfer, message };
            let written = Some(Arc::new(write(&row, facts, wall)));
            self.lanes.resume(held, Callback { written, ..Callback::new(row) }, attempts);
        }
        Ok(())
    }

    fn show(&self, store: &mut Store) -> Result<(), Error> {
        // An idle participant needs no lane, unless its last failures are to be remembered for a while.
        let idle = self.lanes.source.under_way().drop_idle(|held| self.lanes.is_troubled(held));
        self.take_out(idle);
        self.lanes.source.post.close_idle();
        let dead = store.count_dead_callbacks(DEAD_COUNTED_MAX)?;
        self.meters.show(self.lanes.census(), usize::try_from(dead).unwrap_or(usize::MAX), 0);
        Ok(())
    }

    /// Gives what is under way a while to end, writes it down, and gives the shards up.
    fn end(&mut self) {
        self.lanes.stop();
        let deadline = Instant::now() + END_WAIT_MAX;
        while self.lanes.census().in_flight > 0 && Instant::now() < deadline {
            let went = self.with_store(|holder, store| {
                holder.renew(store)?;
                holder.write_ends(store)
            });
            self.told(went);
            std::thread::park_timeout(LOOK_EVERY);
        }
        let cut = self.lanes.census().in_flight;
        if cut > 0 {
            tracing::warn!(cut, "some callbacks did not end in time; another node repeats them");
        }
        let went = self.with_store(|holder, store| {
            holder.write_ends(store)?;
            holder.shards.give_up(store)
        });
        if let Err(error) = went {
            tracing::warn!(%error, "shards of callbacks are not given up; others take them when their leases have ended");
        }
    }
}

/// Writes one callback of what PostgreSQL knows about it.
fn write(row: &CallbackRow, known: CallbackFacts, now: Millis) -> Written {
    let CallbackFacts { receiver, endpoint, payer, payee, transfer, origin, alarmed } = known;
    let facts = Facts { receiver: receiver.unwrap_or_default(), endpoint, payer, payee, transfer, alarmed };
    let hands_on = matches!(
        row.message,
        CallbackMessage::ForwardPrepare | CallbackMessage::ForwardFulfil | CallbackMessage::ForwardError
    );
    let origin = match origin {
        None if hands_on => {
            let why = format!("what it hands on is not in the store: transfer {}", row.transfer);
            Err(Failure::for_good(why))
        }
        origin => Ok(origin),
    };
    written(row, &facts, origin, now)
}

/// Writes down ends of one participant. `false`: the claim is no longer the latest, and nothing more happened.
fn write_down(store: &mut Store, claim: &Claim, ends: &Ends) -> Result<bool, Error> {
    let mut ours = true;
    if !ends.delivered.is_empty() {
        ours &= store.callbacks_ended(claim, &ends.delivered)?;
    }
    if ours && !ends.failed.is_empty() {
        ours &= store.callbacks_failed(claim, &ends.failed)?;
    }
    if ours && !ends.dead.is_empty() {
        ours &= store.callbacks_dead(claim, &ends.dead)?;
    }
    Ok(ours)
}
