//! `holdfast bench expiry`.

use std::path::PathBuf;

use anyhow::Context;
use holdfast_bench::expiry::{self, ExpiryOptions, bench_expiry};
use holdfast_bench::options::parse_count;

use super::super::Output;
use super::super::generate::store_address;
use super::{print_report, told};

/// Expiry in the cluster's PostgreSQL, beside the obvious query and the ten steps of the document that it replaces.
///
/// All three on the same data, in a database that the run makes on the server and removes again. Nothing due at several
/// sizes; some due among many; as many expirations as go, with the position step and without Kafka; nothing due after many
/// payments that ended as they should, without VACUUM; and what the expiry table adds to the server's log.
#[derive(Debug, clap::Args)]
pub(super) struct Expiry {
    /// The server, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: String,
    /// Transfers among which some are due, such as 1m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::TRANSFERS_DEFAULT)]
    transfers: u64,
    /// Further sizes at which nothing is due, such as 500k,2m,5m
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_count, default_value = "500k")]
    sizes: Vec<u64>,
    /// How many are due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::DUE_DEFAULT)]
    due: u64,
    /// How many are ended as fast as it goes
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::SUSTAINED_DEFAULT)]
    sustained: u64,
    /// Payments that end as they should before nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::FINISHED_DEFAULT)]
    finished: u64,
    /// Looks where nothing is due
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = expiry::options::SCANS_DEFAULT)]
    scans: u64,
    /// Draw cost against size into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Leave the database there
    #[arg(long)]
    keep: bool,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

pub(super) fn run(flags: Expiry) -> anyhow::Result<()> {
    let report = bench_expiry(&ExpiryOptions {
        store: flags.store,
        transfers: flags.transfers,
        sizes: flags.sizes,
        due: flags.due,
        sustained: flags.sustained,
        finished: flags.finished,
        scans: flags.scans,
        keep: flags.keep,
        progress: true,
    });
    let report = report.map_err(told)?;
    print_report(&report, flags.output)?;
    if let Some(file) = flags.plot {
        std::fs::write(&file, expiry::plot(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
