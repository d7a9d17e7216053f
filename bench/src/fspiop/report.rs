//! Figures of the JSON path, as data and for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Way;
use crate::disk::Disk;
use crate::machine::Machine;
use crate::report::{Percentiles, middle};
use crate::table::{disk_table, each, millis, new_table, thousands, write_machine};

/// One run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct FspiopRun {
    pub seconds: f64,
    pub payments_per_second: f64,
    /// From a POST's first byte to its answer.
    pub post_us: Percentiles,
    /// From a PUT's first byte to its answer.
    pub put_us: Percentiles,
    /// From the POST to the PUT's answer, or to the payer's callback.
    pub payment_us: Percentiles,
    pub server_cpu_us_per_payment: f64,
    /// The clients, and the sink where there is one.
    pub client_cpu_us_per_payment: f64,
    pub written_bytes_per_payment: Option<f64>,
    pub server_rss_peak_bytes: u64,
    pub frames: u64,
    pub records_per_frame: f64,
    pub stage_us_per_payment: BTreeMap<String, f64>,
    pub disk: Disk,
    pub load_average: String,
}

/// All runs of one way.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct FspiopCase {
    pub way: Way,
    pub connections: usize,
    pub in_flight: usize,
    pub payments: u64,
    pub median_payments_per_second: f64,
    pub runs: Vec<FspiopRun>,
}

impl FspiopCase {
    /// The run whose rate is the median.
    #[must_use]
    pub fn median(&self) -> Option<&FspiopRun> {
        let mut runs: Vec<&FspiopRun> = self.runs.iter().collect();
        runs.sort_by(|left, right| left.payments_per_second.total_cmp(&right.payments_per_second));
        middle(&runs).copied()
    }
}

/// Everything that `bench fspiop` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct FspiopReport {
    pub version: &'static str,
    pub machine: Machine,
    pub participants: u32,
    /// Bytes of a POST and of a PUT with their heads.
    pub request_bytes: (usize, usize),
    pub cases: Vec<FspiopCase>,
}

/// A line's name.
pub(super) const fn name(way: Way) -> &'static str {
    match way {
        Way::PreferWait => "Prefer: wait",
        Way::Callbacks => "callbacks",
    }
}

impl fmt::Display for FspiopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        let (post, put) = self.request_bytes;
        writeln!(
            f,
            "\nFSPIOP payments, {} participants, POST of {post} and PUT of {put} bytes, every answer after fdatasync; \
             milliseconds:",
            self.participants
        )?;
        writeln!(f, "{}", self.speed())?;
        writeln!(f, "\nof the median run; microseconds of CPU or of the stage per payment:")?;
        writeln!(f, "{}", self.cost())?;
        writeln!(f, "\nthe raw disk before the median run, write + fdatasync on zeros; microseconds:")?;
        writeln!(f, "{}", self.disk())
    }
}

impl FspiopReport {
    fn speed(&self) -> comfy_table::Table {
        let header = ["way", "payments/s", "every run", "of one", "p50", "p90", "p99", "p99.9", "max"];
        let mut table = new_table(&header);
        for (case, run) in self.cases.iter().filter_map(|case| Some((case, case.median()?))) {
            let rates: Vec<f64> = case.runs.iter().map(|run| run.payments_per_second).collect();
            let name = match case.way {
                Way::PreferWait => format!("{}, {} connections", name(case.way), case.connections),
                Way::Callbacks => {
                    format!(
                        "{}, {} connections, {} in flight",
                        name(case.way),
                        case.connections,
                        case.in_flight
                    )
                }
            };
            let mut first = vec![name, thousands(case.median_payments_per_second), each(&rates)];
            for (of, latency) in [("payment", &run.payment_us), ("POST", &run.post_us), ("PUT", &run.put_us)]
            {
                let mut row = std::mem::replace(&mut first, vec![String::new(); 3]);
                row.push(of.to_owned());
                row.extend(millis(latency));
                table.add_row(row);
            }
        }
        table
    }

    fn cost(&self) -> comfy_table::Table {
        let stages: std::collections::BTreeSet<&String> = self
            .cases
            .iter()
            .flat_map(|case| &case.runs)
            .flat_map(|run| run.stage_us_per_payment.keys())
            .collect();
        let mut header = vec!["way", "server", "clients"];
        header.extend(stages.iter().map(|stage| stage.as_str()));
        header.extend(["B written", "records/frame", "RSS MiB", "load"]);
        let mut table = new_table(&header);
        for (case, run) in self.cases.iter().filter_map(|case| Some((case, case.median()?))) {
            let mut row = vec![
                name(case.way).to_owned(),
                format!("{:.1}", run.server_cpu_us_per_payment),
                format!("{:.1}", run.client_cpu_us_per_payment),
            ];
            row.extend(stages.iter().map(|stage| {
                run.stage_us_per_payment.get(*stage).map_or_else(String::new, |time| format!("{time:.2}"))
            }));
            row.push(run.written_bytes_per_payment.map_or_else(String::new, |bytes| format!("{bytes:.0}")));
            row.push(format!("{:.0}", run.records_per_frame));
            row.push((run.server_rss_peak_bytes / (1024 * 1024)).to_string());
            row.push(run.load_average.clone());
            table.add_row(row);
        }
        table
    }

    fn disk(&self) -> comfy_table::Table {
        let found = self.cases.iter().filter_map(|case| Some((name(case.way), &case.median()?.disk)));
        disk_table("before", found)
    }
}
