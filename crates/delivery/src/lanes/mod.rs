//! The lanes at work: the one loop by which everything goes out. One task for each receiver starts what may go, and each attempt is a
//! task of its own. What goes out and what becomes of it is the business of a [`Source`].
//!
//! | room | what happens there |
//! | --- | --- |
//! | `source` | what the loop needs of a source of delivery |
//! | `lane` | order and places of one receiver's jobs, as plain state |
//! | `room` | how many jobs may be held in memory |
//! | `pauses` | how long to wait before trying again |

mod lane;
#[cfg(test)]
mod lane_tests;
mod pauses;
mod room;
mod source;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::options::{CallbackOptions, END_WAIT_MAX, HUB_BUSY_PAUSE, PAUSE_MAX};
use crate::request::{Blame, Failure};

pub(crate) use lane::{Census, Health, Lane};
pub(crate) use pauses::Pauses;
pub(crate) use room::{Bounds, Room};
pub(crate) use source::{After, Job, NotNow, Source, Tries, Verdict};

/// A receiver's lane and whoever waits for it.
struct Slot<S: Source> {
    to: S::Receiver,
    queue: Mutex<Queue<S::Job>>,
    changed: Notify,
    /// More of the receiver's jobs are where they come from than are here.
    is_behind: AtomicBool,
}

struct Queue<J: Job> {
    lane: Lane<J>,
    pauses: Pauses,
    /// It was taken out: the ends of attempts that are still being made are nobody's.
    is_gone: bool,
}

impl<S: Source> Slot<S> {
    fn lock(&self) -> MutexGuard<'_, Queue<S::Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lanes of one source.
pub(crate) struct Lanes<S: Source> {
    pub(crate) source: S,
    pub(crate) room: Room,
    /// Rung when a lane that is behind may be filled up.
    pub(crate) bell: Notify,
    options: CallbackOptions,
    runtime: Handle,
    slots: Mutex<HashMap<S::Receiver, Arc<Slot<S>>>>,
    ending: watch::Sender<bool>,
    attempt_ended: Notify,
}

impl<S: Source> Lanes<S> {
    /// Lanes whose tasks run on the runtime of the caller.
    pub(crate) fn new(source: S, options: CallbackOptions, bounds: Bounds) -> Arc<Lanes<S>> {
        Arc::new(Lanes {
            source,
            room: Room::new(bounds),
            bell: Notify::new(),
            options,
            runtime: Handle::current(),
            slots: Mutex::default(),
            ending: watch::Sender::new(false),
            attempt_ended: Notify::new(),
        })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<S::Receiver, Arc<Slot<S>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(self: &Arc<Self>, to: S::Receiver) -> Arc<Slot<S>> {
        let mut slots = self.slots();
        let slot = slots.entry(to).or_insert_with(|| {
            let pauses = Pauses::new(&self.options, S::lane_number(to));
            let queue = Queue { lane: Lane::new(S::REPEATS_IN_FLIGHT_MAX), pauses, is_gone: false };
            let (changed, is_behind) = (Notify::new(), AtomicBool::new(false));
            let slot = Arc::new(Slot { to, queue: Mutex::new(queue), changed, is_behind });
            self.runtime.spawn(Arc::clone(self).drive(Arc::clone(&slot)));
            slot
        });
        Arc::clone(slot)
    }

    /// How many jobs the receiver's lane holds.
    pub(crate) fn backlog(&self, to: S::Receiver) -> usize {
        self.slots().get(&to).map_or(0, |slot| slot.lock().lane.len())
    }

    /// Keeps a place for a job of the receiver, if there is room. It is to be put, or given up.
    pub(crate) fn reserve(self: &Arc<Self>, to: S::Receiver) -> bool {
        let slot = self.slot(to);
        let mut queue = slot.lock();
        let taken = self.room.take(queue.lane.len());
        if taken {
            queue.lane.reserve();
        }
        taken
    }

    /// Gives up a place that was reserved.
    pub(crate) fn release(self: &Arc<Self>, to: S::Receiver) {
        let slot = self.slot(to);
        let in_lane = {
            let mut queue = slot.lock();
            queue.lane.release();
            queue.lane.len()
        };
        self.freed(&slot, in_lane);
    }

    /// Puts a job in line, in a place that was reserved.
    pub(crate) fn put(self: &Arc<Self>, to: S::Receiver, job: S::Job, attempts: u32) {
        let slot = self.slot(to);
        slot.lock().lane.put(job, attempts, Instant::now());
        slot.changed.notify_one();
    }

    /// Puts a job in line for which there is room by other bounds than those of these lanes, or was in an earlier run.
    pub(crate) fn resume(self: &Arc<Self>, to: S::Receiver, job: S::Job, attempts: u32) {
        self.room.take_anyway();
        self.slot(to).lock().lane.reserve();
        self.put(to, job, attempts);
    }

    /// Something new is to be said to the receiver under this job's key: at once, whatever pause it was in. Where there is no room for
    /// it, its lane is behind.
    pub(crate) fn hasten(self: &Arc<Self>, to: S::Receiver, job: S::Job) {
        let slot = self.slot(to);
        let (is_there, more) = {
            let mut queue = slot.lock();
            let before = queue.lane.len();
            (queue.lane.hasten(job.clone(), Instant::now()), queue.lane.len() - before)
        };
        (0..more).for_each(|_| self.room.take_anyway());
        if is_there {
            slot.changed.notify_one();
        } else {
            self.find(to, job);
        }
    }

    /// Puts a job in line unless its key is there. `false`: there is no room for it now, and its lane is behind.
    pub(crate) fn find(self: &Arc<Self>, to: S::Receiver, job: S::Job) -> bool {
        let slot = self.slot(to);
        let found = {
            let mut queue = slot.lock();
            let Queue { lane, .. } = &mut *queue;
            let is_there = lane.has(&job.key());
            let has_room = !is_there && self.room.take(lane.len());
            if has_room {
                lane.reserve();
                lane.put(job, 0, Instant::now());
            }
            is_there || has_room
        };
        match found {
            true => slot.changed.notify_one(),
            false => self.set_behind(to, true),
        }
        found
    }

    /// Drops the receiver's jobs of these keys, but for those that are being tried now.
    pub(crate) fn leave(&self, to: S::Receiver, leaves: impl Fn(&<S::Job as Job>::Key) -> bool) {
        let Some(slot) = self.slots().get(&to).cloned() else { return };
        let (before, after) = {
            let mut queue = slot.lock();
            let before = queue.lane.len();
            queue.lane.leave(leaves);
            (before, queue.lane.len())
        };
        (after..before).for_each(|_| self.freed(&slot, after));
    }

    /// Blocks a thread until a lane that is behind may be filled up.
    pub(crate) fn wait_for_bell(&self) {
        self.runtime.block_on(self.bell.notified());
    }

    /// A place of the lane is free again.
    fn freed(&self, slot: &Slot<S>, in_lane: usize) {
        let relief = self.room.give_back();
        if relief || slot.is_behind.load(Ordering::Acquire) && self.room.is_wanting(in_lane) {
            self.bell.notify_one();
        }
    }

    /// Says whether more of the receiver's jobs are where they come from than in its lane.
    pub(crate) fn set_behind(self: &Arc<Self>, to: S::Receiver, is_behind: bool) {
        self.slot(to).is_behind.store(is_behind, Ordering::Release);
        if is_behind {
            // Its lane may have drained before this was known.
            self.bell.notify_one();
        }
    }

    /// Whether the receiver's lane is to be filled up.
    pub(crate) fn is_wanting(self: &Arc<Self>, to: S::Receiver) -> bool {
        let slot = self.slot(to);
        slot.is_behind.load(Ordering::Acquire) && self.room.is_wanting(slot.lock().lane.len())
    }

    /// Whether the receiver has failed for long.
    pub(crate) fn is_troubled(&self, to: S::Receiver) -> bool {
        self.slots().get(&to).is_some_and(|slot| slot.lock().lane.is_troubled())
    }

    /// Takes a lane out, with all that it holds and the attempts before. Of attempts that are being made the source hears no more.
    pub(crate) fn take_out(&self, to: S::Receiver) -> Vec<(S::Job, u32)> {
        let Some(slot) = self.slots().remove(&to) else { return Vec::new() };
        let mut queue = slot.lock();
        queue.is_gone = true;
        let lane = std::mem::replace(&mut queue.lane, Lane::new(0));
        slot.changed.notify_one();
        for _ in 0..lane.len() {
            self.room.give_back();
        }
        lane.into_jobs()
    }

    /// Starts what may go, and waits for the next that may.
    async fn drive(self: Arc<Self>, slot: Arc<Slot<S>>) {
        let mut ending = self.ending.subscribe();
        loop {
            if *ending.borrow_and_update() {
                return;
            }
            let (started, next) = {
                let mut queue = slot.lock();
                if queue.is_gone {
                    return;
                }
                (queue.lane.start(Instant::now()), queue.lane.next_start())
            };
            if !started.is_empty() {
                self.start(&slot, started).await;
                continue;
            }
            let time = async {
                match next {
                    Some(at) => sleep_until(at).await,
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

    async fn start(self: &Arc<Self>, slot: &Arc<Slot<S>>, started: Vec<(S::Job, u32)>) {
        let (prepared, tried) = self.prepare(started).await;
        if prepared.is_some() || tried.len() == 1 {
            return self.go_on(slot, prepared, tried);
        }
        // One of them breaks off whenever it is written: alone it is found out, and holds up no other.
        for one in tried {
            let (prepared, alone) = self.prepare(vec![one]).await;
            self.go_on(slot, prepared, alone);
        }
    }

    /// Has the source complete jobs; `None` if that broke off.
    async fn prepare(&self, started: Vec<(S::Job, u32)>) -> (Option<Result<(), NotNow>>, Vec<(S::Job, u32)>) {
        let (mut jobs, attempts): (Vec<S::Job>, Vec<u32>) = started.into_iter().unzip();
        let prepared = unless_panic("the writing of requests", self.source.prepare(&mut jobs)).await;
        (prepared, jobs.into_iter().zip(attempts).collect())
    }

    /// Sends what is complete; the rest is tried again, by and by.
    fn go_on(
        self: &Arc<Self>,
        slot: &Arc<Slot<S>>,
        prepared: Option<Result<(), NotNow>>,
        tried: Vec<(S::Job, u32)>,
    ) {
        for (job, attempts) in tried {
            match prepared {
                Some(Ok(())) => self.send_out(slot, job, attempts),
                Some(Err(NotNow)) => {
                    let at = Instant::now() + HUB_BUSY_PAUSE;
                    slot.lock().lane.rests(&job.key(), None, at, attempts);
                }
                None => {
                    let broke_off = Failure::passing("the writing of its request broke off");
                    self.end_attempt(slot, &job, attempts, Err(broke_off));
                }
            }
        }
        if prepared != Some(Ok(())) {
            self.attempt_ended.notify_waiters();
        }
    }

    /// Makes an attempt on a task of its own.
    fn send_out(self: &Arc<Self>, slot: &Arc<Slot<S>>, job: S::Job, attempts: u32) {
        let (lanes, slot) = (Arc::clone(self), Arc::clone(slot));
        tokio::spawn(async move {
            let ended = unless_panic("an attempt", lanes.source.attempt(slot.to, &job)).await;
            let ended = ended.unwrap_or_else(|| Err(Failure::passing("the attempt broke off")));
            lanes.end_attempt(&slot, &job, attempts, ended);
            slot.changed.notify_one();
            lanes.attempt_ended.notify_waiters();
        });
    }

    /// An attempt has ended that was begun after so many.
    fn end_attempt(
        &self,
        slot: &Slot<S>,
        job: &S::Job,
        before: u32,
        ended: Result<Option<S::Answer>, Failure>,
    ) {
        let (well, why) = match &ended {
            Ok(answer) => (answer.is_some().then_some(true), String::new()),
            Err(failure) => ((failure.blame != Blame::Ours).then_some(false), failure.why.clone()),
        };
        let attempts = before.saturating_add(u32::from(well.is_some()));
        let tries = {
            let mut queue = slot.lock();
            if queue.is_gone {
                return;
            }
            Tries { attempts, pause: queue.pauses.after(attempts) }
        };
        let verdict = self.judge(ended, attempts);
        let settle = || self.source.settle(slot.to, job, tries, verdict);
        let after = catch_unwind(AssertUnwindSafe(settle)).unwrap_or_else(|_| {
            tracing::error!(to = ?slot.to, "what became of an attempt cannot be written down; it is made again");
            After::RestsFor(PAUSE_MAX)
        });
        let Some((health, census)) = self.move_on(slot, job, attempts, well, after) else { return };
        if let Some(health) = health {
            self.source.found(slot.to, health, &why);
        }
        self.source.settled(slot.to, census);
    }

    fn judge(&self, ended: Result<Option<S::Answer>, Failure>, attempts: u32) -> Verdict<S::Answer> {
        match ended {
            Ok(Some(answer)) => Verdict::Answered(answer),
            Ok(None) => Verdict::Moot,
            Err(failure) => match failure.blame {
                Blame::Ours => Verdict::Untried(failure),
                Blame::Passing if attempts < self.options.attempts_max => Verdict::Failed(failure),
                Blame::Passing | Blame::ForGood => Verdict::GivenUp(failure),
            },
        }
    }

    /// The job's attempt is written down, and its lane goes on. `None`: the lane is gone.
    fn move_on(
        &self,
        slot: &Slot<S>,
        job: &S::Job,
        attempts: u32,
        well: Option<bool>,
        after: After,
    ) -> Option<(Option<Health>, Census)> {
        let (key, now) = (job.key(), Instant::now());
        let mut queue = slot.lock();
        if queue.is_gone {
            return None;
        }
        let lane = &mut queue.lane;
        let before = lane.len();
        let health = match after {
            After::Leaves => lane.ended(&key, well, now),
            _ if S::NEWEST_ONLY && lane.has_behind(&key) => lane.ended(&key, well, now),
            After::Anew => lane.anew(&key, well, now),
            After::RestsFor(pause) => lane.rests(&key, well, now.checked_add(pause).unwrap_or(now), attempts),
        };
        let (census, in_lane) = (lane.census(), lane.len());
        drop(queue);
        if in_lane < before {
            self.freed(slot, in_lane);
        }
        Some((health, census))
    }

    /// Where jobs stand, over all lanes.
    pub(crate) fn census(&self) -> Census {
        let slots: Vec<Arc<Slot<S>>> = self.slots().values().cloned().collect();
        slots.iter().map(|slot| slot.lock().lane.census()).fold(Census::default(), Census::plus)
    }

    /// Starts nothing more.
    pub(crate) fn stop(&self) {
        self.ending.send_replace(true);
    }

    /// Starts nothing more and gives what is under way a while to end. How many did not.
    pub(crate) async fn end(&self) -> usize {
        self.stop();
        let in_flight = async {
            loop {
                let ended = self.attempt_ended.notified();
                if self.census().in_flight == 0 {
                    return;
                }
                ended.await;
            }
        };
        match timeout(END_WAIT_MAX, in_flight).await {
            Ok(()) => 0,
            Err(_) => self.census().in_flight,
        }
    }
}

/// The outcome of a future, unless it panics: then what it is about is done again.
async fn unless_panic<F: Future>(what: &str, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let unless_panic = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => {
                tracing::error!("{what} broke off; it is made again");
                Poll::Ready(None)
            }
        }
    });
    unless_panic.await
}
