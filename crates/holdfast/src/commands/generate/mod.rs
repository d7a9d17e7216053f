//! `holdfast generate WHAT`: data to measure and try with, in a new data directory or in the database profile's PostgreSQL.

mod embedded;

use std::path::PathBuf;

use anyhow::Context;
use holdfast_domain::ids::Currency;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_load::bar::Bar;
use holdfast_load::options::parse_count;
use holdfast_postgres::{DataSet, Error, Store};
use serde_json::json;

use super::{BadInput, Output, bad_input};

/// Of the transfers that are made so many are past their expiration, unless somebody says otherwise.
const EXPIRED_DEFAULT: u64 = 1_000;

/// Fill a new data directory or the database profile's PostgreSQL with transfers, to measure and try with.
#[derive(Debug, clap::Args)]
pub(super) struct Generate {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(Transfers),
    Shift(Shift),
}

/// Transfers of all states, with their history, positions, holds and audit records.
///
/// A tenth is open, the rest finished in every way that there is. Exactly as many as asked for are open and past their
/// expiration, wherever chance puts them.
///
/// With --data a hub of one process is made in an empty directory: a log whose frames lie in the past, decided by the
/// hub's own rules. Its participants, generatedusd1 and so on, have all funds but for the eighth of each currency, which
/// has none and is refused. Start the hub on it with `holdfast serve --data`: it ends what has run out.
///
/// With --store the database profile's PostgreSQL is filled; what is there already stays, and the participants have neither funds nor
/// limits.
#[derive(Debug, clap::Args)]
struct Transfers {
    /// An empty directory, or one to be made; goes before --store
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The database profile's PostgreSQL, such as postgres://user@host/database; HOLDFAST_STORE is not looked at
    #[arg(long, value_name = "URL", value_parser = store_address)]
    store: Option<String>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// How many, such as 500k or 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    total: u64,
    /// How many of them are open and past their expiration
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = EXPIRED_DEFAULT)]
    expired: u64,
    /// The smallest amount, in whole units
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    amount_min: i64,
    /// The largest amount
    #[arg(long, value_name = "UNITS", default_value_t = 100)]
    amount_max: i64,
    /// The currencies
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "USD,EUR,ZAR")]
    currencies: Vec<Currency>,
    /// How many hours expirations lie from now, such as 168 or 24-168: of open transfers ahead, of all others back
    #[arg(long, value_name = "HOURS", value_parser = hours, default_value = "0-168")]
    hours: (u32, u32),
    /// Transfers between two looks at the progress, and at most in one transaction or frame
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "5000")]
    progress_every: u64,
    /// From where chance comes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Move the expiration of every open transfer, so that a data set is as it was when it was made.
#[derive(Debug, clap::Args)]
struct Shift {
    /// The database profile's PostgreSQL, such as postgres://user@host/database; HOLDFAST_STORE is not looked at
    #[arg(long, value_name = "URL", value_parser = store_address)]
    store: String,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// By how much, such as 1h, 90m or -2d (earlier)
    #[arg(long, value_name = "TIME", value_parser = milliseconds, allow_hyphen_values = true)]
    by: i64,
}

impl Generate {
    pub(super) fn run(self) -> anyhow::Result<()> {
        match self.what {
            What::Transfers(flags) => transfers(flags),
            What::Shift(flags) => shift(&flags),
        }
    }
}

fn transfers(flags: Transfers) -> anyhow::Result<()> {
    let total = flags.total;
    let data = DataSet {
        total,
        expired: flags.expired,
        amount: (flags.amount_min, flags.amount_max),
        currencies: flags.currencies,
        hours: flags.hours,
        progress_every: flags.progress_every,
        seed: flags.seed,
    };
    if data.expired > total {
        return Err(bad_input(format!(
            "of {total} transfers {} cannot have expired: say --expired, which is {EXPIRED_DEFAULT} by default",
            data.expired
        )));
    }
    data.check().map_err(told)?;
    let bar = Bar::new("transfers");
    let progress = |done| bar.show(done, total);
    let made = match (flags.data, flags.store) {
        (Some(directory), _) => {
            embedded::generate(&data, &directory, SystemClock::new().read().wall, progress)?
        }
        (None, Some(store)) => open(&store)?.generate(&data, progress).map_err(told)?,
        (None, None) => {
            return Err(bad_input(
                "name an empty directory with --data, or the database profile's PostgreSQL with --store",
            ));
        }
    };
    drop(bar);
    match flags.output {
        Output::Text => println!(
            "{} transfers with {} state changes and {} position changes; {} are open, {} of them past their expiration",
            made.transfers, made.state_changes, made.position_changes, made.open, made.expired
        ),
        Output::Json => println!(
            "{}",
            json!({
                "transfers": made.transfers,
                "stateChanges": made.state_changes,
                "positionChanges": made.position_changes,
                "open": made.open,
                "expired": made.expired,
            })
        ),
    }
    Ok(())
}

fn shift(flags: &Shift) -> anyhow::Result<()> {
    let moved = open(&flags.store)?.shift_expirations(flags.by).map_err(told)?;
    match flags.output {
        Output::Text => println!("{moved} open transfers moved by {} ms", flags.by),
        Output::Json => println!("{}", json!({ "moved": moved, "byMs": flags.by })),
    }
    Ok(())
}

fn open(url: &str) -> anyhow::Result<Store> {
    Store::open_as_set_up(url).context("cannot open the store")
}

/// A data set out of bounds is the caller's fault.
fn told(error: Error) -> anyhow::Error {
    match error {
        Error::DataSet(_) => BadInput::from(anyhow::Error::from(error)).into(),
        other => other.into(),
    }
}

/// The address of the database profile's PostgreSQL.
pub(super) fn store_address(text: &str) -> Result<String, String> {
    let known = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    if known { Ok(text.to_owned()) } else { Err("write postgres://user@host:port/database".to_owned()) }
}

fn hours(text: &str) -> Result<(u32, u32), String> {
    let (from, to) = text.split_once('-').unwrap_or(("0", text));
    let number = |text: &str| text.trim().parse().ok();
    number(from).zip(number(to)).ok_or_else(|| format!("'{text}' is no range: write 168 or 24-168"))
}

fn milliseconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is no time: write 1h, 90m or -2d");
    // jiff leaves days to calendars; here a day has 24 hours.
    let (text, days) = match text.strip_suffix('d') {
        Some(days) => (format!("{days}h"), 24),
        None => (text.to_owned(), 1),
    };
    let time: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    i64::try_from(time.as_millis()).ok().and_then(|by| by.checked_mul(days)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_times_are_read() {
        assert_eq!((hours("168"), hours("24-168")), (Ok((0, 168)), Ok((24, 168))));
        assert!(hours("a week").is_err());
        assert_eq!(milliseconds("1h"), Ok(3_600_000));
        assert_eq!(milliseconds("90m"), Ok(5_400_000));
        assert_eq!(milliseconds("-2d"), Ok(-172_800_000));
        assert_eq!(milliseconds("250ms"), Ok(250));
        assert!(milliseconds("soon").is_err());
    }

    #[test]
    fn only_the_database_profile_has_such_a_store() {
        assert!(store_address("postgres://u@h/d").is_ok());
        assert!(store_address("./holdfast-data").is_err());
    }
}
