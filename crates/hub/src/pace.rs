//! The pace of work in the background: a millisecond of work, then a rest, so that a frame beside a checkpoint gets most of
//! a core. A niced thread alone does not do that: it takes whatever is idle, and the cache with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{BACKGROUND_REST_MAX, BACKGROUND_WORK_MIN};

/// Set when somebody waits for the work: nobody rests then.
#[derive(Default)]
pub(crate) struct Hurry(AtomicBool);

impl Hurry {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Work and rest of one thread.
pub(crate) struct Pace<'a> {
    hurry: &'a Hurry,
    since: Instant,
    /// What is left of the rest that this work may take.
    rest: Duration,
}

impl Pace<'_> {
    pub(crate) fn new(hurry: &Hurry) -> Pace<'_> {
        Pace { hurry, since: Instant::now(), rest: BACKGROUND_REST_MAX }
    }

    /// Rests as long as was worked since the last rest, as far as the rest of this work reaches.
    pub(crate) fn rest(&mut self) {
        let worked = self.since.elapsed();
        if worked < BACKGROUND_WORK_MIN || self.hurry.0.load(Ordering::Relaxed) {
            return;
        }
        let rest = worked.min(self.rest);
        self.rest -= rest;
        #[allow(clippy::disallowed_methods, reason = "resting is the purpose; nobody waits for it")]
        std::thread::sleep(rest);
        self.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_bounded_and_nobody_rests_in_a_hurry() {
        let hurry = Hurry::default();
        let mut pace = Pace::new(&hurry);
        let long_ago = |pace: &mut Pace<'_>| pace.since -= 3 * BACKGROUND_REST_MAX;
        pace.rest();
        assert_eq!(pace.rest, BACKGROUND_REST_MAX, "nothing was done yet");
        long_ago(&mut pace);
        pace.rest();
        assert_eq!(pace.rest, Duration::ZERO);
        let mut pace = Pace::new(&hurry);
        hurry.set();
        long_ago(&mut pace);
        pace.rest();
        assert_eq!(pace.rest, BACKGROUND_REST_MAX);
    }
}
