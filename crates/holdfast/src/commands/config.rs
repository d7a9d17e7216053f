//! `holdfast config`: which settings are in force, and who says so.

use std::io::Write;

use anyhow::Context;

use super::{BadInput, Output};
use crate::config::{ConfigOptions, Settings, show};

/// Show the settings in force and where each of them comes from.
///
/// Flags win over the environment (HOLDFAST_…), the environment over the file, the file over the defaults.
#[derive(Debug, clap::Args)]
pub(super) struct Config {
    #[command(flatten)]
    options: ConfigOptions,
    /// Print a TOML file of all settings with their defaults instead
    #[arg(long)]
    defaults: bool,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Config {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = if self.defaults {
            show::defaults()
        } else {
            let all = self.options.load().map_err(BadInput::from)?;
            Settings::read(&all).map_err(BadInput::from)?;
            match self.output {
                Output::Text => show::as_text(&all),
                Output::Json => format!("{:#}\n", show::as_json(&all)),
            }
        };
        std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
    }
}
