//! What several runs are asked for alike, and every bound with its name.

use std::time::Duration;

use crate::LoadError;

/// Payments of one case at most: their ids, conditions and bodies are kept in memory.
pub const PAYMENTS_MAX: u64 = 10_000_000;
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
/// Calls of a load that are under way at once, where none are given.
pub const LINES_DEFAULT: usize = 64;
/// The most of them, where each has a connection of its own: a hub serves 1,024 connections.
pub const LINES_MAX: usize = 1_000;
/// Connections over HTTP of a bench, where none are given.
pub const HTTP_CONNECTIONS_DEFAULT: usize = 128;
/// The highest rate of an open loop, per second.
pub const RATE_MAX: u64 = 10_000_000;
/// How long a load goes on if neither seconds nor a count are given.
pub const LOAD_SECONDS_DEFAULT: u64 = 10;
/// The longest load.
pub const LOAD_SECONDS_MAX: u64 = 24 * 3_600;

/// The hub that is driven.
#[derive(Debug, Clone, clap::Args)]
pub struct Hub {
    /// The hub
    #[arg(long = "url", value_name = "URL", default_value = "http://127.0.0.1:4000", env = "HOLDFAST_URL", value_parser = address_of)]
    pub address: String,
    /// An operator's key, where the hub asks for one
    #[arg(long, env = "HOLDFAST_KEY", hide_env_values = true)]
    pub key: Option<String>,
}

impl Hub {
    /// A hub that asks for no key.
    pub fn at(address: &str) -> Hub {
        Hub { address: address.to_owned(), key: None }
    }
}

/// When rounds begin, how many at once and for how long.
///
/// Without a rate each begins when another has ended (closed loop). With a rate each begins at its own place in time,
/// whether or not the hub keeps up, and latencies count from there (open loop).
#[derive(Debug, Clone, clap::Args)]
pub struct Pacing {
    /// How many begin per second (open loop)
    #[arg(long)]
    pub rate: Option<u64>,
    /// Under way at once, at most
    #[arg(long, default_value_t = LINES_DEFAULT)]
    pub in_flight: usize,
    /// How long to go on [default: 10, or until as many are made as are asked for]
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Show no progress bar.
    #[arg(skip)]
    pub quiet: bool,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing { rate: None, in_flight: LINES_DEFAULT, seconds: None, quiet: true }
    }
}

impl Pacing {
    pub(crate) fn check(&self, in_flight_max: usize) -> Result<(), LoadError> {
        check_range("--seconds", self.seconds.unwrap_or(1), 1, LOAD_SECONDS_MAX)?;
        check_range("--in-flight", self.in_flight as u64, 1, in_flight_max as u64)?;
        check_range("--rate", self.rate.unwrap_or(1), 1, RATE_MAX)
    }
}

/// Host and port of a URL without a path.
fn address_of(url: &str) -> Result<String, &'static str> {
    let address = url.strip_prefix("http://").ok_or("--url must begin with http://")?;
    let address = address.trim_end_matches('/');
    match address.contains('/') {
        true => Err("--url names a host and a port, without a path"),
        false => Ok(address.to_owned()),
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

/// Refuses a value that is out of bounds.
///
/// # Errors
/// The bounds.
pub fn check_range(name: &str, value: u64, min: u64, max: u64) -> Result<(), LoadError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(LoadError::Options(format!("{name} must be from {min} to {max}, not {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{address_of, parse_count};

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

    #[test]
    fn a_url_is_a_host_and_a_port() {
        assert_eq!(address_of("http://hub:4000/").as_deref(), Ok("hub:4000"));
        assert!(address_of("hub:4000").is_err() && address_of("http://hub:4000/x").is_err());
    }
}
