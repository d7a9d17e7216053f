//! Figures of expiry, as data and for people.

use std::fmt;

use serde::Serialize;

use crate::goal::{Goal, write_goals};
use crate::machine::Machine;
use crate::report::{Percentiles, median};
use crate::table::{millis, new_table, thousands, write_machine};

/// Looks and scans of ours where nothing is due.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Scans {
    /// The very first look.
    pub first_ms: f64,
    /// One look at all shards: what a worker does first, and all that it does while nothing is due.
    pub look_us: Percentiles,
    /// A scan of one shard, its guard locked.
    pub scan_us: Percentiles,
}

/// Nothing due, at one size.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Growth {
    pub transfers: u64,
    pub state_changes: u64,
    pub open: u64,
    pub naive_ms: f64,
    pub seed_ms: f64,
    /// What the document's process lists although nothing is due.
    pub seed_wrongly_listed: u64,
    pub ours: Scans,
    pub load_average: String,
}

/// The document's process over the whole history.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Windows {
    pub state_changes_each: u64,
    /// Windows that failed on the unique key, and were repeated without it.
    pub failed: u64,
    pub each_ms: Vec<f64>,
}

/// Some due among many.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Due {
    pub count: u64,
    /// Listed only.
    pub naive_ms: f64,
    /// Listed only.
    pub seed_ms: f64,
    /// How many were listed.
    pub seed_listed: u64,
    /// Ended, every round.
    pub ours_ms: Vec<f64>,
    /// Ended, and their positions given back, connections opened for it included.
    pub with_positions_ms: Vec<f64>,
}

/// Many due at once.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Sustained {
    pub holds: u64,
    /// Of them with a position to give back.
    pub reserved: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub scanners: usize,
    pub positions: usize,
}

/// Nothing due after payments that ended as they should, without VACUUM.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Finished {
    pub payments: u64,
    pub payments_per_second: f64,
    pub scans: Scans,
}

/// Bytes of log per payment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Wal {
    pub payments: u64,
    pub bytes_with: f64,
    /// With the expiry table unlogged.
    pub bytes_without: f64,
}

/// Everything that `bench expiry` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct ExpiryReport {
    pub version: &'static str,
    pub machine: Machine,
    pub postgres: String,
    /// The size at which some were due.
    pub transfers: u64,
    pub growth: Vec<Growth>,
    pub windows: Windows,
    pub due: Due,
    pub sustained: Sustained,
    pub finished: Finished,
    pub wal: Wal,
    /// At the end.
    pub load_average: String,
    pub goals: Vec<Goal>,
}

impl fmt::Display for ExpiryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        writeln!(f, "{}; load average at the end {}", self.postgres, self.load_average)?;
        writeln!(
            f,
            "\nnothing due, milliseconds (naive and the document's process: median of three; ours: a look at all shards, and a scan of one):"
        )?;
        self.write_growth(f)?;
        self.write_due(f)?;
        self.write_sustained(f)?;
        write_goals(f, &self.goals)
    }
}

impl ExpiryReport {
    fn write_growth(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = [
            "transfers",
            "state changes",
            "open",
            "naive",
            "ten steps",
            "look p50",
            "p99",
            "scan p50",
            "p99",
            "load",
        ];
        let mut table = new_table(&header);
        for growth in &self.growth {
            let [look, _, look_p99, ..] = cells(&growth.ours.look_us);
            let [scan, _, scan_p99, ..] = cells(&growth.ours.scan_us);
            table.add_row(vec![
                count(growth.transfers),
                count(growth.state_changes),
                count(growth.open),
                format!("{:.0}", growth.naive_ms),
                format!("{:.0}", growth.seed_ms),
                look,
                look_p99,
                scan,
                scan_p99,
                growth.load_average.clone(),
            ]);
        }
        writeln!(f, "{table}")?;
        let finished = &self.finished;
        let [look, _, look_p99, _, look_max] = cells(&finished.scans.look_us);
        let [scan, _, scan_p99, ..] = cells(&finished.scans.scan_us);
        writeln!(
            f,
            "after {} payments more ended as they should ({}/s through the handlers), without VACUUM: the first look {:.2} ms; \
             then p50 {look}, p99 {look_p99}, max {look_max}; a scan p50 {scan}, p99 {scan_p99}",
            count(finished.payments),
            thousands(finished.payments_per_second),
            finished.scans.first_ms,
        )
    }

    fn write_due(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (due, windows) = (&self.due, &self.windows);
        writeln!(f, "\n{} due of {}, milliseconds:", count(due.count), count(self.transfers))?;
        let mut table = new_table(&["way", "median", "every run"]);
        table.add_row(["naive: listed".to_owned(), format!("{:.0}", due.naive_ms), String::new()]);
        let wrongly = match due.seed_listed.saturating_sub(due.count) {
            0 => String::new(),
            wrongly => format!("{wrongly} more listed than due"),
        };
        table.add_row(["ten steps: listed".to_owned(), format!("{:.0}", due.seed_ms), wrongly]);
        for (what, times) in
            [("ours: ended", &due.ours_ms), ("ours: ended, positions given back", &due.with_positions_ms)]
        {
            let each: Vec<String> = times.iter().map(|time| format!("{time:.0}")).collect();
            table.add_row([what.to_owned(), format!("{:.0}", median(times)), each.join(" / ")]);
        }
        writeln!(f, "{table}")?;
        let max = windows.each_ms.iter().copied().fold(0.0, f64::max);
        writeln!(
            f,
            "ten steps over the whole history, {} windows of {} state changes: first {:.0} ms, median {:.0}, max {max:.0}, all {:.1} s; \
             {} failed on the unique key and were repeated without it",
            windows.each_ms.len(),
            count(windows.state_changes_each),
            windows.each_ms.first().copied().unwrap_or(0.0),
            median(&windows.each_ms),
            windows.each_ms.iter().sum::<f64>() / 1e3,
            windows.failed,
        )
    }

    fn write_sustained(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sustained, wal) = (&self.sustained, &self.wal);
        writeln!(
            f,
            "\n{} holds due at once ({} of them reserved), {} connections scanning and {} at the position step, messages through \
             the outbox but handed on in memory (no Kafka): {:.1} s, {} expirations/s",
            count(sustained.holds),
            count(sustained.reserved),
            sustained.scanners,
            sustained.positions,
            sustained.seconds,
            thousands(sustained.per_second),
        )?;
        writeln!(
            f,
            "per payment the expiry table takes one row in and one out; log per payment {:.0} bytes, {:.0} without it: {:.0} more ({:.1} %)",
            wal.bytes_with,
            wal.bytes_without,
            wal.bytes_with - wal.bytes_without,
            100.0 * (wal.bytes_with - wal.bytes_without) / wal.bytes_without.max(1.0),
        )
    }
}

fn cells(latency: &Percentiles) -> [String; 5] {
    millis(latency).try_into().unwrap_or_default()
}

#[allow(clippy::cast_precision_loss, reason = "for the eye")]
fn count(number: u64) -> String {
    thousands(number as f64)
}
