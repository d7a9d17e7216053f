//! The tool: one command for each measurement.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use holdfast_bench::bins::{BinsBench, bench_bins};
use holdfast_bench::checkout::{CheckoutBench, bench_checkout};
use holdfast_bench::depth::{DepthBench, bench_depth};
use holdfast_bench::expiry::{ExpiryBench, bench_expiry};
use holdfast_bench::fspiop::{FspiopBench, bench_fspiop};
use holdfast_bench::rebuild::{RebuildBench, bench_rebuild};
use holdfast_bench::selector::{SelectorBench, bench_selector};
use holdfast_bench::tokens::{TokensBench, bench_tokens};
use holdfast_bench::transfers::{TransfersBench, bench_transfers};
use holdfast_load::report::Report;
use holdfast_load::{LoadError, Loaded};

/// As the program that is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measure Holdfast beside peers, over long histories and through real servers.
#[derive(Debug, Parser)]
#[command(name = "holdfast-bench", version)]
struct CommandLine {
    #[command(subcommand)]
    what: What,
    /// The program that is measured [default: holdfast beside this one]
    #[arg(long, global = true, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the figures for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Bins(BinsBench),
    Depth(DepthBench),
    Fspiop(FspiopBench),
    Selector(SelectorBench),
    Rebuild(RebuildBench),
    Transfers(TransfersBench),
    Tokens(TokensBench),
    Checkout(CheckoutBench),
    Expiry(ExpiryBench),
}

impl CommandLine {
    fn program(&self) -> anyhow::Result<PathBuf> {
        let beside = match &self.program {
            Some(named) => named.clone(),
            None => std::env::current_exe()?.with_file_name("holdfast"),
        };
        beside.canonicalize().with_context(|| {
            format!(
                "there is no {}: build it with `cargo build --release`, or name it with --program",
                beside.display()
            )
        })
    }

    fn measure(&self) -> anyhow::Result<Loaded> {
        let alone = |report: Report| Loaded { report, wrong: None };
        Ok(match &self.what {
            What::Bins(options) => alone(bench_bins(options)?),
            What::Depth(options) => bench_depth(&self.program()?, options)?,
            What::Fspiop(options) => alone(bench_fspiop(&self.program()?, options)?),
            What::Selector(options) => alone(bench_selector(options)?),
            What::Rebuild(options) => alone(bench_rebuild(options)?),
            What::Transfers(options) => alone(bench_transfers(&self.program()?, options)?),
            What::Tokens(options) => alone(bench_tokens(options)?),
            What::Checkout(options) => alone(bench_checkout(&self.program()?, options)?),
            What::Expiry(options) => alone(bench_expiry(options)?),
        })
    }

    fn run(&self) -> anyhow::Result<()> {
        let Loaded { mut report, wrong } = self.measure()?;
        if let Some(commit) = commit() {
            report.set_commit(commit);
        }
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&report)?),
            false => print!("{report}"),
        }
        wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
    }
}

/// The commit that is checked out where this runs, as far as git tells.
fn commit() -> Option<String> {
    let git = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
    git.status.success().then(|| String::from_utf8_lossy(&git.stdout).trim().to_owned())
}

fn main() -> ExitCode {
    match CommandLine::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast-bench: {error:#}");
            // Options out of bounds are the caller's fault.
            let is_bad = matches!(error.downcast_ref(), Some(LoadError::Options(_)));
            ExitCode::from(if is_bad { 2 } else { 1 })
        }
    }
}
