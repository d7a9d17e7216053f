//! Outcomes that had no place, said together: at once when it begins, and then only so often.

use std::time::Duration;

use tokio::time::Instant;

/// How long those that come after the first are gathered.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Outcomes that are lost and not yet said to be.
#[derive(Debug, Default)]
pub(super) struct Lost {
    unsaid: u64,
    said_at: Option<Instant>,
}

impl Lost {
    /// So many more. How many are to be said now.
    pub(super) fn add(&mut self, outcomes: u64, now: Instant) -> u64 {
        self.unsaid = self.unsaid.saturating_add(outcomes);
        let is_soon = |at: Instant| now.saturating_duration_since(at) < SAID_EVERY;
        if self.unsaid == 0 || self.said_at.is_some_and(is_soon) {
            return 0;
        }
        self.said_at = Some(now);
        self.rest()
    }

    /// All that were not said.
    pub(super) fn rest(&mut self) -> u64 {
        std::mem::take(&mut self.unsaid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_now_and_then_and_every_one_is_in_it() {
        let (mut lost, begin) = (Lost::default(), Instant::now());
        assert_eq!(lost.add(0, begin), 0, "nothing is lost");
        assert_eq!(lost.add(3, begin), 3, "the first at once");
        for _ in 0..1_000 {
            assert_eq!(lost.add(2, begin + SAID_EVERY / 2), 0);
        }
        assert_eq!(lost.add(1, begin + SAID_EVERY), 2_001);
        assert_eq!(lost.add(5, begin + SAID_EVERY), 0);
        assert_eq!((lost.rest(), lost.rest()), (5, 0), "at the end");
    }
}
