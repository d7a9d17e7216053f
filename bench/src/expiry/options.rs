//! What `bench expiry` is asked for, and every bound with its name.

use crate::BenchError;
use crate::options::check_range;

/// Transfers of the data set.
pub const TRANSFERS_DEFAULT: u64 = 1_000_000;
/// The most: history and indexes of both schemas are about 2 KiB each.
pub const TRANSFERS_MAX: u64 = 50_000_000;
/// Holds that are due at once among them.
pub const DUE_DEFAULT: u64 = 1_000;
/// The most: no more are open.
pub const DUE_MAX: u64 = 10_000;
/// Holds that are ended as fast as it goes.
pub const SUSTAINED_DEFAULT: u64 = 200_000;
/// Payments that end as they should before nothing is due.
pub const FINISHED_DEFAULT: u64 = 1_000_000;
/// The most of either.
pub const PAYMENTS_MAX: u64 = 10_000_000;
/// Looks at every shard where nothing is due.
pub const SCANS_DEFAULT: u64 = 2_000;
/// The most.
pub const SCANS_MAX: u64 = 1_000_000;

/// What `bench expiry` is asked for.
#[derive(Debug, Clone)]
pub struct ExpiryOptions {
    /// A server; the run makes a database of its own there.
    pub store: String,
    /// Transfers among which some are due.
    pub transfers: u64,
    /// Further sizes at which nothing is due.
    pub sizes: Vec<u64>,
    /// How many are due.
    pub due: u64,
    /// How many are ended as fast as it goes.
    pub sustained: u64,
    /// Payments that end as they should before nothing is due.
    pub finished: u64,
    /// Looks at every shard where nothing is due.
    pub scans: u64,
    /// Leave the database there.
    pub keep: bool,
    /// Show how far it is.
    pub progress: bool,
}

impl ExpiryOptions {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--transfers", self.transfers, 10_000, TRANSFERS_MAX)?;
        for size in &self.sizes {
            check_range("--sizes", *size, 10_000, TRANSFERS_MAX)?;
        }
        // A tenth of the transfers is open, and the due ones are taken from them several times.
        check_range("--due", self.due, 1, DUE_MAX.min(self.transfers / 100))?;
        check_range("--sustained", self.sustained, 1, PAYMENTS_MAX)?;
        check_range("--finished", self.finished, 1, PAYMENTS_MAX)?;
        check_range("--scans", self.scans, 10, SCANS_MAX)
    }

    /// Every size, the smallest first.
    pub(super) fn all_sizes(&self) -> Vec<u64> {
        let mut sizes = self.sizes.clone();
        sizes.push(self.transfers);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}
