//! What `/metrics` shows of callbacks. The names are the interface; `docs/callbacks.md` lists them.

use metrics::{Counter, Gauge, counter, gauge};

use crate::lanes::Census;

/// Handles on the metrics of callbacks, made once.
pub(super) struct Meters {
    pub(super) delivered: Counter,
    pub(super) failed_attempts: Counter,
    pub(super) dead: Counter,
    /// Threads that cannot go on because rows cannot be read.
    pub(super) unreadable: Gauge,
    dead_letters: Gauge,
    behind: Gauge,
    waiting: Gauge,
    resting: Gauge,
    in_flight: Gauge,
}

impl Default for Meters {
    fn default() -> Meters {
        let state = |name: &'static str| gauge!("holdfast_callbacks", "state" => name);
        Meters {
            delivered: counter!("holdfast_callbacks_delivered_total"),
            failed_attempts: counter!("holdfast_callbacks_failed_attempts_total"),
            dead: counter!("holdfast_callbacks_dead_total"),
            unreadable: gauge!("holdfast_callbacks_unreadable"),
            dead_letters: gauge!("holdfast_dead_letters"),
            behind: gauge!("holdfast_callbacks_participants_behind"),
            waiting: state("waiting"),
            resting: state("resting"),
            in_flight: state("in_flight"),
        }
    }
}

impl Meters {
    #[allow(clippy::cast_precision_loss, reason = "a gauge is for the eye")]
    pub(super) fn show(&self, census: Census, dead_letters: usize, behind: usize) {
        self.waiting.set(census.waiting as f64);
        self.resting.set(census.resting as f64);
        self.in_flight.set(census.in_flight as f64);
        self.dead_letters.set(dead_letters as f64);
        self.behind.set(behind as f64);
    }
}
