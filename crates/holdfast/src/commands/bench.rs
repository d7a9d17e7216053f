//! `holdfast bench WHAT`: measure on this machine, with a server that the command starts and stops itself.

use std::path::PathBuf;

use anyhow::Context;
use holdfast_bench::options::{ACCOUNTS_DEFAULT, RUNS_DEFAULT};
use holdfast_bench::{BenchError, BenchOptions, Shape, bench_transfers};

use super::{BadInput, Output};

/// Measure this program on this machine.
#[derive(Debug, clap::Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(Transfers),
}

/// Two-phase payments against a server of its own: rates, latencies, costs, and the raw disk beside them.
///
/// A payment is a prepare and its fulfil with the real preimage, both answered after fdatasync. One that is not
/// settled fails the run. Every run has a new server with an empty log.
#[derive(Debug, clap::Args)]
struct Transfers {
    /// Which cases
    #[arg(long, value_enum, default_value = "all")]
    shape: ShapeName,
    /// Payments of each case [default: 1,000,000 in batches, fewer singly]
    #[arg(long)]
    payments: Option<u64>,
    /// Runs of each case; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Single payments under way at once [default: 1,000, 64 and 1]
    #[arg(long)]
    in_flight: Option<usize>,
    /// Records per batch [default: 1,024 and 8,192]
    #[arg(long)]
    batch: Option<usize>,
    /// Connections [default: what suits the case]
    #[arg(long)]
    connections: Option<usize>,
    /// Accounts that payments are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    accounts: u32,
    /// Where the server's data lies; must be on a disk [default: a temporary directory in ./target or the system's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Leave the data there
    #[arg(long)]
    keep: bool,
    /// From where ids and amounts come
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Who reads the figures
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ShapeName {
    /// Whole batches, several requests in flight
    Batch,
    /// Single payments: 1,000, 64 and 1 in flight
    Single,
    /// One hot payer beside many accounts
    Hot,
    /// The bin processor alone, on one core
    Bins,
    /// All of these
    All,
}

impl From<ShapeName> for Shape {
    fn from(name: ShapeName) -> Shape {
        match name {
            ShapeName::Batch => Shape::Batch,
            ShapeName::Single => Shape::Single,
            ShapeName::Hot => Shape::Hot,
            ShapeName::Bins => Shape::Bins,
            ShapeName::All => Shape::All,
        }
    }
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let What::Transfers(flags) = self.what;
        let output = flags.output;
        let report = bench_transfers(&BenchOptions {
            program: std::env::current_exe().context("cannot tell which program this is")?,
            shape: flags.shape.into(),
            payments: flags.payments,
            runs: flags.runs,
            in_flight: flags.in_flight,
            batch: flags.batch,
            connections: flags.connections,
            accounts: flags.accounts,
            data: flags.data,
            keep: flags.keep,
            seed: flags.seed,
            progress: true,
        })
        .map_err(told)?;
        match output {
            Output::Text => print!("{report}"),
            Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        }
        Ok(())
    }
}

/// Options out of bounds are the caller's fault.
pub(super) fn told(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Options(_) => BadInput::from(anyhow::Error::from(error)).into(),
        other => other.into(),
    }
}
