//! What `/metrics` shows of the vault, read from the index whenever somebody asks.

use holdfast_domain::ids::Millis;
use metrics::{counter, gauge};

use super::TokenIndex;

#[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
pub(super) fn publish(index: &TokenIndex, now: Millis) {
    let counters = index.selector.counters();
    for (name, value) in [
        ("holdfast_token_selections_total", counters.selections),
        ("holdfast_token_inputs_total", counters.inputs),
        ("holdfast_token_refused_total", counters.refused),
        ("holdfast_token_conflicts_total", counters.conflicts + index.conflicts()),
        ("holdfast_token_waits_total", counters.waits),
        ("holdfast_token_lease_ends_total", counters.lease_ends),
    ] {
        counter!(name).absolute(value);
    }
    let mut below = 0;
    for (power, count) in counters.inputs_histogram.iter().enumerate() {
        below += count;
        let inputs = (1_u64 << power).to_string();
        counter!("holdfast_token_selections_by_inputs_total", "up_to" => inputs).absolute(below);
    }
    gauge!("holdfast_tokens").set(counters.tokens as f64);
    gauge!("holdfast_token_waiting").set(counters.waiting as f64);
    let locks = index.selector.lock_summary(now);
    gauge!("holdfast_token_locks").set(locks.locks as f64);
    gauge!("holdfast_token_lock_age_max_seconds").set(locks.oldest_ms(now) as f64 / 1_000.0);
    let (shattered, _) = index.selector.fragmented(FRAGMENTED_TOKENS, 0, FRAGMENTED_SHOWN);
    gauge!("holdfast_token_fragmented_wallets").set(shattered.len() as f64);
}

/// A wallet with so many free tokens counts as shattered.
const FRAGMENTED_TOKENS: usize = 1_000;
/// Wallets that are counted at most.
const FRAGMENTED_SHOWN: usize = 1_000;
