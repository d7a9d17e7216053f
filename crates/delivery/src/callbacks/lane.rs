//! The callbacks of one participant and the order in which they go out: plain state, no IO, no clock of its own.
//!
//! Of one transfer only one callback is ready, resting or under way at a time; the others stand behind it until it has
//! ended. Different transfers pass each other. A callback that failed rests without holding a place, so the places
//! belong to those that may succeed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::TransferId;
use holdfast_hub::CallbackRow;

use crate::options::{LANE_IN_FLIGHT_MAX, TROUBLED_AFTER_FAILURES, TROUBLED_PAUSE};

/// A callback on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) row: CallbackRow,
    /// Attempts made so far.
    pub(super) attempts: u32,
    /// It comes from the dead letters, which remember it until it is delivered.
    pub(super) from_dead_letters: bool,
}

impl Job {
    pub(super) const fn new(row: CallbackRow) -> Job {
        Job { row, attempts: 0, from_dead_letters: false }
    }

    fn key(&self) -> Key {
        match self.row.message {
            CallbackMessage::Alarm { .. } => Key::Alone(self.row.number),
            _ => Key::Transfer(self.row.transfer),
        }
    }
}

/// What must keep its order: the callbacks of a transfer. An alarm is about none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Transfer(TransferId),
    Alone(u64),
}

/// How many callbacks of a lane stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Census {
    /// May go out, or stand behind one that has not ended.
    pub(super) waiting: usize,
    /// Failed, to be tried again.
    pub(super) resting: usize,
    pub(super) in_flight: usize,
}

/// The lane.
#[derive(Default)]
pub(super) struct Lane {
    ready: VecDeque<Job>,
    /// Failed ones by the instant at which they may be tried again, then by number.
    resting: BTreeMap<(Instant, u64), Job>,
    /// Has an entry for every key of which a job is ready, resting or in flight.
    behind: HashMap<Key, VecDeque<Job>>,
    in_flight: usize,
    /// With the places that are reserved.
    rows: usize,
    failures_in_a_row: u32,
    last_start: Option<Instant>,
}

impl Lane {
    pub(super) const fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn census(&self) -> Census {
        let (resting, in_flight) = (self.resting.len(), self.in_flight);
        Census { waiting: self.rows - resting - in_flight, resting, in_flight }
    }

    /// Keeps a place for a callback that will be put or given up.
    pub(super) const fn reserve(&mut self) {
        self.rows += 1;
    }

    /// Gives up a place that was reserved.
    pub(super) const fn release(&mut self) {
        self.rows -= 1;
    }

    /// Puts a callback behind those that came before it, in a place that was reserved.
    pub(super) fn put(&mut self, job: Job) {
        match self.behind.get_mut(&job.key()) {
            Some(behind) => behind.push_back(job),
            None => {
                self.behind.insert(job.key(), VecDeque::new());
                self.ready.push_back(job);
            }
        }
    }

    /// The callbacks that go out now. Each must be handed back to [`Lane::ended`], [`Lane::failed`] or
    /// [`Lane::untried`].
    pub(super) fn start(&mut self, now: Instant) -> Vec<Job> {
        while let Some(entry) = self.resting.first_entry().filter(|entry| entry.key().0 <= now) {
            self.ready.push_back(entry.remove());
        }
        let places = LANE_IN_FLIGHT_MAX - self.in_flight;
        let places = if self.troubled_until().is_none_or(|until| until <= now) {
            if self.is_troubled() { places.min(1) } else { places }
        } else {
            0
        };
        let started: Vec<Job> = self.ready.drain(..places.min(self.ready.len())).collect();
        self.in_flight += started.len();
        if !started.is_empty() {
            self.last_start = Some(now);
        }
        started
    }

    /// When [`Lane::start`] has something again by the mere passing of time.
    pub(super) fn look_again_at(&self) -> Option<Instant> {
        if self.in_flight >= LANE_IN_FLIGHT_MAX {
            return None;
        }
        if !self.ready.is_empty() {
            return self.troubled_until();
        }
        self.resting.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) const fn is_troubled(&self) -> bool {
        self.failures_in_a_row >= TROUBLED_AFTER_FAILURES
    }

    fn troubled_until(&self) -> Option<Instant> {
        self.last_start.filter(|_| self.is_troubled()).map(|last| last + TROUBLED_PAUSE)
    }

    /// The callback was delivered, or given up: the next one of its transfer may go.
    pub(super) fn ended(&mut self, job: &Job, delivered: bool) {
        self.in_flight -= 1;
        self.rows -= 1;
        self.count(delivered);
        let key = job.key();
        let behind = self.behind.get_mut(&key).expect("a job in flight has its key in the lane");
        match behind.pop_front() {
            Some(next) => self.ready.push_back(next),
            None => {
                self.behind.remove(&key);
            }
        }
    }

    /// The attempt failed and there will be another.
    pub(super) fn failed(&mut self, job: Job, now: Instant, pause: Duration) {
        self.in_flight -= 1;
        self.count(false);
        self.resting.insert((now + pause, job.row.number), job);
    }

    /// No attempt could be made.
    pub(super) fn untried(&mut self, job: Job, now: Instant, pause: Duration) {
        self.in_flight -= 1;
        self.resting.insert((now + pause, job.row.number), job);
    }

    const fn count(&mut self, succeeded: bool) {
        self.failures_in_a_row = if succeeded { 0 } else { self.failures_in_a_row.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::ids::ParticipantId;

    use super::*;

    fn job(number: u64, transfer: u128) -> Job {
        Job::new(CallbackRow {
            number,
            offset: 0,
            time: 0,
            to: ParticipantId(1),
            transfer: TransferId(transfer),
            message: CallbackMessage::ForwardPrepare,
        })
    }

    fn push(lane: &mut Lane, job: Job) {
        lane.reserve();
        lane.put(job);
    }

    fn numbers(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.row.number).collect()
    }

    const PAUSE: Duration = Duration::from_secs(1);

    #[test]
    fn the_next_of_a_transfer_waits_for_the_end_of_the_one_before_and_others_pass() {
        let (mut lane, now) = (Lane::default(), Instant::now());
        for (number, transfer) in [(0, 7), (1, 7), (2, 8), (3, 7)] {
            push(&mut lane, job(number, transfer));
        }
        let started = lane.start(now);
        assert_eq!(numbers(&started), [0, 2]);
        // A failed one still holds back its transfer.
        lane.failed(started[0], now, PAUSE);
        lane.ended(&started[1], true);
        assert_eq!(lane.start(now), []);
        assert_eq!(lane.look_again_at(), Some(now + PAUSE));
        let again = lane.start(now + PAUSE);
        assert_eq!(numbers(&again), [0]);
        lane.ended(&again[0], false);
        let next = lane.start(now + PAUSE);
        assert_eq!(numbers(&next), [1]);
        lane.ended(&next[0], true);
        assert_eq!(numbers(&lane.start(now + PAUSE)), [3]);
        assert_eq!(lane.census(), Census { waiting: 0, resting: 0, in_flight: 1 });
    }

    #[test]
    fn so_many_at_once_and_no_more() {
        let (mut lane, now) = (Lane::default(), Instant::now());
        for number in 0..100 {
            push(&mut lane, job(number, u128::from(number)));
        }
        let started = lane.start(now);
        assert_eq!(started.len(), LANE_IN_FLIGHT_MAX);
        assert_eq!(lane.start(now), []);
        assert_eq!(lane.look_again_at(), None, "only an end makes room");
        lane.ended(&started[5], true);
        assert_eq!(lane.start(now).len(), 1);
    }

    #[test]
    fn a_reserved_place_counts_until_it_is_given_up() {
        let mut lane = Lane::default();
        lane.reserve();
        assert_eq!((lane.len(), lane.start(Instant::now())), (1, Vec::new()));
        lane.release();
        assert_eq!(lane.len(), 0);
        push(&mut lane, job(1, 5));
        let started = lane.start(Instant::now());
        lane.ended(&started[0], true);
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn a_troubled_participant_is_tried_slowly_until_one_succeeds() {
        let (mut lane, mut now) = (Lane::default(), Instant::now());
        for number in 0..200 {
            push(&mut lane, job(number, u128::from(number)));
        }
        for failing in lane.start(now) {
            lane.failed(failing, now, PAUSE * 100);
        }
        assert_eq!(lane.start(now), [], "not at once");
        assert_eq!(lane.look_again_at(), Some(now + TROUBLED_PAUSE));
        now += TROUBLED_PAUSE;
        let probe = lane.start(now);
        assert_eq!(probe.len(), 1);
        assert_eq!(lane.start(now), []);
        lane.ended(&probe[0], true);
        assert_eq!(lane.start(now).len(), LANE_IN_FLIGHT_MAX, "all is well again");
    }

    #[test]
    fn what_could_not_be_tried_counts_as_no_failure() {
        let (mut lane, now) = (Lane::default(), Instant::now());
        push(&mut lane, job(0, 0));
        for _ in 0..100 {
            let started = lane.start(now);
            assert_eq!(numbers(&started), [0]);
            lane.untried(started[0], now, Duration::ZERO);
        }
        assert!(!lane.is_troubled());
    }
}
