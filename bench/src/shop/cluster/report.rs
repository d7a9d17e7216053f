//! Figures of checkouts in a cluster, as data and for people, and what they are held against.

use std::fmt;

use serde::Serialize;

use crate::cluster::costs::{COSTS, Costs, MEMORY, cost_cells, memory_cells, write_hops};
use crate::cluster::town::Promises;
use crate::goal::{Goal, write_goals};
use crate::machine::Machine;
use crate::report::{Percentiles, median};
use crate::shop::report::{RebuildReport, write_rebuild};
use crate::table::{each, millis, new_table, thousands, thousands_of, write_late, write_machine};

const RATE: (f64, f64) = (1_000.0, 2_500.0);
/// At half load.
const P99_MS_MAX: u64 = 300;
/// For a million outcomes.
const REBUILD_SECONDS_MAX: f64 = 5.0;

/// One drive.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Run {
    pub checkouts: u64,
    pub seconds: f64,
    pub checkouts_per_second: f64,
    /// Asked for, in an open loop.
    pub rate: Option<u64>,
    /// The longest that a checkout of an open loop began after its place in time.
    pub late_us: Option<u64>,
    /// From a checkout's start (open loop: its place in time) to its end.
    pub latency_us: Percentiles,
    pub costs: Costs,
    pub load_average: String,
}

/// Everything that `bench checkout --profile cluster` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct SharedCheckoutReport {
    pub version: &'static str,
    pub machine: Machine,
    pub promises: Promises,
    pub partitions: u32,
    pub checkouts: u64,
    pub connections: usize,
    /// Whether the CPU of all processes could be read.
    pub sees_all: bool,
    /// As fast as they go.
    pub runs: Vec<Run>,
    pub half_load: Run,
    /// One transaction per checkout in one database.
    pub alone_connections: u64,
    pub alone_per_second: f64,
    pub rebuild: RebuildReport,
    pub goals: Vec<Goal>,
}

impl SharedCheckoutReport {
    fn rates(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.checkouts_per_second).collect()
    }

    /// The run whose rate is the median.
    fn median(&self) -> Option<&Run> {
        let rate = median(&self.rates());
        self.runs.iter().find(|run| run.checkouts_per_second.total_cmp(&rate).is_eq())
    }

    /// The rows of both tables.
    fn drives(&self) -> impl Iterator<Item = (String, &Run)> {
        let full = self.median().map(|run| (format!("{} under way", self.connections), run));
        let half = format!("half load, {}/s", thousands_of(self.half_load.rate.unwrap_or(0)));
        full.into_iter().chain([(half, &self.half_load)])
    }
}

impl fmt::Display for SharedCheckoutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        self.promises.write(f)?;
        writeln!(
            f,
            "; Kafka: acks=all, idempotent producers, {} partitions each; Kafka, PostgreSQL, one node with all roles and the \
             load on this machine",
            self.partitions
        )?;
        writeln!(
            f,
            "\ncheckouts of two lines over HTTP through orders, pay, stock and outcomes, {} per run; milliseconds of a request:",
            thousands_of(self.checkouts)
        )?;
        let mut table =
            new_table(&["checkouts", "per second", "every run", "p50", "p90", "p99", "p99.9", "max"]);
        for (name, run) in self.drives() {
            let all = if run.rate.is_none() { each(&self.rates()) } else { String::new() };
            let mut row = vec![name, thousands(run.checkouts_per_second), all];
            row.extend(millis(&run.latency_us));
            table.add_row(row);
        }
        writeln!(f, "{table}")?;
        write_late(f, "checkout", self.half_load.late_us)?;
        let unseen = if self.sees_all { "" } else { "; 0 for servers that cannot be looked into from here" };
        writeln!(f, "\nper checkout, of the median run; microseconds of CPU, bytes, MiB{unseen}:")?;
        let mut table = new_table(&[&["checkouts"], &COSTS[..], &MEMORY[..], &["load"]].concat());
        for (name, run) in self.drives() {
            let mut row = vec![name];
            row.extend(cost_cells(&run.costs));
            row.extend(memory_cells(&run.costs));
            row.push(run.load_average.clone());
            table.add_row(row);
        }
        writeln!(f, "{table}")?;
        if let Some(run) = self.median() {
            write_hops(f, &run.costs)?;
        }
        writeln!(
            f,
            "\none transaction per checkout in one database, without messages, {} connections: {} checkouts/s",
            self.alone_connections,
            thousands(self.alone_per_second)
        )?;
        write_rebuild(f, "rebuild from Kafka by a node that starts", &self.rebuild)?;
        write_goals(f, &self.goals)
    }
}

/// What has to be reached, held against what was found.
pub(super) fn goals(report: &SharedCheckoutReport) -> Vec<Goal> {
    vec![
        Goal::per_second("checkouts through all hops", median(&report.rates()), RATE),
        Goal::p99_under("p99 of a checkout at half load", P99_MS_MAX, report.half_load.latency_us.p99),
        report.rebuild.goal(REBUILD_SECONDS_MAX),
    ]
}
