//! `holdfast bench WHAT`: measure on this machine, with a server that the command starts and stops itself.

mod checkout;
mod expiry;
mod fspiop;
mod tokens;
mod transfers;

use std::path::PathBuf;

use anyhow::Context;
use holdfast_bench::BenchError;
use holdfast_bench::cluster::options::{HALF_SECONDS_DEFAULT, PARTITIONS_DEFAULT};

use super::generate::store_address;
use super::{BadInput, Output};

/// Measure this program on this machine.
#[derive(Debug, clap::Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(transfers::Transfers),
    Fspiop(fspiop::Fspiop),
    Tokens(tokens::Tokens),
    Checkout(checkout::Checkout),
    Expiry(expiry::Expiry),
}

/// Where a run's data lies, and who reads its figures.
#[derive(Debug, clap::Args)]
struct Place {
    /// Where the data lies; must be on a disk [default: a temporary directory in ./target or the system's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Leave the data there
    #[arg(long)]
    keep: bool,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// What every run is told that draws names and amounts.
#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    /// From where names and amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    /// One process with its own log
    Embedded,
    /// A node before Kafka and PostgreSQL
    Cluster,
}

/// Where a cluster's servers are, and what a run on them is told.
#[derive(Debug, clap::Args)]
struct Servers {
    /// Cluster: Kafka, such as kafka://host:9092
    #[arg(long, value_name = "URL", env = "HOLDFAST_LOG")]
    log: Option<String>,
    /// Cluster: PostgreSQL, such as postgres://user@host/database; its user must be able to create databases
    #[arg(long, value_name = "URL", env = "HOLDFAST_STORE", value_parser = store_address)]
    store: Option<String>,
    /// Cluster: partitions of each topic
    #[arg(long, default_value_t = PARTITIONS_DEFAULT)]
    partitions: u32,
    /// Cluster: how long half load goes on
    #[arg(long, value_name = "SECONDS", default_value_t = HALF_SECONDS_DEFAULT)]
    half_seconds: u64,
}

impl Servers {
    /// Kafka and PostgreSQL.
    fn both(&self) -> anyhow::Result<(String, String)> {
        self.log.clone().zip(self.store.clone()).ok_or_else(|| {
            bad("--profile cluster needs --log kafka://HOST:PORT and --store postgres://USER@HOST/DATABASE; \
                 `cargo xtask services up` starts both")
        })
    }
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        match self.what {
            What::Transfers(flags) => transfers::run(flags, program),
            What::Fspiop(flags) => fspiop::run(flags, program),
            What::Tokens(flags) => tokens::run(flags, program),
            What::Checkout(flags) => checkout::run(flags, program),
            What::Expiry(flags) => expiry::run(flags),
        }
    }
}

fn bad(what: &'static str) -> anyhow::Error {
    BadInput::from(anyhow::anyhow!(what)).into()
}

pub(in crate::commands) fn print_report(
    report: &(impl std::fmt::Display + serde::Serialize),
    output: Output,
) -> anyhow::Result<()> {
    match output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(())
}

/// Options out of bounds are the caller's fault.
pub(in crate::commands) fn told(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Options(_) => BadInput::from(anyhow::Error::from(error)).into(),
        other => other.into(),
    }
}
