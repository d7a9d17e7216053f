//! What `bench transfers --profile cluster` is asked for, and every bound with its name.

use std::path::PathBuf;

use holdfast_client::options::BATCH_RECORDS_MAX;

use super::town::Ground;
use crate::BenchError;
use crate::options::{ACCOUNTS_MAX, CONNECTIONS_MAX, RUNS_MAX, check_range};

/// Payments of each run.
pub const PAYMENTS_DEFAULT: u64 = 100_000;
/// The most: their bodies are kept in memory.
pub const PAYMENTS_MAX: u64 = 5_000_000;
/// Records per request.
pub const RECORDS_DEFAULT: usize = 1_000;
/// Requests under way at once.
pub const CONNECTIONS_DEFAULT: usize = 12;
/// Partitions of each topic: one for the one node. A second one splits its batches, and a machine of two cores pays for that
/// with latency.
pub const PARTITIONS_DEFAULT: u32 = 1;
/// The most.
pub const PARTITIONS_MAX: u32 = 64;
/// How long half load goes on.
pub const HALF_SECONDS_DEFAULT: u64 = 20;
/// The longest.
pub const HALF_SECONDS_MAX: u64 = 3_600;
/// The size from which growth is measured.
pub const SHALLOW: u64 = 500_000;
/// The most transfers that growth is measured at.
pub const DEPTH_MAX: u64 = 50_000_000;

/// What `bench transfers --profile cluster` is asked for.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// Kafka; the run makes topics of its own there.
    pub log: String,
    /// PostgreSQL; the run makes databases of its own there.
    pub store: String,
    /// Payments of each run.
    pub payments: u64,
    /// Runs; the median is the figure.
    pub runs: u32,
    /// Records per request, and rows per commit of the floor.
    pub batch: usize,
    /// Requests under way at once.
    pub connections: usize,
    /// Accounts.
    pub accounts: u32,
    /// Partitions of each topic.
    pub partitions: u32,
    /// How long half load goes on.
    pub half_seconds: u64,
    /// Measure growth: costs at [`SHALLOW`] transfers and at so many.
    pub depth: Option<u64>,
    /// Leave the database there.
    pub keep: bool,
    /// From where ids and amounts come.
    pub seed: u64,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl ClusterOptions {
    pub(super) fn ground(&self) -> Ground<'_> {
        let ClusterOptions { program, log, store, partitions, keep, .. } = self;
        Ground { program, log, store, partitions: *partitions, keep: *keep }
    }

    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--payments", self.payments, 1_000, PAYMENTS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--batch", self.batch as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())?;
        check_range("--partitions", self.partitions.into(), 1, PARTITIONS_MAX.into())?;
        check_range("--half-seconds", self.half_seconds, 1, HALF_SECONDS_MAX)?;
        check_range("--depth", self.depth.unwrap_or(DEPTH_MAX), 2 * SHALLOW, DEPTH_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ClusterOptions {
        ClusterOptions {
            program: PathBuf::new(),
            log: String::new(),
            store: String::new(),
            payments: PAYMENTS_DEFAULT,
            runs: 3,
            batch: RECORDS_DEFAULT,
            connections: CONNECTIONS_DEFAULT,
            accounts: 1_000,
            partitions: PARTITIONS_DEFAULT,
            half_seconds: HALF_SECONDS_DEFAULT,
            depth: None,
            keep: false,
            seed: 1,
            progress: false,
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        assert!(options().check().is_ok());
        assert!(ClusterOptions { depth: Some(5_000_000), ..options() }.check().is_ok());
        let refused = [
            (ClusterOptions { depth: Some(SHALLOW), ..options() }, "--depth"),
            (ClusterOptions { payments: 0, ..options() }, "--payments"),
            (ClusterOptions { partitions: 0, ..options() }, "--partitions"),
            (ClusterOptions { half_seconds: 0, ..options() }, "--half-seconds"),
        ];
        for (options, name) in refused {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
