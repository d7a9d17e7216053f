//! What `/metrics` shows of checkouts, whichever engine decides them. The names are the interface.

use holdfast_domain::shop::{Alarm, Tally};
use metrics::{Counter, counter};

/// What was done to checkouts.
pub struct ShopMeters {
    alarms: Counter,
    contradictions: Counter,
    paid: Counter,
    failed: Counter,
    compensations: Counter,
    /// Answers to what was asked or said before: a checkout of a paid order, an answer that changed nothing.
    pub repeats: Counter,
}

impl Default for ShopMeters {
    fn default() -> ShopMeters {
        ShopMeters {
            alarms: counter!("holdfast_checkout_alarms_total"),
            contradictions: counter!("holdfast_checkout_contradictions_total"),
            paid: counter!("holdfast_checkout_decisions_total", "verdict" => "paid"),
            failed: counter!("holdfast_checkout_decisions_total", "verdict" => "failed"),
            compensations: counter!("holdfast_checkout_compensations_total"),
            repeats: counter!("holdfast_checkout_repeats_total"),
        }
    }
}

impl ShopMeters {
    /// Counts what was decided, and what somebody should look at.
    pub fn count(&self, tally: &Tally, alarms: &[Alarm]) {
        let contradictions = alarms.iter().filter(|alarm| matches!(alarm, Alarm::Contradiction { .. }));
        self.alarms.increment(alarms.len() as u64);
        self.contradictions.increment(contradictions.count() as u64);
        self.paid.increment(tally.paid);
        self.failed.increment(tally.failed);
        self.compensations.increment(tally.compensations);
    }
}
