//! The command line. Each command has a file of its own that holds its arguments and what it does; adding one
//! is a module, a variant of [`Command`] and a line in [`Command::run`].
//!
//! Exit codes: 0 done, 1 failed, 2 what was asked for makes no sense (a bad option, a bad file), as clap has it.

mod backup;
mod bench;
mod checkouts;
mod config;
mod dfsp;
mod dry_run;
mod generate;
mod keys;
mod load;
mod log;
mod openapi;
mod pages;
mod participants;
mod restore;
mod serve;
mod tables;
mod tokens;
mod transfers;
mod verify;

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use holdfast_hub::log_folder;
use holdfast_log::{LogError, RealFs, SegmentReader};
use tokio::signal::unix::{SignalKind, signal};

/// Reserves value, moves it exactly once, and gives it back on time.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    DryRun(dry_run::DryRun),
    Participants(participants::Participants),
    Transfers(transfers::Transfers),
    Tokens(tokens::Tokens),
    Checkouts(checkouts::Checkouts),
    Dfsp(dfsp::Dfsp),
    Log(log::Log),
    Verify(verify::Verify),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Generate(generate::Generate),
    Load(load::Load),
    Bench(bench::Bench),
    Keys(keys::Keys),
    Config(config::Config),
    #[command(name = "openapi")]
    OpenApi(openapi::OpenApi),
}

impl Command {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Serve(command) => command.run(),
            Command::DryRun(command) => command.run(),
            Command::Participants(command) => command.run(),
            Command::Transfers(command) => command.run(),
            Command::Tokens(command) => command.run(),
            Command::Checkouts(command) => command.run(),
            Command::Dfsp(command) => command.run(),
            Command::Log(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Backup(command) => command.run(),
            Command::Restore(command) => command.run(),
            Command::Generate(command) => command.run(),
            Command::Load(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Keys(command) => command.run(),
            Command::Config(command) => command.run(),
            Command::OpenApi(command) => command.run(),
        }
    }
}

/// Does what the command line asks for and says how it ended.
pub(crate) fn run() -> ExitCode {
    match CommandLine::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<AlreadySaid>() {
                eprintln!("holdfast: {error:#}");
            }
            ExitCode::from(if error.is::<BadInput>() { 2 } else { 1 })
        }
    }
}

/// `--output`: who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// What a choice is called on the command line.
fn name_of(choice: impl ValueEnum) -> String {
    choice.to_possible_value().expect("none is left out").get_name().to_owned()
}

/// Where a hub of one process has its data, unless somebody says otherwise.
const DATA_DEFAULT: &str = "./holdfast-data";

/// The data directory: as the option says, else the environment, else where it usually is.
fn data_directory(option: Option<PathBuf>) -> PathBuf {
    option.or_else(|| variable("HOLDFAST_DATA").map(PathBuf::from)).unwrap_or_else(|| DATA_DEFAULT.into())
}

/// A variable of the environment; an empty one is none.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A server of the database profile that the environment names, for a command whose options name no place at all.
fn server_of_environment<T, E: Display>(
    name: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> anyhow::Result<Option<T>> {
    let found = variable(name).map(|text| read(&text));
    found.transpose().map_err(|why| bad_input(format!("{name}: {why}")))
}

/// Opens the log of a data directory for reading only.
fn read_log(data: &Path) -> anyhow::Result<SegmentReader> {
    SegmentReader::open(Arc::new(RealFs), &log_folder(data)).map_err(|error| {
        let missing = match &error {
            LogError::NoLog { .. } => true,
            LogError::Io { source, .. } => source.kind() == ErrorKind::NotFound,
            _ => false,
        };
        let data = data.display();
        match missing {
            true => bad_input(format!("there is no Holdfast data in {data}; name it with --data")),
            false => anyhow::Error::from(error).context(format!("cannot read the log in {data}")),
        }
    })
}

/// Retention has removed the beginning of the log, from which alone a tool can decide everything again.
fn beginning_removed(error: LogError, so: &str) -> anyhow::Error {
    match error {
        LogError::BeforeStart { start, .. } => anyhow::anyhow!(
            "the log begins at offset {start}: the records before it were removed by retention (retention.log_days), and {so}"
        ),
        other => other.into(),
    }
}

/// Ready when the process gets SIGTERM or SIGINT.
fn asked_to_end() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// It did not go well, and what was printed says so: exit code 1 without another line.
#[derive(Debug)]
struct AlreadySaid;

impl Display for AlreadySaid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("said above")
    }
}

impl std::error::Error for AlreadySaid {}

/// The user's own input is at fault, so trying again without changing it is of no use: exit code 2.
#[derive(Debug)]
struct BadInput(anyhow::Error);

/// What was asked for makes no sense, and why.
fn bad_input(why: impl Display) -> anyhow::Error {
    BadInput(anyhow::anyhow!("{why}")).into()
}

impl From<anyhow::Error> for BadInput {
    fn from(reason: anyhow::Error) -> BadInput {
        BadInput(reason)
    }
}

impl Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for BadInput {}
