//! What a depth run is asked for, and how its payments are cut into windows.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_client::options::BATCH_RECORDS_MAX;

use crate::BenchError;
use crate::options::{ACCOUNTS_MAX, CONNECTIONS_MAX, check_range};

/// From this many payments on, `bench transfers` without a shape measures depth.
pub const DEPTH_PAYMENTS_MIN: u64 = 2_000_000;
/// The most payments: beyond, the disk is the question.
pub const DEPTH_PAYMENTS_MAX: u64 = 1_000_000_000;
/// The most holds that are open at once.
pub const OPEN_HOLDS_MAX: u64 = 10_000_000;
/// Open holds unless told otherwise, at most; with fewer than ten million payments a tenth of them.
pub const OPEN_HOLDS_DEFAULT: u64 = 1_000_000;
/// Payments of a window, at most.
pub const WINDOW_PAYMENTS_MAX: u64 = 1_000_000;
/// Windows of a run that is too short for windows of that size.
pub const WINDOWS_MIN: u64 = 10;
/// Records of a request unless told otherwise.
pub const RECORDS_DEFAULT: usize = 1_024;
/// Connections unless told otherwise, with one request under way on each.
pub const CONNECTIONS_DEFAULT: usize = 6;
/// How long payments and holds of a depth run wait for their fulfil: a slow restart must not end them.
pub(super) const LONG_EXPIRY: Duration = Duration::from_secs(3_600);

/// What a depth run is asked for.
#[derive(Debug, Clone)]
pub struct DepthOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// Payments of all windows together.
    pub payments: u64,
    /// Holds that are open while the server is killed, and that expire at once; `None`: see [`OPEN_HOLDS_DEFAULT`].
    pub open_holds: Option<u64>,
    /// Let so many holds expire at once under load.
    pub expire: bool,
    /// Records of a request; `None`: [`RECORDS_DEFAULT`].
    pub batch: Option<usize>,
    /// Connections; `None`: [`CONNECTIONS_DEFAULT`].
    pub connections: Option<usize>,
    /// Accounts.
    pub accounts: u32,
    /// Where the server's data lies; `None`: a temporary directory.
    pub data: Option<PathBuf>,
    /// Leave the data there.
    pub keep: bool,
    /// From where ids and amounts come.
    pub seed: u64,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl DepthOptions {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--payments", self.payments, WINDOWS_MIN, DEPTH_PAYMENTS_MAX)?;
        check_range("--open-holds", self.holds(), 1, OPEN_HOLDS_MAX)?;
        check_range("--batch", self.records() as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections() as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())
    }

    /// Holds that are open at once.
    #[must_use]
    pub fn holds(&self) -> u64 {
        self.open_holds.unwrap_or_else(|| (self.payments / WINDOWS_MIN).clamp(1, OPEN_HOLDS_DEFAULT))
    }

    /// Records of a request.
    #[must_use]
    pub fn records(&self) -> usize {
        self.batch.unwrap_or(RECORDS_DEFAULT)
    }

    /// Connections, and so requests under way at once.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.unwrap_or(CONNECTIONS_DEFAULT)
    }

    /// Payments of every window but perhaps the last.
    #[must_use]
    pub fn window_payments(&self) -> u64 {
        (self.payments / WINDOWS_MIN).clamp(1, WINDOW_PAYMENTS_MAX)
    }

    /// The numbers of the payments of each window.
    #[must_use]
    pub fn windows(&self) -> Vec<Range<u64>> {
        let size = self.window_payments();
        let starts = (0..self.payments.div_ceil(size)).map(|window| window * size);
        starts.map(|start| start..(start + size).min(self.payments)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(payments: u64) -> DepthOptions {
        DepthOptions {
            program: PathBuf::new(),
            payments,
            open_holds: None,
            expire: true,
            batch: None,
            connections: None,
            accounts: 2,
            data: None,
            keep: false,
            seed: 1,
            progress: false,
        }
    }

    #[test]
    fn windows_cover_every_payment_once() {
        for (payments, count, last) in [(200_000, 10, 20_000), (10_000_000, 10, 1_000_000), (25, 13, 1)] {
            let windows = options(payments).windows();
            assert_eq!(windows.len(), count, "{payments}");
            assert_eq!(windows[0].start, 0);
            assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
            let end = windows.last().expect("not empty");
            assert_eq!((end.end, end.end - end.start), (payments, last));
        }
        assert_eq!(options(25_500_000).windows().len(), 26);
    }

    #[test]
    fn a_million_holds_from_ten_million_payments_on() {
        assert_eq!(options(200_000).holds(), 20_000);
        assert_eq!(options(10_000_000).holds(), 1_000_000);
        assert_eq!(options(50_000_000).holds(), 1_000_000);
        assert_eq!(DepthOptions { open_holds: Some(7), ..options(50_000_000) }.holds(), 7);
        assert!(options(9).check().is_err());
    }
}
