//! The jobs of one receiver and the order in which they go out: plain state, no IO, no clock of its own.
//!
//! Of one key only one job is ready, resting or under way at a time; the others stand behind it until it has ended. Different keys
//! pass each other. A job that failed rests without holding a place, so the places belong to those that may succeed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

use tokio::time::Instant;

use super::source::Job;
use crate::options::{LANE_IN_FLIGHT_MAX, TROUBLED_AFTER_FAILURES, TROUBLED_PAUSE};

/// How many jobs of a lane stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Census {
    /// May go out, or stand behind one that has not ended.
    pub(crate) waiting: usize,
    /// Failed, to be tried again.
    pub(crate) resting: usize,
    pub(crate) in_flight: usize,
}

impl Census {
    pub(crate) const fn plus(self, other: Census) -> Census {
        Census {
            waiting: self.waiting + other.waiting,
            resting: self.resting + other.resting,
            in_flight: self.in_flight + other.in_flight,
        }
    }
}

/// What the end of an attempt changed in what is thought of its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It failed once too often.
    Troubled,
    /// It failed for long, and this time it did not.
    Well,
}

/// A job and the attempts that it has cost.
#[derive(Debug)]
struct Tried<J> {
    job: J,
    attempts: u32,
}

/// Where the first job of a key stands.
#[derive(Debug, Clone, Copy)]
enum Standing {
    Ready,
    /// Until that instant; the number tells those of one instant apart.
    Resting(Instant, u64),
    InFlight {
        is_repeat: bool,
    },
}

/// The jobs of one key.
#[derive(Debug)]
struct Line<J> {
    first: Tried<J>,
    standing: Standing,
    behind: VecDeque<Tried<J>>,
}

/// The lane.
#[derive(Debug)]
pub(crate) struct Lane<J: Job> {
    lines: HashMap<J::Key, Line<J>>,
    /// The keys whose first job may go, each with the instant since when.
    ready: VecDeque<(Instant, J::Key)>,
    resting: BTreeMap<(Instant, u64), J::Key>,
    rests: u64,
    /// Jobs, and places that are reserved for more.
    held: usize,
    in_flight: usize,
    /// Of those in flight, so many have rested before.
    repeats: usize,
    repeats_max: usize,
    failures_in_a_row: u32,
    last_start: Option<Instant>,
}

impl<J: Job> Lane<J> {
    /// A lane in which so many repeats may be under way at once: however many hang, the other places are for what is new.
    pub(crate) fn new(repeats_max: usize) -> Lane<J> {
        Lane {
            lines: HashMap::new(),
            ready: VecDeque::new(),
            resting: BTreeMap::new(),
            rests: 0,
            held: 0,
            in_flight: 0,
            repeats: 0,
            repeats_max,
            failures_in_a_row: 0,
            last_start: None,
        }
    }

    /// How many jobs it holds, with the places that are reserved.
    pub(crate) const fn len(&self) -> usize {
        self.held
    }

    pub(crate) fn census(&self) -> Census {
        let (resting, in_flight) = (self.resting.len(), self.in_flight);
        Census { waiting: self.held.saturating_sub(resting + in_flight), resting, in_flight }
    }

    /// Keeps a place for a job that will be put or given up.
    pub(crate) const fn reserve(&mut self) {
        self.held += 1;
    }

    /// Gives up a place that was reserved.
    pub(crate) const fn release(&mut self) {
        self.held -= 1;
    }

    /// Puts a job behind those of its key that came before it, in a place that was reserved.
    pub(crate) fn put(&mut self, job: J, attempts: u32, now: Instant) {
        let first = Tried { job, attempts };
        match self.lines.entry(first.job.key()) {
            Entry::Occupied(mut line) => line.get_mut().behind.push_back(first),
            Entry::Vacant(vacant) => {
                self.ready.push_back((now, vacant.key().clone()));
                vacant.insert(Line { first, standing: Standing::Ready, behind: VecDeque::new() });
            }
        }
    }

    /// Something new is to be said under a key: at once, whatever pause it was in, or after the attempt that is being made. `false`:
    /// the key is not in the lane.
    pub(crate) fn hasten(&mut self, job: J, now: Instant) -> bool {
        let key = job.key();
        let Some(line) = self.lines.get_mut(&key) else { return false };
        match line.standing {
            Standing::Ready => {}
            Standing::InFlight { .. } => {
                if line.behind.is_empty() {
                    self.held += 1;
                    line.behind.push_back(Tried { job, attempts: 0 });
                }
            }
            Standing::Resting(at, number) => {
                self.resting.remove(&(at, number));
                (line.first, line.standing) = (Tried { job, attempts: 0 }, Standing::Ready);
                self.ready.push_back((now, key));
            }
        }
        true
    }

    /// Drops the jobs of these keys, but for those that are being tried now.
    pub(crate) fn leave(&mut self, leaves: impl Fn(&J::Key) -> bool) {
        let Lane { lines, ready, resting, held, .. } = self;
        lines.retain(|key, line| {
            let stays = matches!(line.standing, Standing::InFlight { .. }) || !leaves(key);
            if !stays {
                *held -= 1 + line.behind.len();
            }
            stays
        });
        ready.retain(|(_, key)| lines.contains_key(key));
        resting.retain(|_, key| lines.contains_key(key));
    }

    /// The first of those that may go: when, and whether it is a repeat.
    fn next(&self) -> Option<(Instant, bool)> {
        let ready = self.ready.front().map(|(since, _)| (*since, false));
        let resting = self.resting.keys().next().filter(|_| self.repeats < self.repeats_max);
        let repeat = resting.map(|(at, _)| (*at, true));
        [ready, repeat].into_iter().flatten().min()
    }

    /// When [`Lane::start`] has something by the mere passing of time; `None`: not before an attempt has ended, or never.
    pub(crate) fn next_start(&self) -> Option<Instant> {
        if self.in_flight >= LANE_IN_FLIGHT_MAX {
            return None;
        }
        let (at, _) = self.next()?;
        let until = self.last_start.filter(|_| self.is_troubled()).map(|last| last + TROUBLED_PAUSE);
        Some(until.map_or(at, |until| until.max(at)))
    }

    /// The jobs that go out now, with the attempts before. The end of each must be told: [`Lane::ended`], [`Lane::rests`] or
    /// [`Lane::anew`].
    pub(crate) fn start(&mut self, now: Instant) -> Vec<(J, u32)> {
        let mut started = Vec::new();
        while self.next_start().is_some_and(|at| at <= now)
            && let Some((_, is_repeat)) = self.next()
        {
            let key = match is_repeat {
                true => self.resting.pop_first().map(|(_, key)| key),
                false => self.ready.pop_front().map(|(_, key)| key),
            };
            let Some(line) = key.and_then(|key| self.lines.get_mut(&key)) else { continue };
            line.standing = Standing::InFlight { is_repeat };
            self.in_flight += 1;
            self.repeats += usize::from(is_repeat);
            self.last_start = Some(now);
            started.push((line.first.job.clone(), line.first.attempts));
        }
        started
    }

    pub(crate) const fn is_troubled(&self) -> bool {
        self.failures_in_a_row >= TROUBLED_AFTER_FAILURES
    }

    /// Whether it holds a job of that key.
    pub(crate) fn has(&self, key: &J::Key) -> bool {
        self.lines.contains_key(key)
    }

    /// Whether a job of that key stands behind its first one.
    pub(crate) fn has_behind(&self, key: &J::Key) -> bool {
        self.lines.get(key).is_some_and(|line| !line.behind.is_empty())
    }

    /// The job was delivered, or given up: the next one of its key may go. `well`: whether the receiver took it; `None`: that is not
    /// known, for nothing was sent.
    pub(crate) fn ended(&mut self, key: &J::Key, well: Option<bool>, now: Instant) -> Option<Health> {
        let line = self.landed(key)?;
        match line.behind.pop_front() {
            Some(next) => {
                (line.first, line.standing) = (next, Standing::Ready);
                self.ready.push_back((now, key.clone()));
            }
            None => drop(self.lines.remove(key)),
        }
        self.held -= 1;
        self.count(well)
    }

    /// The job will be tried again at that instant, after so many attempts.
    pub(crate) fn rests(
        &mut self,
        key: &J::Key,
        well: Option<bool>,
        at: Instant,
        attempts: u32,
    ) -> Option<Health> {
        self.rests += 1;
        let number = self.rests;
        let line = self.landed(key)?;
        line.first.attempts = attempts;
        line.standing = Standing::Resting(at, number);
        self.resting.insert((at, number), key.clone());
        self.count(well)
    }

    /// The job may go at once, as if it were new.
    pub(crate) fn anew(&mut self, key: &J::Key, well: Option<bool>, now: Instant) -> Option<Health> {
        let line = self.landed(key)?;
        (line.first.attempts, line.standing) = (0, Standing::Ready);
        self.ready.push_back((now, key.clone()));
        self.count(well)
    }

    /// An attempt has ended.
    fn landed(&mut self, key: &J::Key) -> Option<&mut Line<J>> {
        let line = self.lines.get_mut(key)?;
        let Standing::InFlight { is_repeat } = line.standing else { return None };
        self.in_flight -= 1;
        self.repeats -= usize::from(is_repeat);
        Some(line)
    }

    fn count(&mut self, well: Option<bool>) -> Option<Health> {
        let was_troubled = self.is_troubled();
        match well {
            None => {}
            Some(true) => self.failures_in_a_row = 0,
            Some(false) => self.failures_in_a_row = self.failures_in_a_row.saturating_add(1),
        }
        match (was_troubled, self.is_troubled()) {
            (false, true) => Some(Health::Troubled),
            (true, false) => Some(Health::Well),
            _ => None,
        }
    }

    /// All jobs that it holds, those in flight included, with the attempts that they have cost.
    pub(crate) fn into_jobs(self) -> Vec<(J, u32)> {
        let lines = self.lines.into_values();
        let tried = lines.flat_map(|line| std::iter::once(line.first).chain(line.behind));
        tried.map(|tried| (tried.job, tried.attempts)).collect()
    }
}
