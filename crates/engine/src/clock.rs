//! Time. A hub reads the wall clock here and nowhere else; everywhere else time comes in with the frame. The library `tokens`,
//! which knows no hub, reads it once for its own vault.

use std::time::{Duration, Instant};

use holdfast_domain::ids::Millis;

/// Both clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds since 1970 by the wall clock.
    pub wall: Millis,
    /// Milliseconds by a clock that nobody sets.
    pub monotonic: Millis,
}

/// Where readings come from.
pub trait Clock: Send + Sync {
    /// Both clocks now.
    fn read(&self) -> Reading;
}

/// The clocks of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// The clocks of the machine; the monotonic one counts from here.
    #[must_use]
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn read(&self) -> Reading {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Reading { wall: since_epoch.map_or(0, millis), monotonic: millis(self.started.elapsed()) }
    }
}

/// Why the wall clock is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockFault {
    /// It moved against the monotonic clock.
    #[error("the wall clock moved {moved_ms} ms against the monotonic clock; set it right or confirm it")]
    Jumped {
        /// By how much, forward above zero.
        moved_ms: Millis,
    },
    /// It stands before the last frame.
    #[error(
        "the wall clock stands {behind_ms} ms before the last frame of the log; set it right or confirm it"
    )]
    BehindLog {
        /// By how much.
        behind_ms: Millis,
    },
}
