//! `holdfast bench transfers`: each run on a new server with an empty log, beside the raw disk at that moment.

use std::path::{Path, PathBuf};

use holdfast_client::{Client, ClientOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tempfile::TempDir;

use crate::bins;
use crate::child::Server;
use crate::disk::{self, Disk};
use crate::drive::{Driven, Material, PAYMENTS_PER_SECOND_MIN, drive};
use crate::error::BenchError;
use crate::machine::{Machine, load_average, must_be_a_disk};
use crate::meter::{Books, Counters, Usage, device_written_bytes};
use crate::options::{BenchOptions, CALL_DEADLINE, Case, IN_FLIGHT_MAX, Payers, Shape};
use crate::payments::{Parties, Payments};
use crate::report::{BenchReport, BinsReport, CaseReport, Percentiles, Run, median, per};

/// Messages that the bin processor goes through per run.
const BINS_MESSAGES: u64 = 20_000_000;

/// Runs what the options ask for.
///
/// # Errors
/// If the server does not start, a payment is not settled, or the books do not balance.
pub fn bench_transfers(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    options.check()?;
    let directory = Directory::open(options.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let cases = options.cases();
    let with_bins = matches!(options.shape, Shape::Bins | Shape::All);
    let lines = cases.len() + 2 * usize::from(with_bins);
    let bar = progress_bar(options.progress, lines as u64 * u64::from(options.runs));
    let mut report = BenchReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(directory.path()),
        accounts: options.accounts,
        cases: Vec::new(),
        bins: Vec::new(),
    };
    for case in cases {
        report.cases.push(run_case(options, &case, directory.path(), &bar)?);
    }
    for payers in [Payers::Uniform, Payers::Hot].into_iter().filter(|_| with_bins) {
        report.bins.push(run_bins(options, payers, &bar)?);
    }
    bar.finish_and_clear();
    directory.close(options.keep)?;
    Ok(report)
}

/// A bar that draws only between runs, so that it takes nothing from what is measured.
pub(crate) fn progress_bar(shown: bool, runs: u64) -> ProgressBar {
    let target = match shown {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    match ProgressStyle::with_template("{bar:24} {pos}/{len} runs  {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn run_case(
    options: &BenchOptions,
    case: &Case,
    directory: &Path,
    bar: &ProgressBar,
) -> Result<CaseReport, BenchError> {
    let mut runs = Vec::new();
    for number in 0..options.runs {
        bar.set_message(case.name());
        bar.tick();
        let run = async |server: &Server, place: &Path, disk| {
            run_once(options, case, server, place, disk, number).await
        };
        runs.push(on_new_server(&options.program, directory, options.keep, run)?);
        bar.inc(1);
    }
    let rates: Vec<f64> = runs.iter().map(|run| run.payments_per_second).collect();
    Ok(CaseReport { name: case.name(), case: *case, median_payments_per_second: median(&rates), runs })
}

/// One run on a server of its own, in a directory of its own that stays if the run fails or `keep` says so; beside it the raw
/// disk as it was before.
pub(crate) fn on_new_server<T>(
    program: &Path,
    directory: &Path,
    keep: bool,
    run: impl AsyncFnOnce(&Server, &Path, Disk) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let place = tempfile::Builder::new().prefix("run-").tempdir_in(directory);
    let place = place.map_err(BenchError::io("create a directory in", directory))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    // Before the server starts: it has its own writes to make.
    let disk = disk::probe(place.path())?;
    let server = Server::start(program, place.path())?;
    let run = runtime.block_on(run(&server, place.path(), disk));
    drop(runtime);
    if run.is_err() || keep {
        // The server's messages are worth more than the space.
        let _kept: PathBuf = place.keep();
    }
    let run = run?;
    server.stop()?;
    Ok(run)
}

async fn run_once(
    options: &BenchOptions,
    case: &Case,
    server: &Server,
    place: &Path,
    disk: Disk,
    number: u32,
) -> Result<Run, BenchError> {
    let client = Client::connect(ClientOptions {
        connections: case.connections,
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        attempt_max: CALL_DEADLINE,
        ..ClientOptions::to(&server.address)
    });
    let client = client.await.map_err(BenchError::client("connecting to the server"))?;
    let seed = options.seed.wrapping_add(u64::from(number));
    let parties = Parties::create(&client, seed, options.accounts).await?;
    let material = Material::make(case, Payments::new(parties, case.payers, seed), PAYMENTS_PER_SECOND_MIN)?;
    let counters = Counters::read(&client).await?;
    let (server_before, client_before) = (Usage::of(server.pid()), Usage::of(std::process::id()));
    let device_before = device_written_bytes(place);
    let driven = drive(case, client.clone(), material).await?;
    let device_after = device_written_bytes(place);
    let (server_after, client_after) = (Usage::of(server.pid()), Usage::of(std::process::id()));
    let counted = Counters::read(&client).await?;
    let load_average = load_average();
    let books = Books::read(&client).await?;
    let expected = Books { committed: case.payments, ..Books::default() };
    if books != expected {
        return Err(BenchError::Books(format!("{books:?} where {expected:?} was sent")));
    }
    let Driven { took, prepare_us, fulfil_us, payment_us } = driven;
    let (frames, records) = (counted.frames_since(&counters), counted.records_since(&counters));
    let payments = case.payments;
    let stages = counted.stages_since(&counters);
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let payments_per_second = payments as f64 / took.as_secs_f64();
    Ok(Run {
        seconds: took.as_secs_f64(),
        payments_per_second,
        prepare_us: Percentiles::of(&prepare_us),
        fulfil_us: Percentiles::of(&fulfil_us),
        payment_us: Percentiles::of(&payment_us),
        server_cpu_us_per_payment: per(server_after.cpu_us - server_before.cpu_us, payments),
        client_cpu_us_per_payment: per(client_after.cpu_us - client_before.cpu_us, payments),
        written_bytes_per_payment: device_before
            .zip(device_after)
            .map(|(before, after)| per(after.saturating_sub(before), payments)),
        dirtied_bytes_per_payment: per(server_after.dirtied_bytes - server_before.dirtied_bytes, payments),
        server_rss_peak_bytes: server_after.rss_peak_bytes,
        frames,
        records_per_frame: per(records, frames),
        stage_us_per_payment: stages
            .into_iter()
            .map(|(stage, nanos)| (stage, per(nanos, payments) / 1e3))
            .collect(),
        disk,
        load_average,
    })
}

fn run_bins(options: &BenchOptions, payers: Payers, bar: &ProgressBar) -> Result<BinsReport, BenchError> {
    let mut rates = Vec::new();
    for number in 0..options.runs {
        bar.set_message("bin processor");
        bar.tick();
        let seed = options.seed.wrapping_add(u64::from(number));
        let rate = bins::messages_per_second(options.accounts, payers, BINS_MESSAGES, seed);
        rates.push(
            rate.ok_or_else(|| BenchError::Refused("a message of the bin processor was refused".to_owned()))?,
        );
        bar.inc(1);
    }
    Ok(BinsReport {
        payers,
        accounts: options.accounts,
        messages_per_frame: bins::FRAME_MESSAGES,
        median_messages_per_second: median(&rates),
        messages_per_second: rates,
    })
}

/// Where the data of the runs lies.
pub(crate) enum Directory {
    Named(PathBuf),
    Temporary(TempDir),
}

impl Directory {
    /// The named one; else one in `./target` if that exists, else one in the system's place for such.
    pub(crate) fn open(named: Option<&Path>) -> Result<Directory, BenchError> {
        if let Some(path) = named {
            std::fs::create_dir_all(path).map_err(BenchError::io("create", path))?;
            return Ok(Directory::Named(path.to_owned()));
        }
        let target = PathBuf::from("target");
        let parent = if target.is_dir() { target } else { std::env::temp_dir() };
        let made = tempfile::Builder::new().prefix("holdfast-bench-").tempdir_in(&parent);
        made.map(Directory::Temporary).map_err(BenchError::io("create a directory in", parent))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Directory::Named(path) => path,
            Directory::Temporary(directory) => directory.path(),
        }
    }

    pub(crate) fn close(self, keep: bool) -> Result<(), BenchError> {
        let Directory::Temporary(directory) = self else { return Ok(()) };
        if keep {
            eprintln!("the data is in {}", directory.keep().display());
            return Ok(());
        }
        let path = directory.path().to_owned();
        directory.close().map_err(BenchError::io("remove", path))
    }
}
