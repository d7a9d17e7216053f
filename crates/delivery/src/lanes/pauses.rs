//! How long to wait before a callback is tried again: doubling, bounded, and never all at the same instant.

use std::time::Duration;

use holdfast_domain::series;

use crate::options::CallbackOptions;

/// Pauses from a seed.
pub(crate) struct Pauses {
    min: Duration,
    max: Duration,
    state: u64,
}

impl Pauses {
    pub(crate) fn new(options: &CallbackOptions, lane: u32) -> Pauses {
        // Lanes that fail together are to come back apart.
        let state = options.jitter_seed ^ u64::from(lane).wrapping_mul(0xd1b5_4a32_d192_ed03);
        Pauses { min: options.pause_min, max: options.pause_max, state }
    }

    /// The pause after so many failed attempts: between half of the step and all of it.
    pub(crate) fn after(&mut self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(20);
        let step = self.min.saturating_mul(1 << doublings).min(self.max);
        let half = u64::try_from(step.as_micros() / 2).unwrap_or(u64::MAX / 2);
        Duration::from_micros(half + series::next(&mut self.state) % (half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_with_jitter() {
        let options = CallbackOptions::default();
        let mut pauses = Pauses::new(&options, 1);
        for attempts in 1..=40_u32 {
            let step = options.pause_min.saturating_mul(1 << (attempts - 1).min(20)).min(options.pause_max);
            let pause = pauses.after(attempts);
            assert!(pause >= step / 2 && pause <= step, "attempt {attempts}: {pause:?} of {step:?}");
        }
        assert_ne!(pauses.after(20), pauses.after(20));
    }

    #[test]
    fn equal_seeds_pause_equally_and_lanes_apart() {
        let options = CallbackOptions::default();
        let sequence = |lane| {
            let mut pauses = Pauses::new(&options, lane);
            (1..9).map(|attempts| pauses.after(attempts)).collect::<Vec<_>>()
        };
        assert_eq!(sequence(3), sequence(3));
        assert_ne!(sequence(3), sequence(4));
    }
}
