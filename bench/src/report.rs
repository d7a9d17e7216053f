//! Figures as data: what `--output json` prints.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::disk::Disk;
use crate::machine::Machine;
use crate::options::{Case, Payers};

/// Latencies above this are counted as this.
pub(crate) const LATENCY_MAX_US: u64 = 600_000_000;

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
    /// Of what was recorded.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        Percentiles {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// One run of one case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Run {
    pub seconds: f64,
    pub payments_per_second: f64,
    /// Of the prepare alone: a request of a batch case, a call of a single one.
    pub prepare_us: Percentiles,
    /// Of the fulfil alone.
    pub fulfil_us: Percentiles,
    /// From the prepare's start to the fulfil's answer.
    pub payment_us: Percentiles,
    pub server_cpu_us_per_payment: f64,
    pub client_cpu_us_per_payment: f64,
    /// Bytes written to the device while the clock ran, zero-filling of new segments included. Whatever else wrote
    /// to it counts too.
    pub written_bytes_per_payment: Option<f64>,
    /// `write_bytes` of the server's process. The kernel counts whole folios of the page cache, so small synced
    /// writes look far larger than they are.
    pub dirtied_bytes_per_payment: f64,
    pub server_rss_peak_bytes: u64,
    pub frames: u64,
    pub records_per_frame: f64,
    /// Server time in each stage. Stages overlap: append runs beside decide.
    pub stage_us_per_payment: BTreeMap<String, f64>,
    pub disk: Disk,
    pub load_average: String,
}

/// All runs of one case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct CaseReport {
    pub name: String,
    #[serde(flatten)]
    pub case: Case,
    pub median_payments_per_second: f64,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl CaseReport {
    /// The run whose rate is the median.
    #[must_use]
    pub fn median(&self) -> Option<&Run> {
        let rate = |run: &&Run| run.payments_per_second;
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by(|left, right| rate(left).total_cmp(&rate(right)));
        middle(&runs).copied()
    }
}

/// The bin processor alone.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct BinsReport {
    pub payers: Payers,
    pub accounts: u32,
    pub messages_per_frame: usize,
    pub median_messages_per_second: f64,
    pub messages_per_second: Vec<f64>,
}

/// Everything that `bench transfers` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct BenchReport {
    pub version: &'static str,
    pub machine: Machine,
    pub accounts: u32,
    pub cases: Vec<CaseReport>,
    pub bins: Vec<BinsReport>,
}

/// The middle one (the lower of two).
pub(crate) fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted).copied().unwrap_or(0.0)
}

/// The middle one of what is sorted (the lower of two); `None` of nothing.
pub(crate) fn middle<T>(sorted: &[T]) -> Option<&T> {
    sorted.get((sorted.len().max(1) - 1) / 2)
}

/// A quotient for the eye.
#[allow(clippy::cast_precision_loss, reason = "a printed rate")]
pub(crate) fn per(total: u64, count: u64) -> f64 {
    total as f64 / count.max(1) as f64
}

/// Counts by name, of one who drove added to those of all.
pub(crate) fn add_counts(sums: &mut BTreeMap<String, u64>, parts: BTreeMap<String, u64>) {
    for (name, count) in parts {
        *sums.entry(name).or_default() += count;
    }
}
