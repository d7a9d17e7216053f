//! How holds that ran out are found and ended in PostgreSQL, beside two other ways on the same data: the obvious query, and the
//! ten steps of the document that Holdfast's expiry replaces.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `seed` | the document's tables and process, faults included |
//! | `data` | one data set in both schemas |
//! | `bench` | what is measured, in which order |

mod bench;
mod data;
pub mod seed;

use holdfast_load::LoadError;
use holdfast_load::options::{check_range, parse_count};
use holdfast_load::report::Report;

/// The most transfers: history and indexes of both schemas are about 2 KiB each.
const TRANSFERS_MAX: u64 = 50_000_000;
/// The most holds that are due: no more are open.
const DUE_MAX: u64 = 10_000;
/// The most payments of any part.
const PAYMENTS_MAX: u64 = 10_000_000;

/// Expiry in PostgreSQL, beside the obvious query and the ten steps of the document that it replaces.
///
/// All three on the same data, in a database that the run makes on the server and removes again. Nothing due at several
/// sizes; some due among many; as many expirations as go, with the position step and without Kafka; nothing due after many
/// payments that ended as they should, without VACUUM; and what the expiry table adds to the server's log.
#[derive(Debug, Clone, clap::Args)]
pub struct ExpiryBench {
    /// The server, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE")]
    store: String,
    /// Transfers among which some are due, such as 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    transfers: u64,
    /// Further sizes at which nothing is due, such as 500k,2m,5m
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_count, default_value = "500k")]
    sizes: Vec<u64>,
    /// How many are due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1k")]
    due: u64,
    /// How many are ended as fast as it goes
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "200k")]
    sustained: u64,
    /// Payments that end as they should before nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    finished: u64,
    /// Looks where nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "2k")]
    scans: u64,
    /// Leave the database there
    #[arg(long)]
    keep: bool,
}

impl ExpiryBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--transfers", self.transfers, 10_000, TRANSFERS_MAX)?;
        for size in &self.sizes {
            check_range("--sizes", *size, 10_000, TRANSFERS_MAX)?;
        }
        // A tenth of the transfers is open, and the due ones are taken from them several times.
        check_range("--due", self.due, 1, DUE_MAX.min(self.transfers / 100))?;
        check_range("--sustained", self.sustained, 1, PAYMENTS_MAX)?;
        check_range("--finished", self.finished, 1, PAYMENTS_MAX)?;
        check_range("--scans", self.scans, 10, 1_000_000)
    }

    /// Every size, the smallest first.
    fn all_sizes(&self) -> Vec<u64> {
        let mut sizes = self.sizes.clone();
        sizes.push(self.transfers);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Runs what the options ask for.
///
/// # Errors
/// If the database fails, or the naive query or ours finds another number of transfers than are due.
pub fn bench_expiry(options: &ExpiryBench) -> anyhow::Result<Report> {
    bench::measure(options)
}
