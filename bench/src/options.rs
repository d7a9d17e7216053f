//! Shapes and cases of the benchmark, options of both commands, and every bound with its name.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_client::options::BATCH_RECORDS_MAX;

/// Payments of one case at most: their ids, conditions and bodies are kept in memory.
pub const PAYMENTS_MAX: u64 = 10_000_000;
/// Payments of a batch case unless told otherwise.
pub const BATCH_PAYMENTS_DEFAULT: u64 = 1_000_000;
/// Payments with 1,000 in flight unless told otherwise.
pub const SINGLE_PAYMENTS_DEFAULT: u64 = 500_000;
/// Payments with 64 in flight unless told otherwise.
pub const SINGLE_64_PAYMENTS_DEFAULT: u64 = 200_000;
/// Payments one after another, at most: more tell nothing new.
pub const ALONE_PAYMENTS_MAX: u64 = 5_000;
/// Accounts that payments are spread over.
pub const ACCOUNTS_DEFAULT: u32 = 1_000;
/// The most accounts: they are made before the clock starts.
pub const ACCOUNTS_MAX: u32 = 1_000_000;
/// Runs of each case; the median is the figure.
pub const RUNS_DEFAULT: u32 = 3;
/// The most runs.
pub const RUNS_MAX: u32 = 100;
/// Calls in flight at most.
pub const IN_FLIGHT_MAX: usize = 32_768;
/// Connections at most.
pub const CONNECTIONS_MAX: usize = 64;
/// Connections that carry single payments: while one waits for the disk, the next request gathers.
pub const SINGLE_CONNECTIONS_DEFAULT: usize = 3;
/// How long one call of a benchmark may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long a prepared payment may wait for its fulfil.
pub const EXPIRY: Duration = Duration::from_secs(60);
/// How long a payment of `load` that is never fulfilled waits before it expires.
pub const SHORT_EXPIRY: Duration = Duration::from_millis(1_500);
/// Calls of a load that are under way at once, where none are given and each has a connection of its own.
pub const LINES_DEFAULT: usize = 64;
/// The most of them: a hub serves 1,024 connections.
pub const LINES_MAX: usize = 1_000;
/// The highest rate of an open loop, per second.
pub const RATE_MAX: u64 = 10_000_000;
/// The longest load run.
pub const LOAD_SECONDS_MAX: u64 = 24 * 3_600;

/// Which cases to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Whole batches, several requests in flight.
    Batch,
    /// Single payments, coalesced by the client: 1,000, 64 and 1 in flight.
    Single,
    /// One hot payer beside 1,000 accounts.
    Hot,
    /// The bin processor alone, on one core.
    Bins,
    /// All of these.
    All,
}

/// What `bench transfers` is asked for.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The program that is started with `serve`.
    pub program: PathBuf,
    /// Which cases.
    pub shape: Shape,
    /// Payments of each case; `None`: the defaults above.
    pub payments: Option<u64>,
    /// Runs of each case.
    pub runs: u32,
    /// Single payments in flight; `None`: 1,000, 64 and 1.
    pub in_flight: Option<usize>,
    /// Records per batch; `None`: 1,024 and 8,192.
    pub batch: Option<usize>,
    /// Connections; `None`: what suits the case.
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

/// Who pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Payers {
    /// Any account.
    Uniform,
    /// Always the same account; the payees are the others.
    Hot,
}

/// How payments are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// Requests of so many records; each connection has one under way.
    Batches {
        /// Records in a request.
        records: usize,
    },
    /// Single payments through the coalescing client.
    Singles {
        /// Payments under way at once.
        in_flight: usize,
    },
}

/// One line of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// How payments are sent.
    pub way: Way,
    /// Who pays.
    pub payers: Payers,
    /// Connections.
    pub connections: usize,
    /// Payments.
    pub payments: u64,
}

impl Case {
    /// A line's name.
    #[must_use]
    pub fn name(&self) -> String {
        let hot = if self.payers == Payers::Hot { ", one hot payer" } else { "" };
        match self.way {
            Way::Batches { records } => {
                format!("batches of {records}, {} connections{hot}", self.connections)
            }
            Way::Singles { in_flight } => format!("singles, {in_flight} in flight{hot}"),
        }
    }
}

impl BenchOptions {
    /// The cases that these options ask for, without those of the bin processor.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let batches: &[(usize, usize)] = &[(1_024, 6), (8_192, 2)];
        let singles: &[(usize, u64)] =
            &[(1_000, SINGLE_PAYMENTS_DEFAULT), (64, SINGLE_64_PAYMENTS_DEFAULT), (1, ALONE_PAYMENTS_MAX)];
        let batch = |(records, connections): (usize, usize), payers| Case {
            way: Way::Batches { records },
            payers,
            connections: self.connections.unwrap_or(connections),
            payments: self.payments.unwrap_or(BATCH_PAYMENTS_DEFAULT),
        };
        let single = |(in_flight, payments): (usize, u64), payers| Case {
            way: Way::Singles { in_flight },
            payers,
            connections: self.connections.unwrap_or(SINGLE_CONNECTIONS_DEFAULT),
            payments: match in_flight {
                1 => self.payments.unwrap_or(payments).min(ALONE_PAYMENTS_MAX),
                _ => self.payments.unwrap_or(payments),
            },
        };
        let batches: Vec<(usize, usize)> = match self.batch {
            Some(records) => vec![(records, if records > 2_048 { 2 } else { 6 })],
            None => batches.to_vec(),
        };
        let singles: Vec<(usize, u64)> = match self.in_flight {
            Some(in_flight) => vec![(in_flight, SINGLE_PAYMENTS_DEFAULT)],
            None => singles.to_vec(),
        };
        let with_batches = matches!(self.shape, Shape::Batch | Shape::All);
        let with_singles = matches!(self.shape, Shape::Single | Shape::All);
        let with_hot = matches!(self.shape, Shape::Hot | Shape::All);
        let mut cases = Vec::new();
        if with_batches {
            cases.extend(batches.iter().map(|of| batch(*of, Payers::Uniform)));
        } else if with_hot {
            cases.push(batch(batches[0], Payers::Uniform));
        }
        if with_hot {
            cases.push(batch(batches[0], Payers::Hot));
        }
        if with_singles {
            cases.extend(singles.iter().map(|of| single(*of, Payers::Uniform)));
        } else if with_hot {
            cases.push(single(singles[0], Payers::Uniform));
        }
        if with_hot {
            cases.push(single(singles[0], Payers::Hot));
        }
        cases
    }
}

impl BenchOptions {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), crate::BenchError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, PAYMENTS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--in-flight", self.in_flight.unwrap_or(1) as u64, 1, IN_FLIGHT_MAX as u64)?;
        check_range("--batch", self.batch.unwrap_or(1) as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections.unwrap_or(1) as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())
    }
}

/// Reads a count such as `500`, `500k` or `10m`.
///
/// # Errors
/// What a count looks like.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    let digits: String = digits.chars().filter(|digit| !matches!(digit, '_' | ',')).collect();
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count = plain.then(|| digits.parse::<u64>().ok()?.checked_mul(unit)).flatten();
    count.ok_or_else(|| format!("'{text}' is no count: write 500000, 500k or 10m"))
}

pub(crate) fn check_range(name: &str, value: u64, min: u64, max: u64) -> Result<(), crate::BenchError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(crate::BenchError::Options(format!("{name} must be from {min} to {max}, not {value}")))
    }
}

/// When the next payment of a load run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// When one of those in flight has ended.
    Closed,
    /// At its place in time, so many per second, whether or not the hub keeps up.
    Open {
        /// Payments per second.
        rate: u64,
    },
}

impl Pace {
    pub(crate) fn check(self) -> Result<(), crate::BenchError> {
        match self {
            Pace::Open { rate } => check_range("--rate", rate, 1, RATE_MAX),
            Pace::Closed => Ok(()),
        }
    }
}

/// What `load transfers` is asked for.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Host and port of the hub.
    pub address: String,
    /// An operator's key, where the hub asks for one.
    pub api_key: Option<String>,
    /// When payments begin.
    pub pace: Pace,
    /// Payments under way at once, at most.
    pub in_flight: usize,
    /// Connections.
    pub connections: usize,
    /// How long to go on.
    pub seconds: Option<u64>,
    /// How many payments to make.
    pub payments: Option<u64>,
    /// Of a hundred payments, how many the payee refuses.
    pub abort_percent: u8,
    /// Of a hundred payments, how many are left to expire.
    pub expire_percent: u8,
    /// Accounts, made for this run.
    pub accounts: u32,
    /// From where ids and amounts come; other runs on the same hub need another one.
    pub seed: u64,
    /// Show a progress bar.
    pub progress: bool,
}

/// How long a load run goes on if neither seconds nor payments are given.
pub const LOAD_SECONDS_DEFAULT: u64 = 10;

impl LoadOptions {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub fn check(&self) -> Result<(), crate::BenchError> {
        check_range("--payments", self.payments.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--seconds", self.seconds.unwrap_or(1), 1, LOAD_SECONDS_MAX)?;
        check_range("--in-flight", self.in_flight as u64, 1, IN_FLIGHT_MAX as u64)?;
        check_range("--connections", self.connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())?;
        self.pace.check()?;
        let ended_early = u64::from(self.abort_percent) + u64::from(self.expire_percent);
        check_range("--abort-percent and --expire-percent together", ended_early, 0, 100)
    }
}

#[cfg(test)]
mod tests {
    use super::parse_count;

    #[test]
    fn counts_may_end_in_k_or_m() {
        let right = [("0", 0), ("1000", 1_000), ("500k", 500_000), ("10m", 10_000_000), ("1M", 1_000_000)];
        for (text, count) in
            right.into_iter().chain([("1_000", 1_000), ("1,000k", 1_000_000), (" 2k ", 2_000)])
        {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in ["", "m", "1.5m", "-1", "+1", "10g", "10mm", "k10", "1 0", "18446744073709551615k", "_"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
