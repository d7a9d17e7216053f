//! How many jobs may be held in memory: per participant, and all together. What finds no room stays in the store.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::options::{LANE_ROWS_MAX, LANE_ROWS_MIN, LANES_ROWS_MAX};

/// The bounds, in jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Of one lane.
    pub(crate) lane: usize,
    /// Of all lanes together.
    pub(crate) lanes: usize,
    /// A lane may hold so many whatever the others hold.
    pub(crate) least: usize,
}

impl Bounds {
    /// Of a source with a single lane.
    pub(crate) const fn of_one_lane(max: usize) -> Bounds {
        Bounds { lane: max, lanes: usize::MAX, least: 0 }
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { lane: LANE_ROWS_MAX, lanes: LANES_ROWS_MAX, least: LANE_ROWS_MIN }
    }
}

/// Counts what is held.
pub(crate) struct Room {
    bounds: Bounds,
    held: AtomicUsize,
    most: AtomicUsize,
}

impl Room {
    pub(crate) const fn new(bounds: Bounds) -> Room {
        Room { bounds, held: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Takes a place for a lane that holds so many already, if there is one.
    pub(crate) fn take(&self, in_lane: usize) -> bool {
        if in_lane >= self.bounds.lane {
            return false;
        }
        // Lanes of the dead must not take the last place from the living.
        if in_lane >= self.bounds.least && self.held.load(Ordering::Relaxed) >= self.bounds.lanes {
            return false;
        }
        self.take_anyway();
        true
    }

    /// Takes a place that an earlier run had.
    pub(crate) fn take_anyway(&self) {
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(held, Ordering::Relaxed);
    }

    /// Gives a place back. `true`: there is room again for lanes that had to wait for the others.
    pub(crate) fn give_back(&self) -> bool {
        self.held.fetch_sub(1, Ordering::Relaxed) == self.relief() + 1
    }

    /// Whether a lane that holds so many, and has more in the store, is to be filled up.
    pub(crate) fn is_wanting(&self, in_lane: usize) -> bool {
        let roomy = self.held.load(Ordering::Relaxed) <= self.relief();
        in_lane <= self.bounds.lane / 2 && (roomy || in_lane < self.bounds.least.div_ceil(2))
    }

    /// With so many held or fewer, all lanes may be filled up.
    const fn relief(&self) -> usize {
        self.bounds.lanes - self.bounds.lanes.div_ceil(8)
    }

    /// The most that were ever held at once.
    #[cfg(test)]
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_its_bound_and_all_have_one_together() {
        let room = Room::new(Bounds { lane: 10, lanes: 16, least: 2 });
        let fill = |held: usize| (held..20).take_while(|held| room.take(*held)).count();
        assert_eq!(fill(0), 10, "the bound of the lane");
        assert_eq!(fill(0), 6, "the bound of all");
        assert_eq!(fill(0), 2, "what everybody may have");
        assert_eq!(room.most(), 18);
        assert!(!room.is_wanting(1) && room.is_wanting(0));
        let reliefs: Vec<bool> = (0..5).map(|_| room.give_back()).collect();
        assert_eq!(reliefs, [false, false, false, true, false], "said once, on the way down");
        assert!(room.is_wanting(5) && !room.is_wanting(6), "up to the half");
    }
}
