//! What `load checkout` and `bench checkout` are asked for, and every bound with its name.

use std::path::PathBuf;
use std::time::Duration;

use super::goods::Goods;
use crate::BenchError;
use crate::options::{LINES_DEFAULT, LINES_MAX, LOAD_SECONDS_MAX, PAYMENTS_MAX, Pace, RUNS_MAX, check_range};

/// Users of a load, where none are given.
pub const USERS_DEFAULT: u64 = 1_000;
/// Items of a load, where none are given.
pub const ITEMS_DEFAULT: u64 = 1_000;
/// Orders of a load, where none are given.
pub const ORDERS_DEFAULT: u64 = 100_000;
/// The most of each: what one `batch_init` makes.
pub const ROWS_MAX: u64 = 1_000_000;
/// For so long a load tries again to reach a hub that is gone, as the client of `load transfers` does.
pub const GONE_MAX: Duration = Duration::from_secs(10);

/// Checkouts of a batched case of the bench, where none are given.
pub const BATCHED_DEFAULT: u64 = 500_000;
/// Checkouts over HTTP of the bench, where none are given.
pub const HTTP_DEFAULT: u64 = 100_000;
/// Connections over HTTP of the bench, where none are given.
pub const CONNECTIONS_DEFAULT: usize = 128;
/// Outcomes of the rebuild, where none are given.
pub const OUTCOMES_DEFAULT: u64 = 1_000_000;
/// The most outcomes: they are kept in memory.
pub const OUTCOMES_MAX: u64 = 10_000_000;
/// Users and items of the bench's shops.
pub const BENCH_ROWS: u64 = 10_000;
/// Records of a batch.
pub const BATCH_RECORDS: usize = 1_024;
/// Connections that carry batches.
pub const BATCH_CONNECTIONS: usize = 6;
/// Single checkouts through the client that are under way at once.
pub const SINGLES_IN_FLIGHT: usize = 1_000;

/// What `load checkout` is asked for.
#[derive(Debug, Clone)]
pub struct CheckoutLoadOptions {
    /// Host and port of the hub.
    pub address: String,
    /// An operator's key, where the hub asks for one.
    pub api_key: Option<String>,
    /// When checkouts begin.
    pub pace: Pace,
    /// Checkouts under way at once, at most; each has a connection of its own.
    pub in_flight: usize,
    /// How long to go on.
    pub seconds: Option<u64>,
    /// How many checkouts to make.
    pub checkouts: Option<u64>,
    /// Users, made for this run.
    pub users: u64,
    /// Items, made for this run.
    pub items: u64,
    /// Orders, made for this run.
    pub orders: u64,
    /// How many of the orders are passed over: they were checked out before.
    pub first_order: u64,
    /// Of a hundred orders, how many fail: half by credit, half by stock.
    pub failing_percent: u8,
    /// Replace users, items and orders that have the numbers of this run.
    pub replace: bool,
    /// For so long a hub that is gone is tried again, see [`GONE_MAX`].
    pub gone_max: Duration,
    /// Show a progress bar.
    pub progress: bool,
}

impl CheckoutLoadOptions {
    /// A closed loop with the defaults.
    #[must_use]
    pub fn to(address: &str) -> CheckoutLoadOptions {
        CheckoutLoadOptions {
            address: address.to_owned(),
            api_key: None,
            pace: Pace::Closed,
            in_flight: LINES_DEFAULT,
            seconds: None,
            checkouts: None,
            users: USERS_DEFAULT,
            items: ITEMS_DEFAULT,
            orders: ORDERS_DEFAULT,
            first_order: 0,
            failing_percent: 0,
            replace: false,
            gone_max: GONE_MAX,
            progress: false,
        }
    }

    pub(super) const fn goods(&self) -> Goods {
        let CheckoutLoadOptions { users, items, orders, failing_percent, .. } = *self;
        Goods { users, items, orders, failing_percent }
    }

    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--checkouts", self.checkouts.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--seconds", self.seconds.unwrap_or(1), 1, LOAD_SECONDS_MAX)?;
        check_range("--in-flight", self.in_flight as u64, 1, LINES_MAX as u64)?;
        check_range("--users", self.users, 1, ROWS_MAX)?;
        check_range("--items", self.items, 1, ROWS_MAX)?;
        check_range("--orders", self.orders, 1, ROWS_MAX)?;
        check_range("--failing-percent", self.failing_percent.into(), 0, 100)?;
        self.pace.check()
    }
}

/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Parts {
    pub batched: bool,
    pub http: bool,
    pub rebuild: bool,
}

/// What `bench checkout` is asked for.
#[derive(Debug, Clone)]
pub struct CheckoutBenchOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// What is measured.
    pub parts: Parts,
    /// Checkouts of each batched case.
    pub checkouts: u64,
    /// Checkouts of each case over HTTP.
    pub http_checkouts: u64,
    /// Outcomes that are folded again.
    pub outcomes: u64,
    /// Runs of each case; the median is the figure.
    pub runs: u32,
    /// Connections over HTTP, each with one request under way.
    pub connections: usize,
    /// Where the data lies; `None`: a temporary directory.
    pub data: Option<PathBuf>,
    /// Leave the data there.
    pub keep: bool,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl CheckoutBenchOptions {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--checkouts", self.checkouts, 1, ROWS_MAX)?;
        check_range("--http-checkouts", self.http_checkouts, 1, ROWS_MAX)?;
        check_range("--outcomes", self.outcomes, 1_000, OUTCOMES_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--connections", self.connections as u64, 1, LINES_MAX as u64)
    }
}
