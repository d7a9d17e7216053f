//! Rounds of select and spend or release, counted.

use std::time::Duration;

use serde::Serialize;

use crate::figures::{Counts, Latency};

/// What a worker, or all of them, have counted.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Rounds that were begun: a select, and what ends it.
    pub rounds: u64,
    /// Rounds that went as meant.
    pub done: u64,
    /// Selections that were made.
    #[serde(skip)]
    pub selections: u64,
    /// Tokens of all selections together.
    #[serde(skip)]
    pub inputs: u64,
    /// Refusals by the name of their problem.
    pub refused: Counts,
    /// Calls without an answer, by what happened.
    pub errors: Counts,
    /// From a round's start (open loop: its place in time) to its end.
    pub round_us: Latency,
    /// Of the select alone.
    pub select_us: Latency,
    /// Of the spend or release alone.
    pub second_us: Latency,
}

impl Tally {
    /// A selection of so many tokens was made.
    pub fn selected(&mut self, inputs: u64) {
        self.selections += 1;
        self.inputs += inputs;
    }

    /// A round that came to its end: its select, what followed, and both from the round's place in time.
    pub fn record(&mut self, select: Duration, second: Duration, round: Duration) {
        self.done += 1;
        self.select_us.record(select);
        self.second_us.record(second);
        self.round_us.record(round);
    }
}
