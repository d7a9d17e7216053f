//! Figures of a depth run as data: what `--output json` prints.

use std::collections::BTreeMap;

use serde::Serialize;

use super::watch::LookCost;
use crate::disk::Disk;
use crate::machine::Machine;
use crate::report::Percentiles;

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Asked {
    pub payments: u64,
    pub window_payments: u64,
    pub records_per_request: usize,
    pub connections: usize,
    pub accounts: u32,
    pub open_holds: u64,
    pub expire: bool,
    pub seed: u64,
}

/// One stretch of payments in a row.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Window {
    /// Payments made before it began.
    pub after_payments: u64,
    pub payments: u64,
    pub seconds: f64,
    pub payments_per_second: f64,
    /// Of the requests of both kinds.
    pub request_us: Percentiles,
    /// From the begin of the window to that of the next one, so what goes on in the background counts too.
    pub server_cpu_us_per_payment: f64,
    pub client_cpu_us_per_payment: f64,
    /// `write_bytes` of the server's process.
    pub process_written_bytes_per_payment: f64,
    /// By the device's own count: whatever else wrote to it counts too.
    pub device_written_bytes_per_payment: Option<f64>,
    pub rss_bytes: u64,
    /// The most since the server was started.
    pub rss_peak_bytes: u64,
    /// Server time in each stage. Stages overlap: append runs beside decide.
    pub stage_us_per_payment: BTreeMap<String, f64>,
    /// Checkpoints that ran beside its requests; `None`: the server does not tell.
    pub checkpoints: Option<usize>,
    /// Bytes on the disk by folder of the data directory.
    pub folder_bytes: BTreeMap<String, u64>,
    pub load_average: String,
}

/// What requests felt of checkpoints.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Checkpoints {
    /// Stretches of time in which at least one ran.
    pub seen: usize,
    /// By the server's own count.
    pub counted: u64,
    pub mean_seconds: Option<f64>,
    pub requests_beside: u64,
    pub request_us_beside: Percentiles,
    /// Of those beside no checkpoint.
    pub request_us_apart: Percentiles,
    /// Of all requests, those beside no checkpoint included.
    pub request_us: Percentiles,
}

/// Ids from one part of the history, asked for again after a restart.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Sample {
    pub of: String,
    pub ids: u64,
    /// Repeats of prepare or fulfil that were not answered with the stored outcome, and changed prepares that were
    /// not refused as such.
    pub wrong: u64,
    /// Of the repeated prepares, in batches.
    pub us_per_id: f64,
}

/// One end of the server and its next start.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Restart {
    pub after: String,
    /// Payments that the history held.
    pub payments: u64,
    /// Holds that must be open, without those of requests under way.
    pub open_holds: u64,
    /// Requests whose outcome was unknown when the server was killed.
    pub requests_under_way: u64,
    /// How long the end took; of a kill, nothing worth telling.
    pub stop_ms: Option<u64>,
    /// From the start of the program.
    pub listening_ms: u64,
    /// From the start of the program to the first 200 of `/health`.
    pub ready_ms: u64,
    /// From the start of the program to the first settled payment.
    pub first_payment_ms: u64,
    pub open_holds_found: u64,
    /// Of the server that ended.
    pub rss_peak_before_bytes: u64,
    /// Of the server that was started.
    pub rss_peak_bytes: u64,
    pub samples: Vec<Sample>,
}

/// Part of the time around a mass expiry.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Around {
    pub seconds: f64,
    pub payments_per_second: f64,
    /// From when a request was due to its answer.
    pub request_us: Percentiles,
}

/// What happened in one second around a mass expiry.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Second {
    /// Its begin, from the instant on; below zero: before it.
    pub from: i64,
    /// Settled in it.
    pub payments: u64,
    /// Of the requests that ended in it.
    pub request_us: Percentiles,
    /// At its last look.
    pub open_holds: Option<f64>,
    pub rss_bytes: Option<u64>,
}

/// Many holds that expire at one instant beside a steady load.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Expiry {
    pub holds: u64,
    /// The pace of the load.
    pub payments_per_second_due: f64,
    pub before: Around,
    pub during: Around,
    pub after: Around,
    pub by_second: Vec<Second>,
    /// From the instant until only holds of the load were open.
    pub all_expired_ms: u64,
    pub rss_before_holds_bytes: u64,
    pub rss_with_holds_bytes: u64,
    /// The most that was seen while they expired.
    pub rss_most_bytes: u64,
    pub rss_after_bytes: u64,
    pub rss_peak_bytes: u64,
}

/// One must, and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Verdict {
    pub what: String,
    pub must: String,
    pub found: String,
    /// `None`: not seen.
    pub holds: Option<bool>,
}

/// Payments in turns on the hub with all the history and on one with little.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct InTurns {
    /// On each.
    pub payments: u64,
    /// Payments of the one before the turns.
    pub deep_history: u64,
    /// Payments of the other before them.
    pub young_history: u64,
    /// Of the one's server.
    pub deep_cpu_us_per_payment: f64,
    /// Of the other's.
    pub young_cpu_us_per_payment: f64,
}

/// Everything that a depth run found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct DepthReport {
    pub version: &'static str,
    pub date: String,
    pub machine: Machine,
    pub load_average_before: String,
    pub asked: Asked,
    pub disk_before: Disk,
    pub disk_after: Option<Disk>,
    pub windows: Vec<Window>,
    /// During the windows; `None`: the server does not tell.
    pub checkpoints: Option<Checkpoints>,
    /// During payments beside the open holds.
    pub checkpoints_with_holds: Option<Checkpoints>,
    pub looks: LookCost,
    pub in_turns: Option<InTurns>,
    pub restarts: Vec<Restart>,
    pub expiry: Option<Expiry>,
    pub verdicts: Vec<Verdict>,
    /// Why the run ended early.
    pub failed: Option<String>,
}
