//! The simulated clocks: time passes when the run says so, and the wall clock can be set wrong.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use holdfast_domain::ids::Millis;
use holdfast_engine::clock::{Clock, Reading};

/// When every run begins: 2026-01-01T00:00:00Z.
const BEGINNING: Millis = 1_767_225_600_000;

/// A wall clock and a monotonic one.
#[derive(Debug)]
pub struct SimClock {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl Default for SimClock {
    fn default() -> SimClock {
        SimClock { wall: AtomicI64::new(BEGINNING), monotonic: AtomicI64::new(1) }
    }
}

impl SimClock {
    /// Time passes, by both clocks.
    pub fn pass(&self, ms: Millis) {
        self.wall.fetch_add(ms, Relaxed);
        self.monotonic.fetch_add(ms, Relaxed);
    }

    /// Somebody sets the wall clock.
    pub fn jump(&self, ms: Millis) {
        self.wall.fetch_add(ms, Relaxed);
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        Reading { wall: self.wall.load(Relaxed), monotonic: self.monotonic.load(Relaxed) }
    }
}
