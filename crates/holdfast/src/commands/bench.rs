//! `holdfast bench WHAT`: measure on this machine, with hubs that the command starts and stops itself.

use anyhow::Context;
use holdfast_load::shop::{CheckoutBench, bench_checkout};
use holdfast_load::tokens::{TokenBench, bench_tokens};
use holdfast_load::transfers::{TransferBench, bench_transfers};

use super::Output;
use super::load::{print_report, told};

/// Measure this program on this machine.
#[derive(Debug, clap::Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
    /// Who reads the figures
    #[arg(long, global = true, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(TransferBench),
    Tokens(TokenBench),
    Checkout(CheckoutBench),
}

impl Bench {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let report = match &self.what {
            What::Transfers(options) => bench_transfers(&program, options),
            What::Tokens(options) => bench_tokens(&program, options),
            What::Checkout(options) => bench_checkout(&program, options),
        };
        print_report(&report.map_err(told)?, self.output)
    }
}
