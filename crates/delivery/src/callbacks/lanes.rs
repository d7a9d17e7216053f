//! The lanes at work: one task for each participant starts what may go, and each request is a task of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_domain::ids::{Millis, ParticipantId};
use holdfast_engine::clock::{Clock, SystemClock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep_until, timeout};

use super::dead_letters::LetterFile;
use super::desk::{Desk, Written};
use super::ended::Ended;
use super::lane::{Census, Job, Lane};
use super::letter::Letter;
use super::meters::Meters;
use crate::lanes::NotNow;
use crate::lanes::Pauses;
use crate::lanes::{Bounds, Room};
use crate::options::{CallbackOptions, END_WAIT_MAX, HUB_BUSY_PAUSE, PAUSE_MAX, REASON_CHARS_MAX};
use crate::request::{Blame, Failure};
use holdfast_engine::Retry;

/// A lane and whoever waits for it.
struct Slot {
    to: ParticipantId,
    lane: Mutex<(Lane, Pauses)>,
    changed: Notify,
    /// More of the participant's callbacks are in the store than are here.
    is_behind: AtomicBool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, (Lane, Pauses)> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whoever fills lanes up that one may want it.
#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until it was rung since the last time.
    pub(super) fn wait(&self) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let rung = self.changed.wait_while(rung, |rung| !*rung);
        *rung.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// All lanes.
pub(super) struct Lanes<D> {
    pub(super) desk: D,
    pub(super) ended: Ended,
    pub(super) letters: LetterFile,
    options: CallbackOptions,
    pub(super) meters: Meters,
    pub(super) room: Room,
    pub(super) bell: Bell,
    clock: SystemClock,
    runtime: Handle,
    slots: Mutex<HashMap<ParticipantId, Arc<Slot>>>,
    ending: watch::Sender<bool>,
    /// A request ended.
    request_ended: Notify,
}

impl<D: Desk> Lanes<D> {
    /// Lanes whose tasks run on the runtime of the caller.
    pub(super) fn new(
        desk: D,
        ended: Ended,
        letters: LetterFile,
        options: CallbackOptions,
        bounds: Bounds,
    ) -> Arc<Lanes<D>> {
        Arc::new(Lanes {
            desk,
            ended,
            letters,
            options,
            meters: Meters::default(),
            room: Room::new(bounds),
            bell: Bell::default(),
            clock: SystemClock::new(),
            runtime: Handle::current(),
            slots: Mutex::default(),
            ending: watch::Sender::new(false),
            request_ended: Notify::new(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ParticipantId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(self: &Arc<Self>, to: ParticipantId) -> Arc<Slot> {
        let mut slots = self.slots();
        let slot = slots.entry(to).or_insert_with(|| {
            let lane = (Lane::default(), Pauses::new(&self.options, to.0));
            let (lane, changed, is_behind) = (Mutex::new(lane), Notify::new(), AtomicBool::new(false));
            let slot = Arc::new(Slot { to, lane, changed, is_behind });
            self.runtime.spawn(Arc::clone(self).drive(Arc::clone(&slot)));
            slot
        });
        Arc::clone(slot)
    }

    /// How many callbacks wait for the participant.
    pub(super) fn backlog(&self, to: ParticipantId) -> usize {
        self.slots().get(&to).map_or(0, |slot| slot.lock().0.len())
    }

    /// Keeps a place for a callback of the participant, if there is room. It is to be put, or given up.
    pub(super) fn reserve(self: &Arc<Self>, to: ParticipantId) -> bool {
        let slot = self.slot(to);
        let mut lane = slot.lock();
        let taken = self.room.take(lane.0.len());
        if taken {
            lane.0.reserve();
        }
        taken
    }

    /// Puts a callback in line, in a place that was reserved.
    pub(super) fn put(self: &Arc<Self>, job: Job) {
        let slot = self.slot(job.row.to);
        slot.lock().0.put(job);
        slot.changed.notify_one();
    }

    /// Puts a callback in line that an earlier run had in line: there was room for it, and so there is.
    pub(super) fn resume(self: &Arc<Self>, job: Job) {
        self.room.take_anyway();
        self.slot(job.row.to).lock().0.reserve();
        self.put(job);
    }

    /// A place of the lane is free again.
    fn freed(&self, slot: &Slot, in_lane: usize) {
        let relief = self.room.give_back();
        if relief || slot.is_behind.load(Ordering::Acquire) && self.room.is_wanting(in_lane) {
            self.bell.ring();
        }
    }

    /// Says whether more of the participant's callbacks are in the store than in its lane.
    pub(super) fn set_behind(self: &Arc<Self>, to: ParticipantId, is_behind: bool) {
        self.slot(to).is_behind.store(is_behind, Ordering::Release);
        if is_behind {
            // Its lane may have drained before this was known.
            self.bell.ring();
        }
    }

    /// Whether the participant's lane is to be filled up from the store.
    pub(super) fn is_wanting(self: &Arc<Self>, to: ParticipantId) -> bool {
        let slot = self.slot(to);
        slot.is_behind.load(Ordering::Acquire) && self.room.is_wanting(slot.lock().0.len())
    }

    /// Tries a dead letter again. It is written down as such only when it has its place.
    pub(super) fn retry(self: &Arc<Self>, number: u64) -> std::io::Result<Retry> {
        let Some((letter, retrying)) = self.letters.get(number)? else { return Ok(Retry::Unknown) };
        let Some(job) = letter.job() else { return Ok(Retry::Unknown) };
        if retrying {
            return Ok(Retry::Already);
        }
        if !self.reserve(job.row.to) {
            return Ok(Retry::NoRoom);
        }
        let begun = self.letters.begin_retry(number);
        if matches!(begun, Ok(true)) {
            self.put(job);
            return Ok(Retry::Taken);
        }
        let slot = self.slot(job.row.to);
        let in_lane = {
            let mut lane = slot.lock();
            lane.0.release();
            lane.0.len()
        };
        self.freed(&slot, in_lane);
        begun.map(|_| Retry::Already)
    }

    /// Starts what may go, and waits for the next that may.
    async fn drive(self: Arc<Self>, slot: Arc<Slot>) {
        let mut ending = self.ending.subscribe();
        loop {
            if *ending.borrow_and_update() {
                return;
            }
            let (jobs, again) = {
                let mut lane = slot.lock();
                (lane.0.start(Instant::now()), lane.0.look_again_at())
            };
            if !jobs.is_empty() {
                self.start(&slot, jobs).await;
                continue;
            }
            let time = async {
                match again {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = slot.changed.notified() => {}
                () = time => {}
                _ = ending.changed() => {}
            }
        }
    }

    async fn start(self: &Arc<Self>, slot: &Arc<Slot>, jobs: Vec<Job>) {
        let rows = jobs.iter().map(|job| job.row).collect();
        match self.desk.write(rows).await {
            Err(NotNow) => {
                let mut lane = slot.lock();
                for job in jobs {
                    lane.0.untried(job, Instant::now(), HUB_BUSY_PAUSE);
                }
            }
            Ok(written) => {
                assert_eq!(written.len(), jobs.len(), "every callback is written or says why not");
                for (job, written) in jobs.into_iter().zip(written) {
                    tokio::spawn(Arc::clone(self).attempt(Arc::clone(slot), job, written));
                }
            }
        }
    }

    async fn attempt(self: Arc<Self>, slot: Arc<Slot>, mut job: Job, (url, envelope): Written) {
        let outcome = match envelope {
            Err(failure) => Err(failure),
            Ok(envelope) => {
                let limit = self.options.attempt_time_max;
                let sending = timeout(limit, self.desk.send(slot.to, envelope)).await;
                sending.unwrap_or_else(|_| Err(Failure::passing(format!("no answer within {limit:?}"))))
            }
        };
        match outcome {
            Err(failure) if failure.blame == Blame::Ours => {
                tracing::debug!(number = job.row.number, why = %failure.why, "a callback waits for room");
                slot.lock().0.untried(job, Instant::now(), HUB_BUSY_PAUSE);
                slot.changed.notify_one();
                self.request_ended.notify_waiters();
                return;
            }
            _ => job.attempts += 1,
        }
        match outcome {
            Ok(()) => self.delivered(&slot, &job),
            Err(failure) => self.failed(&slot, job, failure, url),
        }
        slot.changed.notify_one();
        self.request_ended.notify_waiters();
    }

    fn delivered(&self, slot: &Slot, job: &Job) {
        self.ended.end(job.row.number, slot.to, true);
        if job.from_dead_letters
            && let Err(error) = self.letters.delivered(job.row.number)
        {
            tracing::error!(%error, number = job.row.number, "a dead letter was delivered and cannot be struck off");
        }
        self.meters.delivered.increment(1);
        self.leave(slot, job, true);
    }

    /// The callback has ended and leaves its lane.
    fn leave(&self, slot: &Slot, job: &Job, delivered: bool) {
        let in_lane = {
            let mut lane = slot.lock();
            lane.0.ended(job, delivered);
            lane.0.len()
        };
        self.freed(slot, in_lane);
    }

    fn failed(&self, slot: &Slot, job: Job, failure: Failure, url: Option<String>) {
        self.meters.failed_attempts.increment(1);
        let number = job.row.number;
        tracing::debug!(number, to = slot.to.0, attempt = job.attempts, why = %failure.why, "a callback failed");
        if failure.blame != Blame::ForGood && job.attempts < self.options.attempts_max {
            let mut lane = slot.lock();
            let pause = lane.1.after(job.attempts);
            return lane.0.failed(job, Instant::now(), pause);
        }
        match self.bury(&job, failure.why, url) {
            Ok(()) => self.leave(slot, &job, false),
            Err(error) => {
                tracing::error!(%error, number, "a dead letter cannot be written; its callback is tried again");
                slot.lock().0.failed(job, Instant::now(), PAUSE_MAX);
            }
        }
    }

    /// Makes a dead letter of a callback. The letter is written first: between the two it is known twice, never not.
    fn bury(&self, job: &Job, why: String, url: Option<String>) -> std::io::Result<()> {
        let why = why.chars().take(REASON_CHARS_MAX).collect();
        self.letters.put(Letter::new(job, self.now(), why, url))?;
        if !job.from_dead_letters {
            self.ended.end(job.row.number, job.row.to, false);
        }
        self.meters.dead.increment(1);
        Ok(())
    }

    fn now(&self) -> Millis {
        self.clock.read().wall
    }

    /// Where callbacks stand, over all lanes.
    pub(super) fn census(&self) -> Census {
        let slots: Vec<Arc<Slot>> = self.slots().values().cloned().collect();
        slots.iter().map(|slot| slot.lock().0.census()).fold(Census::default(), |sum, lane| Census {
            waiting: sum.waiting + lane.waiting,
            resting: sum.resting + lane.resting,
            in_flight: sum.in_flight + lane.in_flight,
        })
    }

    /// Makes durable what was remembered, and shows where things stand. Every callback before the number that it
    /// gives has ended, and that is durable.
    pub(super) fn tidy(&self) -> Option<u64> {
        let ended = self.ended.first_open();
        let synced = self.letters.sync().and_then(|()| self.ended.sync(|| self.letters.sync()));
        self.meters.show(self.census(), self.letters.len(), self.ended.behind().len());
        self.told(synced).then_some(ended)
    }

    /// Makes all durable in such a way that the next start has little to read.
    pub(super) fn finish(&self) {
        let written = self.letters.sync().and_then(|()| self.ended.write_anew(|| self.letters.sync()));
        self.told(written);
    }

    fn told(&self, synced: std::io::Result<()>) -> bool {
        if let Err(error) = &synced {
            tracing::error!(%error, "the memory of callbacks cannot be made durable; some may be repeated");
        }
        synced.is_ok()
    }

    /// Starts nothing more and gives what is under way a while to end.
    pub(super) async fn end(&self) {
        self.ending.send_replace(true);
        let in_flight = async {
            loop {
                let ended = self.request_ended.notified();
                if self.census().in_flight == 0 {
                    return;
                }
                ended.await;
            }
        };
        if timeout(END_WAIT_MAX, in_flight).await.is_err() {
            let cut = self.census().in_flight;
            tracing::warn!(
                cut,
                "some callbacks did not end in time; they will be repeated after the next start"
            );
        }
    }
}
