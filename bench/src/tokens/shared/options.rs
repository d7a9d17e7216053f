//! What `bench tokens --profile cluster` is asked for, and every bound with its name.

use std::time::Duration;

use holdfast_database::tokens::limits::HISTORY;

use crate::BenchError;
use crate::options::{RUNS_MAX, check_range};

/// Nodes that share the tokens.
pub const NODES: usize = 3;
/// How long a case is driven, where nothing else is said.
pub const SECONDS_DEFAULT: u64 = 8;
/// The longest: payments go to and fro at random, and in the end a wallet would run dry by chance.
pub const SECONDS_MAX: u64 = 300;
/// For how long what was spent is kept, in seconds, where nothing else is said: as a node does. Within a case none of it is
/// removed then.
pub const HISTORY_DEFAULT: u64 = HISTORY.as_secs();
/// The longest.
pub const HISTORY_MAX: u64 = 3_600;
/// Runs, where nothing else is said. All cases of both algorithms are one run.
pub const RUNS: u32 = 1;
/// Rounds under way at once, where nothing else is said.
pub const CALLERS_DEFAULT: usize = 128;
/// The most.
pub const CALLERS_MAX: usize = 4_096;
/// Rounds under way at once at half load, at most: nobody waits for a place.
pub(crate) const HALF_CALLERS: usize = 2_048;

/// The sizes of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// One input: wallets.
    pub wallets: u32,
    /// One input: tokens of each.
    pub tokens: u32,
    /// Many inputs: wallets.
    pub many_wallets: u32,
    /// Many inputs: tokens of value 1 in each.
    pub many_tokens: u32,
    /// Many inputs: how many.
    pub inputs: u32,
    /// One hot token: requests at each node.
    pub requests: u64,
    /// Rounds before the clock runs.
    pub warm_up: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            wallets: 1_000,
            tokens: 200,
            many_wallets: 100,
            many_tokens: 3_000,
            inputs: 100,
            requests: 100,
            warm_up: 300,
        }
    }
}

/// What `bench tokens --profile cluster` is asked for.
#[derive(Debug, Clone)]
pub struct SharedOptions {
    /// PostgreSQL; the run makes databases of its own there.
    pub store: String,
    /// How long a case is driven.
    pub seconds: u64,
    /// Runs; the median is the figure.
    pub runs: u32,
    /// Rounds under way at once.
    pub callers: usize,
    /// For how long what was spent is kept, in seconds. With a few, as much is removed as is spent.
    pub history: u64,
    /// The sizes of the cases.
    pub sizes: Sizes,
    /// Leave the databases there: only the last has not been replaced by another.
    pub keep: bool,
    /// From where wallets come.
    pub seed: u64,
    /// Tell on standard error what is going on.
    pub progress: bool,
}

impl SharedOptions {
    /// As usual, on that server.
    #[must_use]
    pub fn on(store: &str) -> SharedOptions {
        SharedOptions {
            store: store.to_owned(),
            seconds: SECONDS_DEFAULT,
            runs: RUNS,
            callers: CALLERS_DEFAULT,
            history: HISTORY_DEFAULT,
            sizes: Sizes::default(),
            keep: false,
            seed: 1,
            progress: false,
        }
    }

    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), BenchError> {
        check_range("--seconds", self.seconds, 1, SECONDS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--callers", self.callers as u64, 1, CALLERS_MAX as u64)?;
        check_range("--history", self.history, 1, HISTORY_MAX)
    }

    pub(crate) const fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let options = SharedOptions::on("postgres://h/d");
        assert!(options.check().is_ok());
        let refused = [
            (SharedOptions { seconds: 0, ..options.clone() }, "--seconds"),
            (SharedOptions { runs: 0, ..options.clone() }, "--runs"),
            (SharedOptions { callers: CALLERS_MAX + 1, ..options.clone() }, "--callers"),
            (SharedOptions { history: 0, ..options }, "--history"),
        ];
        for (options, name) in refused {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
