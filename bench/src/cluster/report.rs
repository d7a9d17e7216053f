//! Figures of the cluster, as data and for people.

use std::fmt;

use comfy_table::Table;
use serde::Serialize;

use super::costs::{COSTS, Costs, MEMORY, cost_cells, memory_cells, write_hops};
use super::town::Promises;
use crate::goal::{Goal, write_goals};
use crate::load::LoadReport;
use crate::machine::Machine;
use crate::options::Payers;
use crate::report::{Percentiles, median};
use crate::table::{each, millis, new_table, thousands, thousands_of, write_machine};

/// One run of batches.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Run {
    pub payers: Payers,
    pub seconds: f64,
    pub payments_per_second: f64,
    /// Of one request with a batch of prepares.
    pub prepare_us: Percentiles,
    /// Of one request with a batch of fulfils.
    pub fulfil_us: Percentiles,
    pub costs: Costs,
    pub load_average: String,
}

/// The final rows alone.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct FloorReport {
    /// On one connection, every run: what the goal is held against.
    pub payments_per_second: Vec<f64>,
    /// On two, for whoever thinks that one is too little.
    pub two_connections: f64,
}

/// The position handler alone.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct PositionReport {
    pub messages: u64,
    pub messages_per_batch: usize,
    pub messages_per_second: f64,
}

/// What a payment costs while there are so many.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Depth {
    pub transfers: u64,
    pub payments_per_second: f64,
    pub costs: Costs,
}

/// Everything that `bench transfers --profile cluster` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct ClusterReport {
    pub version: &'static str,
    pub machine: Machine,
    pub promises: Promises,
    pub accounts: u32,
    pub partitions: u32,
    pub batch: usize,
    pub connections: usize,
    pub payments: u64,
    /// Whether the CPU of all processes could be read.
    pub sees_all: bool,
    /// Uniform and hot in turn.
    pub runs: Vec<Run>,
    pub floor: FloorReport,
    pub position: PositionReport,
    pub half_load: LoadReport,
    pub depths: Vec<Depth>,
    pub goals: Vec<Goal>,
}

impl ClusterReport {
    /// The rates of these payers, in the order of the runs.
    pub(super) fn rates(&self, payers: Payers) -> Vec<f64> {
        let of = self.runs.iter().filter(|run| run.payers == payers);
        of.map(|run| run.payments_per_second).collect()
    }

    /// The run of these payers whose rate is the median.
    fn median(&self, payers: Payers) -> Option<&Run> {
        let rate = median(&self.rates(payers));
        let is_it = |run: &&Run| run.payers == payers && run.payments_per_second.total_cmp(&rate).is_eq();
        self.runs.iter().find(is_it)
    }
}

impl fmt::Display for ClusterReport {
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
            "\ntwo-phase payments through all hops, {} per run, {} accounts, requests of {}, {} under way, audit per batch; \
             milliseconds of a request:",
            thousands_of(self.payments),
            self.accounts,
            self.batch,
            self.connections
        )?;
        writeln!(f, "{}", self.speed_table())?;
        if self.sees_all {
            writeln!(f, "\nper payment, of the median run; microseconds of CPU, bytes, MiB:")?;
        } else {
            writeln!(
                f,
                "\nper payment, of the median run; 0 for servers that cannot be looked into from here:"
            )?;
        }
        writeln!(f, "{}", self.cost_table())?;
        if let Some(run) = self.median(Payers::Uniform) {
            write_hops(f, &run.costs)?;
        }
        writeln!(
            f,
            "\nthe floor, final rows alone by COPY, {} payments per commit: {} payments/s ({}); on two connections {}",
            self.batch,
            thousands(median(&self.floor.payments_per_second)),
            each(&self.floor.payments_per_second),
            thousands(self.floor.two_connections)
        )?;
        writeln!(
            f,
            "the position handler alone, batches of {}: {} messages/s over {} messages",
            self.position.messages_per_batch,
            thousands(self.position.messages_per_second),
            thousands_of(self.position.messages)
        )?;
        writeln!(
            f,
            "\nhalf load, single calls at their own places in time, {}/s:",
            self.half_load.rate.unwrap_or(0)
        )?;
        write!(f, "{}", self.half_load)?;
        if !self.depths.is_empty() {
            writeln!(f, "\ngrowth, history filled by `generate transfers`, measured by payments:")?;
            writeln!(f, "{}", self.depth_table())?;
        }
        write_goals(f, &self.goals)
    }
}

const BOTH: [(Payers, &str); 2] = [(Payers::Uniform, "any payer"), (Payers::Hot, "one hot payer")];

impl ClusterReport {
    fn speed_table(&self) -> Table {
        let header = ["payers", "payments/s", "every run", "of one", "p50", "p90", "p99", "p99.9", "max"];
        let mut table = new_table(&header);
        for (payers, name) in BOTH {
            let Some(run) = self.median(payers) else { continue };
            let rates = self.rates(payers);
            for (of, latency) in [("prepares", &run.prepare_us), ("fulfils", &run.fulfil_us)] {
                let mut row = match of {
                    "prepares" => vec![name.to_owned(), thousands(median(&rates)), each(&rates)],
                    _ => vec![String::new(); 3],
                };
                row.push(of.to_owned());
                row.extend(millis(latency));
                table.add_row(row);
            }
        }
        table
    }

    fn cost_table(&self) -> Table {
        let header = [&["payers"], &COSTS[..], &MEMORY[..], &["load"]].concat();
        let mut table = new_table(&header);
        for (payers, name) in BOTH {
            let Some(run) = self.median(payers) else { continue };
            let mut row = vec![name.to_owned()];
            row.extend(cost_cells(&run.costs));
            row.extend(memory_cells(&run.costs));
            row.push(run.load_average.clone());
            table.add_row(row);
        }
        table
    }

    fn depth_table(&self) -> Table {
        let header = [&["transfers", "payments/s"], &COSTS[..]].concat();
        let mut table = new_table(&header);
        for depth in &self.depths {
            let mut row = vec![thousands_of(depth.transfers), thousands(depth.payments_per_second)];
            row.extend(cost_cells(&depth.costs));
            table.add_row(row);
        }
        table
    }
}
