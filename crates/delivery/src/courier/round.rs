//! Which orders an outside side is to be asked about, as plain state. What it is asked is read when its turn comes, so an
//! order stands here once, whatever has become of it meanwhile.

use std::collections::HashMap;
use std::time::Duration;

use holdfast_domain::shop::OrderId;
use tokio::time::Instant;

use super::ORDERS_MAX;
use super::schedule::{Place, Schedule, Turn, after};

/// One order.
#[derive(Debug, Default)]
struct Stop {
    /// Where it waits; `None`: it is being asked about.
    place: Option<Place>,
    /// Asks without an answer. With some, it stands in the schedule as a repeat.
    attempts: u32,
    /// While it was being asked about, something new was to be asked.
    again: bool,
}

/// The orders of one side.
#[derive(Debug)]
pub(super) struct Round {
    stops: HashMap<OrderId, Stop>,
    schedule: Schedule<OrderId>,
    /// More is open than fits.
    is_behind: bool,
    max: usize,
}

impl Round {
    pub(super) fn new() -> Round {
        Round::with_room_for(ORDERS_MAX)
    }

    fn with_room_for(max: usize) -> Round {
        Round { stops: HashMap::new(), schedule: Schedule::new(), is_behind: false, max }
    }

    /// How many orders there are.
    pub(super) fn len(&self) -> usize {
        self.stops.len()
    }

    /// Something new is to be asked about this order: at once, whatever pause it was in.
    pub(super) fn ask(&mut self, order: &OrderId, now: Instant) {
        match self.stops.get_mut(order) {
            None => {
                self.find(order, now);
            }
            Some(Stop { place: None, again, .. }) => *again = true,
            Some(stop) => {
                if let Some(place) = stop.place.take() {
                    self.schedule.remove(place);
                }
                *stop = Stop { place: Some(self.schedule.put(now, order.clone())), ..Stop::default() };
            }
        }
    }

    /// This order waits for an answer. `false`: there is no room for it now.
    pub(super) fn find(&mut self, order: &OrderId, now: Instant) -> bool {
        if self.stops.contains_key(order) {
            return true;
        }
        if self.stops.len() >= self.max {
            self.is_behind = true;
            return false;
        }
        let place = Some(self.schedule.put(now, order.clone()));
        self.stops.insert(order.clone(), Stop { place, ..Stop::default() });
        true
    }

    /// These orders are others' to ask about, all but those that are being asked about now.
    pub(super) fn leave(&mut self, is_others: impl Fn(&OrderId) -> bool) {
        let schedule = &mut self.schedule;
        self.stops.retain(|order, stop| match stop.place {
            Some(place) if is_others(order) => {
                schedule.remove(place);
                false
            }
            Some(_) | None => true,
        });
    }

    /// Whether there is room again for what did not fit. Says so once.
    pub(super) fn wants_to_look(&mut self) -> bool {
        let wants = self.is_behind && self.stops.len() <= self.max / 2;
        self.is_behind &= !wants;
        wants
    }

    /// The next order to ask about.
    pub(super) fn begin(&mut self, now: Instant) -> Option<OrderId> {
        let order = self.schedule.begin(now)?;
        self.stops.entry(order.clone()).or_default().place = None;
        Some(order)
    }

    /// When the next one may begin.
    pub(super) fn next_begin(&self) -> Option<Instant> {
        self.schedule.next_begin()
    }

    /// There is nothing more to ask about an order.
    pub(super) fn over(&mut self, order: &OrderId, well: Option<bool>, now: Instant) -> Option<Turn> {
        let stop = self.stops.remove(order).unwrap_or_default();
        if stop.again {
            self.find(order, now);
        }
        self.ended(stop.attempts, well)
    }

    /// A request has ended that was begun after so many in vain.
    fn ended(&mut self, attempts: u32, well: Option<bool>) -> Option<Turn> {
        if attempts > 0 { self.schedule.ended_again(well) } else { self.schedule.ended(well) }
    }

    /// An order is to be asked about again, after a pause that depends on how often it was in vain; at once, if there is
    /// something new to ask.
    pub(super) fn rest(
        &mut self,
        order: &OrderId,
        well: Option<bool>,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) -> Option<Turn> {
        let stop = self.stops.entry(order.clone()).or_default();
        let before = stop.attempts;
        stop.place = Some(if std::mem::take(&mut stop.again) {
            stop.attempts = 0;
            self.schedule.put(now, order.clone())
        } else {
            stop.attempts = before.saturating_add(1);
            self.schedule.put_again(after(now, pause(stop.attempts)), order.clone())
        });
        self.ended(before, well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(name: &str) -> OrderId {
        name.parse().unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_is_in_vain_rests_longer_and_longer_and_what_is_new_does_not_rest() {
        let (mut round, a, now) = (Round::new(), order("a"), Instant::now());
        round.ask(&a, now);
        round.ask(&a, now);
        assert_eq!(round.begin(now), Some(a.clone()));
        assert_eq!(round.begin(now), None, "once");
        round.rest(&a, Some(false), now, |attempts| SECOND * attempts);
        assert_eq!(round.next_begin(), Some(now + SECOND));
        let later = now + SECOND;
        assert_eq!(round.begin(later), Some(a.clone()));
        round.rest(&a, Some(false), later, |attempts| SECOND * attempts);
        assert_eq!(round.next_begin(), Some(later + 2 * SECOND));
        // It is to give back now: that does not wait for the pause, and begins counting anew.
        round.ask(&a, later);
        assert_eq!(round.begin(later), Some(a.clone()));
        // And what comes while it is asked is not forgotten.
        round.ask(&a, later);
        round.rest(&a, Some(true), later, |_| panic!("no pause"));
        assert_eq!(round.begin(later), Some(a.clone()));
        round.ask(&a, later);
        round.over(&a, Some(true), later);
        assert_eq!(round.begin(later), Some(a.clone()));
        round.over(&a, Some(true), later);
        assert_eq!((round.len(), round.begin(later), round.next_begin()), (0, None, None));
    }

    /// However many orders get no answer, one that is new is asked about at once.
    #[tokio::test(start_paused = true)]
    async fn orders_without_an_answer_leave_room_for_new_ones() {
        let (mut round, mut now) = (Round::new(), Instant::now());
        let hanging: Vec<OrderId> = (0..100).map(|number| order(&number.to_string())).collect();
        hanging.iter().for_each(|order| round.ask(order, now));
        for _ in 0..20 {
            let asked: Vec<OrderId> = std::iter::from_fn(|| round.begin(now)).collect();
            for order in &asked {
                round.rest(order, None, now, |_| SECOND);
            }
            now += SECOND;
        }
        let hang = std::iter::from_fn(|| round.begin(now)).count();
        round.ask(&order("new"), now);
        assert!(hang > 1 && round.begin(now) == Some(order("new")), "{hang} hang");
        round.over(&order("new"), Some(true), now);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_others_leaves_unless_it_is_being_asked() {
        let (mut round, now) = (Round::new(), Instant::now());
        for name in ["a", "b", "c"] {
            round.ask(&order(name), now);
        }
        assert_eq!(round.begin(now), Some(order("a")));
        round.leave(|other| *other != order("c"));
        assert_eq!((round.len(), round.begin(now)), (2, Some(order("c"))));
        round.over(&order("a"), Some(true), now);
        round.over(&order("c"), Some(true), now);
        assert_eq!((round.len(), round.begin(now), round.next_begin()), (0, None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_looked_for_when_there_is_room() {
        let (mut round, now) = (Round::with_room_for(4), Instant::now());
        for name in ["a", "b", "c", "d"] {
            assert!(round.find(&order(name), now));
        }
        assert!(!round.wants_to_look());
        round.ask(&order("e"), now);
        assert!(!round.find(&order("f"), now));
        assert!(round.find(&order("a"), now), "it is there");
        assert_eq!(round.len(), 4);
        for left in [false, true] {
            assert!(!round.wants_to_look());
            let order = round.begin(now).unwrap();
            round.over(&order, Some(true), now);
            assert_eq!(round.wants_to_look(), left);
        }
        assert!(!round.wants_to_look(), "once");
    }
}
