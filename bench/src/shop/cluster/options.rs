//! What `bench checkout --profile cluster` is asked for, and every bound with its name.

use std::path::PathBuf;

use crate::BenchError;
use crate::cluster::options::{HALF_SECONDS_MAX, PARTITIONS_MAX};
use crate::cluster::town::Ground;
use crate::options::{LINES_MAX, RUNS_MAX, check_range};
use crate::shop::options::{OUTCOMES_MAX, ROWS_MAX};

/// Checkouts of each run.
pub const CHECKOUTS_DEFAULT: u64 = 50_000;
/// Requests under way at once.
pub const CONNECTIONS_DEFAULT: usize = 500;

/// What `bench checkout --profile cluster` is asked for.
#[derive(Debug, Clone)]
pub struct SharedCheckoutOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// Kafka; the run makes topics of its own there.
    pub log: String,
    /// PostgreSQL; the run makes databases of its own there.
    pub store: String,
    /// Partitions of each topic.
    pub partitions: u32,
    /// Checkouts of each run.
    pub checkouts: u64,
    /// Runs; the median is the figure.
    pub runs: u32,
    /// Requests under way at once, each on a connection of its own.
    pub connections: usize,
    /// How long half load goes on.
    pub half_seconds: u64,
    /// Outcomes that a node finds when it starts.
    pub outcomes: u64,
    /// Leave the databases there.
    pub keep: bool,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl SharedCheckoutOptions {
    pub(super) fn ground(&self) -> Ground<'_> {
        let SharedCheckoutOptions { program, log, store, partitions, keep, .. } = self;
        Ground { program, log, store, partitions: *partitions, keep: *keep }
    }

    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--http-checkouts", self.checkouts, 1_000, ROWS_MAX / 2)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--connections", self.connections as u64, 1, LINES_MAX as u64)?;
        check_range("--partitions", self.partitions.into(), 1, PARTITIONS_MAX.into())?;
        check_range("--half-seconds", self.half_seconds, 1, HALF_SECONDS_MAX)?;
        check_range("--outcomes", self.outcomes, 1_000, OUTCOMES_MAX)
    }
}
