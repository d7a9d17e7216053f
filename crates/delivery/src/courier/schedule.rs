//! What is to be sent, and when: the earliest first, so many at once, and not too fast to a receiver that fails.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::callbacks::options::{LANE_IN_FLIGHT_MAX, TROUBLED_AFTER_FAILURES, TROUBLED_PAUSE};

/// Where something stands in a schedule: its time, and its turn among those of the same time.
pub(crate) type Place = (Instant, u64);

/// Whether the end of a request changed what is thought of its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It failed once too often.
    Troubled,
    /// It failed for long, and now it did not.
    Well,
}

/// Of the requests to one receiver at once, so many may be repeats of what was in vain: however many hang, there is room for what
/// is new.
const AGAIN_IN_FLIGHT_MAX: usize = LANE_IN_FLIGHT_MAX / 2;

/// Requests to one receiver that wait for their time.
#[derive(Debug)]
pub(crate) struct Schedule<J> {
    waiting: BTreeMap<Place, J>,
    /// Those that are repeats.
    again: BTreeMap<Place, J>,
    turns: u64,
    in_flight: usize,
    /// Of them repeats.
    again_in_flight: usize,
    /// Failures in a row.
    failures: u32,
    /// No request begins before this.
    not_before: Option<Instant>,
}

impl<J> Schedule<J> {
    pub(crate) const fn new() -> Schedule<J> {
        Schedule {
            waiting: BTreeMap::new(),
            again: BTreeMap::new(),
            turns: 0,
            in_flight: 0,
            again_in_flight: 0,
            failures: 0,
            not_before: None,
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.again.len()
    }

    pub(crate) fn put(&mut self, at: Instant, job: J) -> Place {
        let place = self.place(at);
        self.waiting.insert(place, job);
        place
    }

    /// The same for what was begun before, in vain. Its next end is told by [`Schedule::ended_again`].
    pub(crate) fn put_again(&mut self, at: Instant, job: J) -> Place {
        let place = self.place(at);
        self.again.insert(place, job);
        place
    }

    const fn place(&mut self, at: Instant) -> Place {
        self.turns += 1;
        (at, self.turns)
    }

    pub(crate) fn remove(&mut self, place: Place) -> Option<J> {
        self.waiting.remove(&place).or_else(|| self.again.remove(&place))
    }

    const fn is_troubled(&self) -> bool {
        self.failures >= TROUBLED_AFTER_FAILURES
    }

    /// The next one whose time has come, if one more may begin. It is in flight until [`Schedule::ended`].
    pub(crate) fn begin(&mut self, now: Instant) -> Option<J> {
        if self.next_begin().is_none_or(|begin| begin > now) {
            return None;
        }
        let place = self.next()?;
        let job = match self.waiting.remove(&place) {
            Some(job) => job,
            None => {
                self.again_in_flight += 1;
                self.again.remove(&place)?
            }
        };
        self.in_flight += 1;
        self.not_before = self.is_troubled().then(|| now + TROUBLED_PAUSE);
        Some(job)
    }

    /// When the next one may begin; `None`: not before one has ended, or there is none.
    pub(crate) fn next_begin(&self) -> Option<Instant> {
        if self.in_flight >= LANE_IN_FLIGHT_MAX {
            return None;
        }
        let (at, _) = self.next()?;
        Some(self.not_before.map_or(at, |not_before| not_before.max(at)))
    }

    /// The earliest of those that may begin at all.
    fn next(&self) -> Option<Place> {
        let again = Some(&self.again).filter(|_| self.again_in_flight < AGAIN_IN_FLIGHT_MAX);
        let first = |jobs: &BTreeMap<Place, J>| jobs.keys().next().copied();
        first(&self.waiting).into_iter().chain(again.and_then(first)).min()
    }

    /// One that was put there as a repeat has ended.
    pub(crate) fn ended_again(&mut self, well: Option<bool>) -> Option<Turn> {
        self.again_in_flight = self.again_in_flight.saturating_sub(1);
        self.ended(well)
    }

    /// One that was begun has ended. `well`: whether the receiver took it; `None`: that is not known, for it was never sent.
    pub(crate) fn ended(&mut self, well: Option<bool>) -> Option<Turn> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let was_troubled = self.is_troubled();
        match well {
            None => {}
            Some(true) => {
                self.failures = 0;
                self.not_before = None;
            }
            Some(false) => self.failures = self.failures.saturating_add(1),
        }
        match (was_troubled, self.is_troubled()) {
            (false, true) => Some(Turn::Troubled),
            (true, false) => Some(Turn::Well),
            _ => None,
        }
    }

    /// Takes out all that wait.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = J> {
        self.waiting.into_values().chain(self.again.into_values())
    }
}

/// Ready at that instant; never, if there is none.
pub(crate) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// The instant after that pause.
pub(crate) fn after(now: Instant, pause: Duration) -> Instant {
    now.checked_add(pause).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_earliest_begin_first_and_only_so_many() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        schedule.put(now + Duration::from_secs(1), 999);
        for job in 0..=LANE_IN_FLIGHT_MAX {
            schedule.put(now, job);
        }
        for job in 0..LANE_IN_FLIGHT_MAX {
            assert_eq!(schedule.begin(now), Some(job));
        }
        assert_eq!((schedule.begin(now), schedule.next_begin()), (None, None), "as many as may");
        assert_eq!(schedule.ended(Some(true)), None);
        assert_eq!(schedule.begin(now), Some(LANE_IN_FLIGHT_MAX));
        schedule.ended(Some(true));
        assert_eq!(schedule.begin(now), None, "its time has not come");
        assert_eq!(schedule.next_begin(), Some(now + Duration::from_secs(1)));
        assert_eq!(schedule.begin(now + Duration::from_secs(1)), Some(999));
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_leave_room_for_what_is_new() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        for job in 0..LANE_IN_FLIGHT_MAX {
            schedule.put_again(now, job);
        }
        for job in 0..AGAIN_IN_FLIGHT_MAX {
            assert_eq!(schedule.begin(now), Some(job));
        }
        assert_eq!((schedule.begin(now), schedule.next_begin()), (None, None), "as many repeats as may");
        schedule.put(now, 100);
        assert_eq!(schedule.next_begin(), Some(now));
        assert_eq!(schedule.begin(now), Some(100));
        schedule.ended(Some(true));
        assert_eq!(schedule.begin(now), None);
        schedule.ended_again(Some(false));
        assert_eq!(schedule.begin(now), Some(AGAIN_IN_FLIGHT_MAX));
        assert_eq!(schedule.len(), LANE_IN_FLIGHT_MAX - AGAIN_IN_FLIGHT_MAX - 1);
        let place = schedule.put_again(now, 101);
        assert_eq!((schedule.remove(place), schedule.remove(place)), (Some(101), None));
        assert_eq!(schedule.into_waiting().count(), LANE_IN_FLIGHT_MAX - AGAIN_IN_FLIGHT_MAX - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_fails_for_long_is_called_at_a_measured_pace_until_it_is_well() {
        let now = Instant::now();
        let mut schedule = Schedule::new();
        for failure in 1..=TROUBLED_AFTER_FAILURES {
            schedule.put(now, ());
            schedule.begin(now).expect("at once");
            let turn = (failure == TROUBLED_AFTER_FAILURES).then_some(Turn::Troubled);
            assert_eq!(schedule.ended(Some(false)), turn);
        }
        schedule.put(now, ());
        schedule.put(now, ());
        assert!(schedule.begin(now).is_some());
        assert!(schedule.begin(now).is_none());
        assert_eq!(schedule.next_begin(), Some(now + TROUBLED_PAUSE));
        assert_eq!(schedule.ended(None), None, "it was never sent");
        assert!(schedule.begin(now + TROUBLED_PAUSE).is_some());
        assert_eq!(schedule.ended(Some(true)), Some(Turn::Well));
        schedule.put(now, ());
        assert!(schedule.begin(now).is_some());
    }
}
