//! The thread that has the connection: leases, ends, what is due, and the messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use holdfast_database::limits::{SCAN_EVERY, TROUBLE_PAUSE};
use holdfast_database::{Part, Shards};
use holdfast_domain::ids::ParticipantId;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_postgres::{Claim, DueCallback, Error, Source, Store};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::super::lane::{Census, Job};
use super::super::meters::Meters;
use super::slot::{Attempted, Slot, Slots};
use super::{DEAD_COUNTED_MAX, LOOK_EVERY, writing};
use crate::options::{CallbackOptions, END_WAIT_MAX, LANE_IN_FLIGHT_MAX, SYNC_INTERVAL};
use crate::post::Post;
use crate::request::Failure;

/// What the thread waits for.
pub(super) enum Event {
    /// An attempt has ended, of the slot of that generation.
    Attempted(u64, Attempted),
    /// Look around.
    Wake,
}

pub(super) struct Courier {
    runtime: Handle,
    connect: Box<dyn Fn() -> Result<Store, Error> + Send>,
    store: Option<Store>,
    shards: Shards,
    slots: Slots,
    options: CallbackOptions,
    post: Arc<Post>,
    events: Sender<Event>,
    received: Receiver<Event>,
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

impl Courier {
    #[allow(clippy::too_many_arguments, reason = "its one caller puts it together")]
    pub(super) fn new(
        runtime: Handle,
        connect: Box<dyn Fn() -> Result<Store, Error> + Send>,
        node: i64,
        shards: i16,
        options: CallbackOptions,
        post: Arc<Post>,
        events: Sender<Event>,
        received: Receiver<Event>,
        part: Arc<Part>,
    ) -> Courier {
        Courier {
            runtime,
            connect,
            store: None,
            shards: Shards::new(node, shards, Source::callback),
            slots: Slots::default(),
            options,
            post,
            events,
            received,
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
        while !over.load(Ordering::Acquire) {
            let went = self.with_store(Courier::round);
            self.told(went);
            self.await_events(self.pause());
        }
        self.end();
    }

    /// How long nothing happens unless something ends.
    fn pause(&self) -> Duration {
        if self.is_troubled {
            return TROUBLE_PAUSE;
        }
        if self.is_busy {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let next = self.slots.by_participant.values().filter_map(Slot::look_again_at).min();
        next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(now).min(LOOK_EVERY))
    }

    /// Takes what has ended, after waiting for the first.
    fn await_events(&mut self, wait: Duration) {
        let first = match self.received.recv_timeout(wait) {
            Ok(event) => event,
            // We hold a sender ourselves.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        };
        let mut next = Some(first);
        while let Some(event) = next {
            if let Event::Attempted(generation, attempted) = event {
                self.slots.attempted(generation, attempted, Instant::now(), self.options.attempts_max);
            }
            next = self.received.try_recv().ok();
        }
    }

    fn with_store(&mut self, work: fn(&mut Courier, &mut Store) -> Result<(), Error>) -> Result<(), Error> {
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
        self.start(store)?;
        if self.shown.is_none_or(|at| at.elapsed() >= SYNC_INTERVAL) {
            self.shown = Some(Instant::now());
            self.show(store)?;
        }
        Ok(())
    }

    fn renew(&mut self, store: &mut Store) -> Result<(), Error> {
        let now = Instant::now();
        if self.renewed.is_none_or(|at| now.duration_since(at) >= SCAN_EVERY) {
            // Slots look at the claims themselves.
            self.shards.renew(store, |_| ())?;
            self.renewed = Some(now);
        }
        Ok(())
    }

    /// What becomes of a participant whose shard is another node's is that node's business.
    fn drop_lost(&mut self) {
        let shards = &self.shards;
        self.slots.by_participant.retain(|to, slot| shards.claim_of(to.0) == Some(slot.claim));
    }

    /// Writes down what became of attempts, shard by shard.
    fn write_ends(&mut self, store: &mut Store) -> Result<(), Error> {
        let slots = self.slots.by_participant.values_mut();
        for slot in slots.filter(|slot| !slot.ends.is_empty()) {
            let ends = &slot.ends;
            let (delivered, failed, dead) = (ends.delivered.len(), ends.failed.len(), ends.dead.len());
            let mut ours = true;
            if delivered > 0 {
                ours &= store.callbacks_ended(&slot.claim, &ends.delivered)?;
            }
            if ours && failed > 0 {
                ours &= store.callbacks_failed(&slot.claim, &ends.failed)?;
            }
            if ours && dead > 0 {
                ours &= store.callbacks_dead(&slot.claim, &ends.dead)?;
            }
            if !ours {
                self.shards.lost(&slot.claim);
                continue;
            }
            slot.written();
            self.meters.delivered.increment(delivered as u64);
            self.meters.failed_attempts.increment((failed + dead) as u64);
            self.meters.dead.increment(dead as u64);
        }
        Ok(())
    }

    /// Takes in hand what is due, as far as there is room.
    fn take_due(&mut self, store: &mut Store) -> Result<(), Error> {
        let slots = &self.slots.by_participant;
        let in_hand: Vec<u64> = slots.values().flat_map(Slot::in_hand).collect();
        let full = slots.iter().filter(|(_, slot)| slot.is_full());
        let full: Vec<ParticipantId> = full.map(|(to, _)| *to).collect();
        let room = self.options.connections_max.saturating_sub(in_hand.len());
        let claims: Vec<Claim> = self.shards.held().map(|(_, claim)| claim).collect();
        let due = store.due_callbacks(&claims, &in_hand, &full, LANE_IN_FLIGHT_MAX, room)?;
        self.is_busy = !due.is_empty();
        for callback in due {
            let to = callback.to;
            let Some(claim) = self.shards.claim_of(to.0) else { continue };
            self.slots.of(to, claim, &self.options).take(callback);
        }
        Ok(())
    }

    /// Writes what may go out now, and sends it.
    fn start(&mut self, store: &mut Store) -> Result<(), Error> {
        let now = Instant::now();
        let mut started: Vec<(u64, Job, DueCallback)> = Vec::new();
        for slot in self.slots.by_participant.values_mut() {
            let generation = slot.generation;
            started.extend(slot.start(now).into_iter().map(|(job, due)| (generation, job, due)));
        }
        if started.is_empty() {
            return Ok(());
        }
        let callbacks: Vec<DueCallback> = started.iter().map(|(_, _, due)| *due).collect();
        let facts = match store.callback_facts(&callbacks) {
            Ok(facts) => facts,
            Err(error) => {
                for (_, job, _) in started {
                    if let Some(slot) = self.slots.by_participant.get_mut(&job.row.to) {
                        slot.untried(job, now);
                    }
                }
                return Err(error);
            }
        };
        let wall = self.clock.read().wall;
        for ((generation, job, _), facts) in started.into_iter().zip(facts) {
            let (url, envelope) = writing::write(&job.row, facts, wall);
            let (post, events) = (Arc::clone(&self.post), self.events.clone());
            let limit = self.options.attempt_time_max;
            self.runtime.spawn(async move {
                let outcome = match envelope {
                    Err(failure) => Err(failure),
                    Ok(envelope) => timeout(limit, post.send(job.row.to, envelope))
                        .await
                        .unwrap_or_else(|_| Err(Failure::passing(format!("no answer within {limit:?}")))),
                };
                // The thread may have ended: then the callback is repeated.
                let ended = Event::Attempted(generation, Attempted { job, url, outcome });
                let _: Result<(), _> = events.send(ended);
            });
        }
        Ok(())
    }

    fn show(&mut self, store: &mut Store) -> Result<(), Error> {
        // An idle participant needs no slot, unless its last failures are to be remembered for a while.
        self.slots.by_participant.retain(|_, slot| !slot.is_empty() || slot.is_troubled());
        self.post.close_idle();
        let dead = store.count_dead_callbacks(DEAD_COUNTED_MAX)?;
        self.meters.show(self.census(), usize::try_from(dead).unwrap_or(usize::MAX), 0);
        Ok(())
    }

    fn census(&self) -> Census {
        self.slots.by_participant.values().map(Slot::census).fold(Census::default(), |sum, lane| Census {
            waiting: sum.waiting + lane.waiting,
            resting: sum.resting + lane.resting,
            in_flight: sum.in_flight + lane.in_flight,
        })
    }

    /// Gives what is under way a while to end, writes it down, and gives the shards up.
    fn end(&mut self) {
        let deadline = Instant::now() + END_WAIT_MAX;
        while self.census().in_flight > 0 && Instant::now() < deadline {
            let went = self.with_store(|courier, store| {
                courier.renew(store)?;
                courier.write_ends(store)
            });
            self.told(went);
            self.await_events(LOOK_EVERY);
        }
        let cut = self.census().in_flight;
        if cut > 0 {
            tracing::warn!(cut, "some callbacks did not end in time; another node repeats them");
        }
        let went = self.with_store(|courier, store| {
            courier.write_ends(store)?;
            courier.shards.give_up(store)
        });
        if let Err(error) = went {
            tracing::warn!(%error, "shards of callbacks are not given up; others take them when their leases have ended");
        }
    }
}
