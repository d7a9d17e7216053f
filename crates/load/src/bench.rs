//! Cases of a bench: each run on a hub of its own with an empty log, beside the raw disk at that moment, and the tables that
//! all of them are told in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_client::{Client, ClientOptions};
use tempfile::TempDir;

use crate::LoadError;
use crate::bar::Bar;
use crate::disk::{self, Disk};
use crate::figures::{Percentiles, median, median_of, per_second};
use crate::machine::{load_average, must_be_a_disk};
use crate::options::{CALL_DEADLINE, IN_FLIGHT_MAX};
use crate::report::{Report, Row, millis};
use crate::server::Server;

/// Where the data of a run lies.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DataPlace {
    /// Where the data lies; must be on a disk [default: a temporary directory in ./target or the system's]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Leave the data there
    #[arg(long)]
    pub keep: bool,
}

/// The program that is measured, and where.
pub struct Bench {
    program: PathBuf,
    directory: Directory,
    keep: bool,
    runs: u32,
    bar: Bar,
}

/// The hub of one run, with the raw disk as it was before.
pub struct Hub<'a> {
    /// The process.
    pub server: &'a Server,
    /// The directory of the run, in which its data lies.
    pub place: &'a Path,
    /// Which run of its case it is, from 0 on.
    pub number: u32,
}

/// What one run did and cost.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// How long it took.
    pub took: Duration,
    /// Rounds of it.
    pub rounds: u64,
    /// How long what took.
    pub latencies: Vec<(&'static str, Percentiles)>,
    /// Of each round.
    pub costs: Row,
    /// A line for each handler of a node.
    pub handlers: Vec<Row>,
    /// What else is told of it.
    pub more: Row,
}

/// All runs of one case, in the order in which they were made.
#[derive(Debug, Clone)]
pub struct Case {
    /// The line's name.
    pub name: String,
    runs: Vec<(Run, Option<Disk>)>,
    /// Which run stands for all: that of the median rate or, where the rate was given, of the median p99.
    by_latency: bool,
}

impl Run {
    /// Rounds in a second.
    pub fn rate(&self) -> f64 {
        per_second(self.rounds, self.took)
    }
}

impl Case {
    /// Runs without a look at the raw disk.
    pub fn of(name: impl Into<String>, runs: impl IntoIterator<Item = Run>) -> Case {
        let runs = runs.into_iter().map(|run| (run, None)).collect();
        Case { name: name.into(), runs, by_latency: false }
    }

    /// The rate of each run.
    pub fn rates(&self) -> Vec<f64> {
        self.runs.iter().map(|(run, ..)| run.rate()).collect()
    }

    /// Of these rates.
    pub fn median_rate(&self) -> f64 {
        median(&self.rates())
    }

    /// The same case with a given rate, whose runs differ in their latency only.
    pub fn at_a_given_rate(self) -> Case {
        Case { by_latency: true, ..self }
    }

    fn median(&self) -> Option<&(Run, Option<Disk>)> {
        let p99 = |run: &Run| run.latencies.first().map_or(0, |(_, latency)| latency.p99);
        median_of(&self.runs, |(run, ..)| if self.by_latency { millis(p99(run)) } else { run.rate() })
    }
}

impl Bench {
    /// Runs of this program with their data at that place, `cases` times so many.
    ///
    /// # Errors
    /// If there is no such place, or it is not on a disk.
    pub fn open(program: &Path, place: &DataPlace, runs: u32, cases: usize) -> Result<Bench, LoadError> {
        let directory = Directory::open(place.data.as_deref())?;
        must_be_a_disk(directory.path())?;
        let bar = Bar::of(cases as u64 * u64::from(runs));
        Ok(Bench { program: program.to_owned(), directory, keep: place.keep, runs, bar })
    }

    /// A directory for what has none of its own.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs one case as often as asked for.
    ///
    /// # Errors
    /// Whatever ends a run.
    pub fn case(
        &self,
        name: impl Into<String>,
        mut run: impl AsyncFnMut(Hub<'_>) -> Result<Run, LoadError>,
    ) -> Result<Case, LoadError> {
        let (name, mut runs) = (name.into(), Vec::new());
        for number in 0..self.runs {
            self.bar.next(&*name);
            runs.push(self.run_once(number, &mut run)?);
        }
        Ok(Case { name, runs, by_latency: false })
    }

    /// One run in a directory of its own, which stays if the run fails or the data is to be kept.
    fn run_once(
        &self,
        number: u32,
        run: &mut impl AsyncFnMut(Hub<'_>) -> Result<Run, LoadError>,
    ) -> Result<(Run, Option<Disk>), LoadError> {
        let place = run_directory(self.directory())?;
        // Before the server starts: it has its own writes to make.
        let disk = disk::probe(place.path())?;
        let server = Server::start(&self.program, place.path())?;
        let runtime = runtime()?;
        let hub = Hub { server: &server, place: place.path(), number };
        let ran = runtime.block_on(run(hub));
        drop(runtime);
        let load = load_average();
        if ran.is_err() || self.keep {
            // The server's messages are worth more than the space.
            let _kept: PathBuf = place.keep();
        }
        let mut ran = ran?;
        ran.costs = ran.costs.word("load", load);
        server.stop()?;
        Ok((ran, Some(disk)))
    }

    /// Ends the bench; its directory goes, unless it is to be kept.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn close(self) -> Result<(), LoadError> {
        self.bar.clear();
        self.directory.close(self.keep)
    }
}

impl Hub<'_> {
    /// A client that waits for each answer as long as a bench may.
    ///
    /// # Errors
    /// If the hub does not take the connections.
    pub async fn client(&self, connections: usize) -> Result<Client, LoadError> {
        patient_client(&self.server.address, connections).await
    }
}

/// The same of any address.
///
/// # Errors
/// If the hub does not take the connections.
pub async fn patient_client(address: &str, connections: usize) -> Result<Client, LoadError> {
    let client = Client::connect(ClientOptions {
        connections,
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        attempt_max: CALL_DEADLINE,
        ..ClientOptions::to(address)
    });
    client.await.map_err(LoadError::of("connecting to the hub"))
}

/// Speed and costs of some cases whose rounds have that name, and what else was looked at: handlers and the raw disk.
pub fn tell(report: &mut Report, rounds: &str, heading: &str, cases: &[Case]) {
    let medians = || cases.iter().filter_map(|case| Some((case, case.median()?)));
    let mut speed = Vec::new();
    for (case, (run, _)) in medians() {
        for (what, latency) in &run.latencies {
            let row = Row::of("case", &case.name)
                .count(rounds, run.rounds)
                .number("per second", case.median_rate(), 0)
                .each("every run", &case.rates(), 0);
            speed.push(row.and(run.more.clone()).word("of one", *what).latency(latency));
        }
    }
    report.table(format!("{heading}; milliseconds:"), speed);
    let costs = medians().map(|(case, (run, _))| Row::of("case", &case.name).and(run.costs.clone()));
    report.table(
        format!(
            "of the median run; microseconds of CPU or of the stage, and bytes, for each of the {rounds}:"
        ),
        costs,
    );
    if let Some((_, (run, _))) = medians().next().filter(|(_, (run, _))| !run.handlers.is_empty()) {
        report.table("the handlers meanwhile:", run.handlers.clone());
    }
    let disk = |(case, (_, disk)): (&Case, &(Run, Option<Disk>))| {
        Some(Row::of("before", &case.name).and(disk.as_ref()?.row()))
    };
    let disks: Vec<Row> = medians().filter_map(disk).collect();
    if !disks.is_empty() {
        report.table("the raw disk before the median run, write + fdatasync on zeros; microseconds:", disks);
    }
}

/// A runtime on this thread.
///
/// # Errors
/// If the system has none to give.
pub fn runtime() -> Result<tokio::runtime::Runtime, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(LoadError::of("cannot start the runtime of the clients"))
}

/// Where the data of the runs lies.
pub enum Directory {
    /// As it was asked for.
    Named(PathBuf),
    /// Gone at the end.
    Temporary(TempDir),
}

/// A directory for one run.
///
/// # Errors
/// If it cannot be made.
pub fn run_directory(directory: &Path) -> Result<TempDir, LoadError> {
    let made = tempfile::Builder::new().prefix("run-").tempdir_in(directory);
    made.map_err(LoadError::io("create a directory in", directory))
}

impl Directory {
    /// The named one; else one in `./target` if that exists, else one in the system's place for such.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(named: Option<&Path>) -> Result<Directory, LoadError> {
        if let Some(path) = named {
            std::fs::create_dir_all(path).map_err(LoadError::io("create", path))?;
            return Ok(Directory::Named(path.to_owned()));
        }
        let target = PathBuf::from("target");
        let parent = if target.is_dir() { target } else { std::env::temp_dir() };
        let made = tempfile::Builder::new().prefix("holdfast-bench-").tempdir_in(&parent);
        made.map(Directory::Temporary).map_err(LoadError::io("create a directory in", parent))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Directory::Named(path) => path,
            Directory::Temporary(directory) => directory.path(),
        }
    }

    /// Removes a temporary one, unless it is to be kept.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn close(self, keep: bool) -> Result<(), LoadError> {
        let Directory::Temporary(directory) = self else { return Ok(()) };
        if keep {
            eprintln!("the data is in {}", directory.keep().display());
            return Ok(());
        }
        let path = directory.path().to_owned();
        directory.close().map_err(LoadError::io("remove", path))
    }
}
