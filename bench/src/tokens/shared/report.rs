//! Figures as data: what `--output json` prints; and for people.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::drive::Driven;
use super::node::{Claims, HOLDFAST, SHERDLOCK, SHERDLOCK_LAZY};
use crate::cluster::costs::Costs;
use crate::cluster::town::Promises;
use crate::goal::{Goal, write_goals};
use crate::machine::{Machine, load_average};
use crate::report::{Percentiles, median, per};
use crate::table::{each, millis, new_table, thousands, write_machine};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// One token of many wallets.
    OneInput,
    /// Many tokens of value 1.
    ManyInputs,
    /// One wallet, and nearly all of it in one token.
    HotToken,
}

/// A stretch of rounds: each a select and a spend.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Speed {
    pub engine: &'static str,
    pub shape: Shape,
    /// Rounds per second that began at their own places in time; `None`: as fast as it goes.
    pub rate: Option<u64>,
    pub rounds: u64,
    pub rounds_per_second: f64,
    pub inputs_per_round: f64,
    /// By the engine's own name of the refusal.
    pub refused: BTreeMap<String, u64>,
    /// Claims of whole requests at Holdfast, of single tokens at sherdlock.
    pub claims: u64,
    pub conflicts: u64,
    pub conflict_percent: f64,
    pub statements_per_round: f64,
    pub round_us: Percentiles,
    pub select_us: Percentiles,
    pub spend_us: Percentiles,
    /// CPU of this process: nodes and callers.
    pub node_us_per_round: f64,
    pub postgres_us_per_round: f64,
    pub wal_bytes_per_round: f64,
    /// Of all nodes and callers, the most so far.
    pub node_rss_peak_bytes: u64,
    pub postgres_bytes: u64,
    pub load_average: String,
}

impl Speed {
    pub(super) fn of(
        engine: &'static str,
        shape: Shape,
        rate: Option<u64>,
        driven: Driven,
        costs: &Costs,
    ) -> Speed {
        let Driven { tally, claims: Claims { tried, lost, statements }, rounds_per_second } = driven;
        Speed {
            engine,
            shape,
            rate,
            rounds: tally.done,
            rounds_per_second,
            inputs_per_round: per(tally.inputs, tally.selections),
            refused: tally.refused,
            claims: tried,
            conflicts: lost,
            conflict_percent: 100.0 * per(lost, tried),
            statements_per_round: per(statements, tally.done),
            round_us: Percentiles::of(&tally.round_us),
            select_us: Percentiles::of(&tally.select_us),
            spend_us: Percentiles::of(&tally.second_us),
            node_us_per_round: costs.node_us,
            postgres_us_per_round: costs.postgres_us,
            wal_bytes_per_round: costs.wal_bytes,
            node_rss_peak_bytes: costs.node_rss_peak_bytes,
            postgres_bytes: costs.postgres_bytes,
            load_average: load_average(),
        }
    }

    pub(super) fn is(&self, engine: &str, shape: Shape) -> bool {
        self.engine == engine && self.shape == shape
    }

    /// Half of what goes.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is small and positive"
    )]
    pub(super) fn half_rate(&self) -> u64 {
        ((self.rounds_per_second / 2.0) as u64).max(1)
    }
}

/// How long it takes to hear that there is too little.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct ShortageReport {
    pub engine: &'static str,
    pub requests: u64,
    pub took_us: Percentiles,
}

/// What somebody beside the nodes felt at the table of tokens.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct NeighbourReport {
    pub engine: &'static str,
    /// Rounds per second beside it.
    pub rate: Option<u64>,
    pub read_us: Percentiles,
    pub write_us: Percentiles,
}

/// Everything that `bench tokens --profile cluster` found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct SharedReport {
    pub version: &'static str,
    pub machine: Machine,
    pub load_average: String,
    pub promises: Promises,
    /// Whether PostgreSQL's CPU could be read.
    pub sees_postgres: bool,
    pub nodes: usize,
    pub seconds: u64,
    /// For how long what was spent was kept, in seconds.
    pub history: u64,
    pub callers: usize,
    pub wallets: u32,
    /// Of each wallet.
    pub tokens: u32,
    pub inputs: u32,
    /// For the hot token, at each node.
    pub requests: u64,
    /// Of all runs.
    pub speeds: Vec<Speed>,
    pub half_loads: Vec<Speed>,
    pub shortages: Vec<ShortageReport>,
    pub neighbours: Vec<NeighbourReport>,
    pub goals: Vec<Goal>,
}

impl SharedReport {
    fn rates(&self, engine: &str, shape: Shape) -> Vec<f64> {
        let runs = self.speeds.iter().filter(|run| run.is(engine, shape));
        runs.map(|run| run.rounds_per_second).collect()
    }

    /// The run whose rate is the median.
    pub(super) fn median(&self, engine: &str, shape: Shape) -> Option<&Speed> {
        let rate = median(&self.rates(engine, shape));
        self.speeds.iter().find(|run| run.is(engine, shape) && run.rounds_per_second.total_cmp(&rate).is_eq())
    }

    /// The median of every engine and shape.
    fn medians(&self) -> impl Iterator<Item = (String, &Speed)> {
        let shapes = [
            (Shape::OneInput, "one input".to_owned()),
            (Shape::ManyInputs, format!("{} inputs", self.inputs)),
            (Shape::HotToken, "one hot token".to_owned()),
        ];
        shapes.into_iter().flat_map(move |(shape, name)| {
            let engines = [HOLDFAST, SHERDLOCK, SHERDLOCK_LAZY].into_iter();
            engines.filter_map(move |engine| Some((name.clone(), self.median(engine, shape)?)))
        })
    }
}

impl fmt::Display for SharedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_machine(f, self.version, &self.machine)?;
        self.promises.write(f)?;
        writeln!(
            f,
            "; {} nodes, all callers and PostgreSQL on this machine; load average {} before",
            self.nodes, self.load_average
        )?;
        writeln!(
            f,
            "\nselect and spend, {} callers, {} s each, what was spent is kept for {} s; one input from {} wallets with {} tokens; one hot token: {} \
             requests at each node at once; milliseconds of a round:",
            self.callers, self.seconds, self.history, self.wallets, self.tokens, self.requests
        )?;
        writeln!(f, "{}", self.speed_table())?;
        writeln!(
            f,
            "\nper round; microseconds of CPU, bytes, MiB; what lost a claim to another, of all claims:"
        )?;
        if !self.sees_postgres {
            writeln!(f, "PostgreSQL cannot be looked into from here, and shows as 0")?;
        }
        writeln!(f, "{}", self.cost_table())?;
        writeln!(f, "\nhalf load, one input, rounds at their own places in time; milliseconds:")?;
        writeln!(f, "{}", self.half_table())?;
        writeln!(f, "\nother things; milliseconds:")?;
        writeln!(f, "{}", self.other_table())?;
        write_goals(f, &self.goals)
    }
}

fn left(mut table: Table, column: usize) -> Table {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

impl SharedReport {
    fn speed_table(&self) -> Table {
        let header = [
            "shape",
            "engine",
            "rounds/s",
            "every run",
            "inputs",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max",
            "refused",
        ];
        let mut table = left(new_table(&header), 1);
        for (shape, run) in self.medians() {
            let mut row = vec![
                shape,
                run.engine.to_owned(),
                thousands(run.rounds_per_second),
                each(&self.rates(run.engine, run.shape)),
                format!("{:.2}", run.inputs_per_round),
            ];
            row.extend(millis(&run.round_us));
            let refused: Vec<String> =
                run.refused.iter().map(|(name, count)| format!("{count} {name}")).collect();
            row.push(if refused.is_empty() { "0".to_owned() } else { refused.join(", ") });
            table.add_row(row);
        }
        table
    }

    fn cost_table(&self) -> Table {
        let header = [
            "shape",
            "engine",
            "nodes",
            "PostgreSQL",
            "WAL B",
            "statements",
            "claims",
            "lost",
            "lost %",
            "nodes MiB",
            "PG MiB",
            "load",
        ];
        let mut table = left(new_table(&header), 1);
        for (shape, run) in self.medians() {
            table.add_row([
                shape,
                run.engine.to_owned(),
                format!("{:.0}", run.node_us_per_round),
                format!("{:.0}", run.postgres_us_per_round),
                format!("{:.0}", run.wal_bytes_per_round),
                format!("{:.2}", run.statements_per_round),
                run.claims.to_string(),
                run.conflicts.to_string(),
                format!("{:.1}", run.conflict_percent),
                (run.node_rss_peak_bytes >> 20).to_string(),
                (run.postgres_bytes >> 20).to_string(),
                run.load_average.clone(),
            ]);
        }
        table
    }

    fn half_table(&self) -> Table {
        let mut table =
            left(new_table(&["engine", "of one", "rounds/s", "p50", "p90", "p99", "p99.9", "max"]), 1);
        for run in &self.half_loads {
            let parts = [("round", &run.round_us), ("select", &run.select_us), ("spend", &run.spend_us)];
            for (of, latency) in parts {
                let mut row = vec![run.engine.to_owned(), of.to_owned(), run.rate.unwrap_or(0).to_string()];
                row.extend(millis(latency));
                table.add_row(row);
            }
        }
        table
    }

    fn other_table(&self) -> Table {
        let mut table =
            left(new_table(&["what", "beside", "rounds/s", "p50", "p90", "p99", "p99.9", "max"]), 1);
        for run in &self.shortages {
            let mut row = vec!["a plain shortage".to_owned(), run.engine.to_owned(), "0".to_owned()];
            row.extend(millis(&run.took_us));
            table.add_row(row);
        }
        for run in &self.neighbours {
            let parts = [("another reads a wallet", &run.read_us), ("another adds a row", &run.write_us)];
            for (what, latency) in parts {
                let rate = run.rate.unwrap_or(0).to_string();
                let mut row = vec![what.to_owned(), run.engine.to_owned(), rate];
                row.extend(millis(latency));
                table.add_row(row);
            }
        }
        table
    }
}
