//! What is counted while a clock runs: times, names and rates.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

/// Latencies above this are counted as this, in microseconds.
pub const LATENCY_MAX_US: u64 = 600_000_000;

/// A histogram of times, in microseconds.
#[derive(Debug, Clone)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Latency {
        Latency(Histogram::new_with_max(LATENCY_MAX_US, 3).expect("three digits are possible"))
    }
}

impl Latency {
    /// Counts one time.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(micros(took));
    }

    /// Takes in what another has counted.
    pub fn add(&mut self, other: &Latency) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The shape of it, in microseconds.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles::of(&self.0)
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.percentiles().serialize(serializer)
    }
}

/// What several count in, one at a time. What one that panicked has counted stays.
pub fn lock<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often each name was met, such as that of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Counts(BTreeMap<String, u64>);

impl Counts {
    /// Counts a name once.
    pub fn note(&mut self, name: impl Into<String>) {
        *self.0.entry(name.into()).or_default() += 1;
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Whether nothing was met.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

/// Percentiles of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    pub max: u64,
}

impl Percentiles {
    /// Of what was recorded, in the unit of the histogram.
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        Percentiles {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }

    /// Of these times.
    pub fn of_times(times: impl IntoIterator<Item = Duration>) -> Percentiles {
        let mut latency = Latency::default();
        times.into_iter().for_each(|took| latency.record(took));
        latency.percentiles()
    }
}

/// Whole microseconds; what does not fit is as long as can be.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How many in a second, if so many took so long.
pub fn per_second(count: u64, took: Duration) -> f64 {
    per(count, 1) / took.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A quotient for the eye.
#[allow(clippy::cast_precision_loss, reason = "a printed rate")]
pub fn per(total: u64, count: u64) -> f64 {
    total as f64 / count.max(1) as f64
}

/// The middle one (the lower of two).
pub fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted).copied().unwrap_or(0.0)
}

/// The one whose rate is the median.
pub fn median_of<T>(all: &[T], rate: impl Fn(&T) -> f64) -> Option<&T> {
    let mut sorted: Vec<&T> = all.iter().collect();
    sorted.sort_by(|left, right| rate(left).total_cmp(&rate(right)));
    middle(&sorted).copied()
}

/// The middle one of what is sorted (the lower of two); `None` of nothing.
pub fn middle<T>(sorted: &[T]) -> Option<&T> {
    sorted.get((sorted.len().max(1) - 1) / 2)
}
