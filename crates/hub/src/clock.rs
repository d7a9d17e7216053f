//! When to believe the wall clock.
//!
//! A wall clock that jumps would expire holds that have not run out, or keep those that have. So it is compared
//! with the monotonic clock, and a jump is not taken over before it is gone or an operator confirms it.

use holdfast_domain::ids::Millis;
use holdfast_engine::clock::{ClockFault, Reading};

/// Watches the wall clock from frame to frame.
#[derive(Debug)]
pub struct ClockGuard {
    jump_max: Millis,
    trusted: Option<Reading>,
    last_frame: Millis,
}

impl ClockGuard {
    /// A guard for a log whose last frame was stamped `last_frame` (0: none yet).
    #[must_use]
    pub const fn new(jump_max: Millis, last_frame: Millis) -> ClockGuard {
        ClockGuard { jump_max, trusted: None, last_frame }
    }

    /// The time for a frame closed now: never before the last frame's.
    ///
    /// # Errors
    /// Says why the wall clock is not believed. It is asked again each time, so a clock that comes back heals.
    pub fn frame_time(&mut self, now: Reading) -> Result<Millis, ClockFault> {
        if let Some(fault) = self.find_fault(now) {
            return Err(fault);
        }
        self.trusted = Some(now);
        self.last_frame = self.last_frame.max(now.wall);
        Ok(self.last_frame)
    }

    fn find_fault(&self, now: Reading) -> Option<ClockFault> {
        if let Some(trusted) = self.trusted {
            let moved_ms = (now.wall - trusted.wall) - (now.monotonic - trusted.monotonic);
            return (moved_ms.abs() > self.jump_max).then_some(ClockFault::Jumped { moved_ms });
        }
        let behind_ms = self.last_frame - now.wall;
        (behind_ms > self.jump_max).then_some(ClockFault::BehindLog { behind_ms })
    }

    /// An operator says that the wall clock was right when it was `seen`.
    pub const fn confirm(&mut self, seen: Reading) {
        self.trusted = Some(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(wall: Millis, monotonic: Millis) -> Reading {
        Reading { wall, monotonic }
    }

    #[test]
    fn time_never_goes_back_and_small_steps_are_taken() {
        let mut guard = ClockGuard::new(10_000, 0);
        assert_eq!(guard.frame_time(at(1_000_000, 0)), Ok(1_000_000));
        assert_eq!(guard.frame_time(at(995_000, 10)), Ok(1_000_000));
        assert_eq!(guard.frame_time(at(1_000_500, 20)), Ok(1_000_500));
    }

    #[test]
    fn a_jump_is_refused_until_it_is_gone_or_confirmed() {
        let mut guard = ClockGuard::new(10_000, 0);
        guard.frame_time(at(1_000_000, 0)).unwrap();
        let jump = Err(ClockFault::Jumped { moved_ms: 3_600_000 });
        assert_eq!(guard.frame_time(at(4_600_100, 100)), jump);
        assert_eq!(guard.frame_time(at(1_000_200, 200)), Ok(1_000_200), "the clock came back");
        assert_eq!(guard.frame_time(at(4_600_300, 300)), Err(ClockFault::Jumped { moved_ms: 3_600_000 }));
        guard.confirm(at(4_600_400, 400));
        assert_eq!(guard.frame_time(at(4_600_500, 500)), Ok(4_600_500));
        assert_eq!(guard.frame_time(at(3_600_500, 600)), Err(ClockFault::Jumped { moved_ms: -1_000_100 }));
    }

    #[test]
    fn a_long_idle_time_is_not_a_jump() {
        let mut guard = ClockGuard::new(10_000, 0);
        guard.frame_time(at(1_000_000, 0)).unwrap();
        assert_eq!(guard.frame_time(at(90_000_000, 89_000_000)), Ok(90_000_000));
    }

    #[test]
    fn a_clock_far_behind_the_log_is_refused_at_start() {
        let mut guard = ClockGuard::new(10_000, 1_000_000);
        assert_eq!(guard.frame_time(at(900_000, 0)), Err(ClockFault::BehindLog { behind_ms: 100_000 }));
        assert_eq!(guard.frame_time(at(995_000, 10)), Ok(1_000_000));
    }
}
