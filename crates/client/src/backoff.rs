//! How long to pause between two attempts: doubling, bounded, and never in step with other callers.

use std::time::Duration;

use holdfast_domain::series;

use crate::options::{BACKOFF_MAX, BACKOFF_MIN};

/// Pauses for one sender, from a seed.
pub(crate) struct Backoff {
    state: u64,
    doublings: u32,
}

impl Backoff {
    pub(crate) const fn new(seed: u64) -> Backoff {
        Backoff { state: seed, doublings: 0 }
    }

    /// Something went well: begin with short pauses again.
    pub(crate) const fn reset(&mut self) {
        self.doublings = 0;
    }

    /// The next pause: between half of the step and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        let step = BACKOFF_MIN.saturating_mul(1 << self.doublings.min(16)).min(BACKOFF_MAX);
        self.doublings = self.doublings.saturating_add(1);
        let micros = u64::try_from(step.as_micros()).unwrap_or(u64::MAX);
        let half = micros / 2;
        Duration::from_micros(half + series::next(&mut self.state) % (half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_start_anew() {
        let mut backoff = Backoff::new(7);
        let first = backoff.next();
        assert!(first >= BACKOFF_MIN / 2 && first <= BACKOFF_MIN, "{first:?}");
        let later: Vec<Duration> = (0..100).map(|_| backoff.next()).collect();
        assert!(later.iter().all(|pause| *pause <= BACKOFF_MAX));
        assert!(later[99] >= BACKOFF_MAX / 2);
        assert_ne!(later[98], later[99], "jitter keeps callers apart");
        backoff.reset();
        assert!(backoff.next() <= BACKOFF_MIN);
    }

    #[test]
    fn equal_seeds_pause_equally() {
        let (mut one, mut other) = (Backoff::new(3), Backoff::new(3));
        assert!((0..10).all(|_| one.next() == other.next()));
    }
}
