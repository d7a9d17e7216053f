//! `holdfast dry-run KIND FILE`: what would the rules do with this case? Nothing is read but the file, and
//! nothing is written but the answer.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{BadInput, Output};
use crate::dry_run;

/// Run the decisions on a case from a JSON file and print what they do, as JSON.
///
/// The same code decides in a running hub. A bad file exits with 2 and prints nothing but its reason.
#[derive(Debug, clap::Args)]
pub(super) struct DryRun {
    /// Which decisions
    kind: Kind,
    /// The case; - reads it from standard input
    file: PathBuf,
    /// For people or for programs: the same JSON for both
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// One batch of the position step
    Position,
    /// One selection of tokens
    Tokens,
    /// Messages of the checkout saga
    Checkout,
}

impl DryRun {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let answer = self.answer().map_err(BadInput::from)?;
        match self.output {
            Output::Text | Output::Json => print(&answer),
        }
        .context("cannot write the answer to standard output")
    }

    fn answer(&self) -> anyhow::Result<String> {
        let name = match is_standard_input(&self.file) {
            true => "standard input".to_owned(),
            false => self.file.display().to_string(),
        };
        let text = read(&self.file).with_context(|| format!("cannot read {name}"))?;
        match self.kind {
            Kind::Position => dry_run::position(&text),
            Kind::Tokens => dry_run::tokens(&text),
            Kind::Checkout => dry_run::checkout(&text),
        }
        .with_context(|| format!("{name} is not a case to run"))
    }
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn read(file: &Path) -> std::io::Result<String> {
    if !is_standard_input(file) {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// A reader that has seen enough (`| head`) is no failure.
fn print(answer: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(answer.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
