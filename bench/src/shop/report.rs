//! Figures of checkouts, as data and for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::goods::{Books, Goods};
use crate::disk::Disk;
use crate::goal::{Goal, write_goals};
use crate::machine::Machine;
use crate::report::{Percentiles, middle};
use crate::table::{disk_table, each, millis, new_table, thousands, write_late, write_machine};

/// What a load of checkouts found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct CheckoutLoadReport {
    pub seconds: f64,
    pub checkouts: u64,
    pub checkouts_per_second: f64,
    /// Asked for, in an open loop.
    pub rate: Option<u64>,
    pub in_flight: usize,
    #[serde(flatten)]
    pub goods: Goods,
    pub paid: u64,
    /// Orders that were checked out again.
    pub paid_before: u64,
    /// Checkouts that were asked for again after an answer was lost.
    pub repeats: u64,
    /// Of those, how many were found paid.
    pub found_paid: u64,
    /// Failures, by the name of their problem.
    pub failed: BTreeMap<String, u64>,
    /// Answers that are no end, by the name of their problem.
    pub refused: BTreeMap<String, u64>,
    /// Calls without an answer, by what happened.
    pub errors: BTreeMap<String, u64>,
    /// What is gone from the shop at the end; `None` if it could not be asked, or a side is outside.
    pub books: Option<Books>,
    /// What is wrong with the run: books that do not balance or cannot be read, or nothing paid.
    pub trouble: Option<String>,
    /// The longest that a checkout of an open loop began after its place in time: the load's own part of the latency.
    pub late_us: Option<u64>,
    /// From a checkout's start (open loop: its place in time) to its end.
    pub checkout_us: Percentiles,
}

impl CheckoutLoadReport {
    /// Whether every checkout came to an end, something was paid and the books balance.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.refused.is_empty() && self.errors.is_empty() && self.trouble.is_none()
    }
}

impl fmt::Display for CheckoutLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        writeln!(
            f,
            "{} checkouts in {:.1} s: {}/s; paid {}, paid before {}, failed {}, refused {}, unknown {}",
            self.checkouts,
            self.seconds,
            thousands(self.checkouts_per_second),
            self.paid,
            self.paid_before,
            sum(&self.failed),
            sum(&self.refused),
            sum(&self.errors),
        )?;
        if self.repeats > 0 {
            let (repeats, found) = (self.repeats, self.found_paid);
            writeln!(f, "asked again after a lost answer: {repeats}, of which {found} were found paid")?;
        }
        for (name, count) in self.failed.iter().chain(&self.refused).chain(&self.errors) {
            writeln!(f, "  {name}: {count}")?;
        }
        match (&self.trouble, self.books) {
            (Some(trouble), _) => writeln!(f, "{trouble}")?,
            (None, Some(Books { credit_gone, units_gone })) => {
                writeln!(f, "{units_gone} units and {credit_gone} of credit are gone, as they should be")?;
            }
            (None, None) => writeln!(f, "a side of checkouts is outside: the books are not all here")?,
        }
        let mut table = new_table(&["ms", "p50", "p90", "p99", "p99.9", "max"]);
        let mut row = vec!["checkout".to_owned()];
        row.extend(millis(&self.checkout_us));
        table.add_row(row);
        writeln!(f, "{table}")?;
        write_late(f, "checkout", self.late_us)
    }
}

/// How checkouts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// Requests of so many records through the client.
    Batches {
        /// Records in a request.
        records: usize,
    },
    /// Single calls through the client, which coalesces them.
    Singles {
        /// Calls under way at once.
        in_flight: usize,
    },
    /// One request each.
    Http,
}

/// What is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Any of many items.
    Many,
    /// Always the same item.
    Hot,
    /// Any of many items; of a hundred orders twenty fail.
    Failing,
}

/// One line of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Case {
    pub way: Way,
    pub kind: Kind,
    /// At half the rate that the same without this has reached, in an open loop.
    pub half_load: bool,
    pub connections: usize,
    pub checkouts: u64,
}

impl Case {
    /// A line's name.
    #[must_use]
    pub fn name(&self) -> String {
        let way = match self.way {
            Way::Batches { records } => format!("batches of {records}, {} connections", self.connections),
            Way::Singles { in_flight } => format!("singles through the client, {in_flight} in flight"),
            Way::Http => format!("HTTP, {} connections", self.connections),
        };
        let kind = match self.kind {
            Kind::Many => "",
            Kind::Hot => ", one hot item",
            Kind::Failing => ", 20 % failing",
        };
        format!("{way}{kind}{}", if self.half_load { ", half load" } else { "" })
    }
}

/// One run of one case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Run {
    pub seconds: f64,
    pub checkouts_per_second: f64,
    /// Asked for, in an open loop.
    pub rate: Option<f64>,
    pub paid: u64,
    pub failed: u64,
    /// Of a batch's request, of a single call, or of a request over HTTP.
    pub latency_us: Percentiles,
    pub server_cpu_us_per_checkout: f64,
    pub client_cpu_us_per_checkout: f64,
    /// By the device, whoever wrote.
    pub written_bytes_per_checkout: Option<f64>,
    pub server_rss_peak_bytes: u64,
    pub frames: u64,
    pub records_per_frame: f64,
    /// Server time in each stage. Stages overlap.
    pub stage_us_per_checkout: BTreeMap<String, f64>,
    pub books: Books,
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
    pub median_checkouts_per_second: f64,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl CaseReport {
    /// The run whose rate is the median; of an open loop, whose rate is given, that whose p99 is.
    #[must_use]
    pub fn median(&self) -> Option<&Run> {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        if self.case.half_load {
            runs.sort_by_key(|run| run.latency_us.p99);
        } else {
            runs.sort_by(|left, right| left.checkouts_per_second.total_cmp(&right.checkouts_per_second));
        }
        middle(&runs).copied()
    }
}

/// Rebuilds of any size are held against the goal of so many.
const GOAL_OUTCOMES: f64 = 1_000_000.0;

/// Outcomes folded again.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct RebuildReport {
    pub outcomes: u64,
    pub orders: u64,
    /// Tries that the rebuild had to decide.
    pub undecided: u64,
    pub median_seconds: f64,
    pub seconds: Vec<f64>,
}

impl RebuildReport {
    /// So long at most for a million.
    pub(super) fn goal(&self, seconds_max: f64) -> Goal {
        #[allow(clippy::cast_precision_loss, reason = "a printed time")]
        let seconds = self.median_seconds * GOAL_OUTCOMES / self.outcomes.max(1) as f64;
        Goal {
            what: "rebuild of a million outcomes",
            must: format!("under {seconds_max:.0} s"),
            aim: None,
            found: format!("{seconds:.2} s"),
            holds: seconds < seconds_max,
            reached: None,
        }
    }
}

/// A line about it.
pub(super) fn write_rebuild(f: &mut fmt::Formatter<'_>, what: &str, rebuild: &RebuildReport) -> fmt::Result {
    let seconds: Vec<String> = rebuild.seconds.iter().map(|seconds| format!("{seconds:.2}")).collect();
    let RebuildReport { outcomes, orders, undecided, .. } = rebuild;
    let seconds = seconds.join(" / ");
    writeln!(
        f,
        "\n{what}: {outcomes} outcomes of {orders} orders, {undecided} of them undecided: {seconds} s"
    )
}

/// Everything that `bench checkout` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct CheckoutReport {
    pub version: &'static str,
    pub machine: Machine,
    pub cases: Vec<CaseReport>,
    pub rebuild: Option<RebuildReport>,
    pub goals: Vec<Goal>,
}

impl fmt::Display for CheckoutReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        if !self.cases.is_empty() {
            writeln!(
                f,
                "\ncheckouts of two lines, every answer after fdatasync; milliseconds of a request or call:"
            )?;
            self.write_speed(f)?;
            writeln!(f, "\nof the median run; microseconds of CPU or of the stage per checkout:")?;
            self.write_costs(f)?;
            writeln!(f, "\nthe raw disk before the median run, write + fdatasync on zeros; microseconds:")?;
            self.write_disk(f)?;
        }
        if let Some(rebuild) = &self.rebuild {
            write_rebuild(f, "rebuild", rebuild)?;
        }
        write_goals(f, &self.goals)
    }
}

impl CheckoutReport {
    fn write_speed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["case", "checkouts/s", "every run", "failed %", "p50", "p90", "p99", "p99.9", "max"];
        let mut table = new_table(&header);
        for case in &self.cases {
            let Some(run) = case.median() else { continue };
            let rates: Vec<f64> = case.runs.iter().map(|run| run.checkouts_per_second).collect();
            let failed = 100 * run.failed / (run.paid + run.failed).max(1);
            let mut row = vec![
                case.name.clone(),
                thousands(case.median_checkouts_per_second),
                each(&rates),
                failed.to_string(),
            ];
            row.extend(millis(&run.latency_us));
            table.add_row(row);
        }
        writeln!(f, "{table}")
    }

    fn write_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.cases.iter().flat_map(|case| &case.runs);
        let stages: BTreeSet<&String> = runs.flat_map(|run| run.stage_us_per_checkout.keys()).collect();
        let mut header = vec!["case", "server", "client"];
        header.extend(stages.iter().map(|stage| stage.as_str()));
        header.extend(["B written", "records/frame", "RSS MiB", "load"]);
        let mut table = new_table(&header);
        for case in &self.cases {
            let Some(run) = case.median() else { continue };
            let mut row = vec![
                case.name.clone(),
                format!("{:.2}", run.server_cpu_us_per_checkout),
                format!("{:.2}", run.client_cpu_us_per_checkout),
            ];
            row.extend(stages.iter().map(|stage| {
                run.stage_us_per_checkout.get(*stage).map_or_else(String::new, |time| format!("{time:.2}"))
            }));
            row.push(run.written_bytes_per_checkout.map_or_else(String::new, |bytes| format!("{bytes:.0}")));
            row.push(format!("{:.0}", run.records_per_frame));
            row.push((run.server_rss_peak_bytes >> 20).to_string());
            row.push(run.load_average.clone());
            table.add_row(row);
        }
        writeln!(f, "{table}")
    }

    fn write_disk(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.cases.iter().filter_map(|case| Some((&*case.name, &case.median()?.disk)));
        writeln!(f, "{}", disk_table("before", found))
    }
}
