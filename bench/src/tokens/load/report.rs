//! Figures of a token load, as data and for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::options::Ending;
use crate::report::Percentiles;
use crate::table::{millis, new_table, thousands};

/// What a load of tokens found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct TokenLoadReport {
    pub seconds: f64,
    /// Rounds that were begun: a select, and what ends it.
    pub rounds: u64,
    pub rounds_per_second: f64,
    /// Asked for, in an open loop.
    pub rate: Option<u64>,
    pub in_flight: usize,
    pub ending: Ending,
    pub wallets: u32,
    pub tokens_issued: u64,
    /// Rounds that went as meant.
    pub done: u64,
    pub inputs_per_selection: f64,
    /// Refusals by the name of their problem.
    pub refused: BTreeMap<String, u64>,
    /// Calls without an answer, by what happened.
    pub errors: BTreeMap<String, u64>,
    /// What was issued, in units of the currency.
    pub worth_issued: String,
    /// What the wallets have at the end; `None` if they could not be asked.
    pub worth_found: Option<String>,
    /// From a round's start (open loop: its place in time) to its end.
    pub round_us: Percentiles,
    pub select_us: Percentiles,
    /// Of the spend or release alone.
    pub second_us: Percentiles,
}

impl TokenLoadReport {
    /// Whether every round went as meant and no value was lost or made.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.done == self.rounds && self.worth_found.as_ref() == Some(&self.worth_issued)
    }
}

impl fmt::Display for TokenLoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match self.ending {
            Ending::Spend => "spend",
            Ending::Release => "release",
        };
        writeln!(
            f,
            "{} rounds of select and {ending} in {:.1} s: {}/s; done {}, refused {}, unknown {}; {:.1} inputs each",
            self.rounds,
            self.seconds,
            thousands(self.rounds_per_second),
            self.done,
            self.refused.values().sum::<u64>(),
            self.errors.values().sum::<u64>(),
            self.inputs_per_selection,
        )?;
        for (name, count) in &self.refused {
            writeln!(f, "  {name}: {count}")?;
        }
        for (error, count) in &self.errors {
            writeln!(f, "  {error}: {count}")?;
        }
        match &self.worth_found {
            Some(found) if *found == self.worth_issued => {
                writeln!(f, "{found} was issued to {} wallets and is still there", self.wallets)?;
            }
            Some(found) => {
                writeln!(f, "THE BOOKS DO NOT BALANCE: {} was issued, {found} is there", self.worth_issued)?;
            }
            None => {}
        }
        let mut table = new_table(&["ms", "p50", "p90", "p99", "p99.9", "max"]);
        for (name, latency) in
            [("round", &self.round_us), ("select", &self.select_us), (ending, &self.second_us)]
        {
            let mut row = vec![name.to_owned()];
            row.extend(millis(latency));
            table.add_row(row);
        }
        writeln!(f, "{table}")
    }
}
