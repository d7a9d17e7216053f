//! `holdfast load WHAT`: drive a hub that is running already.

use holdfast_load::report::Report;
use holdfast_load::shop::{CheckoutLoad, load_checkouts};
use holdfast_load::tokens::{TokenLoad, load_tokens};
use holdfast_load::transfers::{TransferLoad, load_transfers};
use holdfast_load::{LoadError, Loaded};

use super::{BadInput, Output};

/// Drive a running hub and measure what its callers feel.
#[derive(Debug, clap::Args)]
pub(super) struct Load {
    #[command(subcommand)]
    what: What,
    /// Who reads the figures
    #[arg(long, global = true, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Transfers(TransferLoad),
    Tokens(TokenLoad),
    Checkout(CheckoutLoad),
}

impl Load {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let loaded = match &self.what {
            What::Transfers(options) => load_transfers(options),
            What::Tokens(options) => load_tokens(options),
            What::Checkout(options) => load_checkouts(options),
        };
        let Loaded { report, wrong } = loaded.map_err(told)?;
        print_report(&report, self.output)?;
        wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
    }
}

pub(super) fn print_report(report: &Report, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(report)?),
    }
    Ok(())
}

/// Options out of bounds are the caller's fault.
pub(super) fn told(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::Options(_) => BadInput::from(anyhow::Error::from(error)).into(),
        other => other.into(),
    }
}
