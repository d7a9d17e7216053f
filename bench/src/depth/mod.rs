//! `holdfast bench transfers --payments 10m`: what a long history does to a hub. One server on one data directory,
//! batched payments in windows, restarts after `kill -9` in mid-load, with many open holds too, and many holds that
//! expire at once.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | what is asked for, bounds, windows |
//! | `session` | the data directory, its server of the moment, what the books must say |
//! | `flow` | batches in a closed loop, every request remembered |
//! | `watch` | looks at the server many times a second: checkpoints, holds, memory |
//! | `windows`, `in_turns`, `restart`, `expiry` | the parts of a run, in this order |
//! | `verdict` | the musts |
//! | `report`, `table` | figures as data and for people |

mod expiry;
mod flow;
mod in_turns;
pub mod options;
pub mod report;
mod restart;
mod session;
mod table;
mod verdict;
mod watch;
mod windows;

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;

pub use options::DepthOptions;
pub use report::DepthReport;

use self::report::Asked;
use self::session::Session;
use self::watch::LookCost;
use crate::BenchError;
use crate::bench::{Directory, progress_bar};
use crate::disk;
use crate::machine::{Machine, load_average, must_be_a_disk};
use crate::payments::now_millis;
use crate::report::median;

/// Parts of a run besides the windows: payments in turns, three restarts and the expiry.
const OTHER_PARTS: u64 = 5;
/// Where the hub with little history lies, beside the other's data.
const YOUNG: &str = "young";
/// The pace of payments beside the mass expiry, against the median of the windows: well below what the server can do,
/// so that lateness is a stall and not a queue, and the expiry has a share to take.
const EXPIRY_PACE: f64 = 1.0 / 3.0;

/// Runs the windows, the restarts and the expiry. A run that fails after the first window still has its figures: the
/// report says why it ended.
///
/// # Errors
/// If there are no figures.
pub fn bench_depth(options: &DepthOptions) -> Result<DepthReport, BenchError> {
    options.check()?;
    let directory = Directory::open(options.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let place = tempfile::Builder::new().prefix("run-").tempdir_in(directory.path());
    let place = place.map_err(BenchError::io("create a directory in", directory.path()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    let mut report = DepthReport {
        version: env!("CARGO_PKG_VERSION"),
        date: date(),
        machine: Machine::of(place.path()),
        load_average_before: load_average(),
        asked: Asked {
            payments: options.payments,
            window_payments: options.window_payments(),
            records_per_request: options.records(),
            connections: options.connections(),
            accounts: options.accounts,
            open_holds: options.holds(),
            expire: options.expire,
            seed: options.seed,
        },
        disk_before: disk::probe(place.path())?,
        disk_after: None,
        windows: Vec::new(),
        checkpoints: None,
        checkpoints_with_holds: None,
        looks: LookCost::default(),
        in_turns: None,
        restarts: Vec::new(),
        expiry: None,
        verdicts: Vec::new(),
        failed: None,
    };
    let bar = progress_bar(options.progress, options.windows().len() as u64 + OTHER_PARTS);
    let ran = runtime.block_on(run(options, place.path(), &mut report, &bar));
    drop(runtime);
    bar.finish_and_clear();
    report.verdicts = verdict::verdicts(&report);
    let failed = ran.is_err();
    match ran {
        Ok(()) => report.disk_after = Some(disk::probe(place.path())?),
        Err(error) if report.windows.is_empty() => {
            let _kept: PathBuf = place.keep();
            return Err(error);
        }
        Err(error) => report.failed = Some(told(&error)),
    }
    if failed || options.keep {
        // The server's messages are worth more than the space.
        eprintln!("the data is in {}", place.keep().display());
    }
    directory.close(failed || options.keep)?;
    Ok(report)
}

async fn run(
    options: &DepthOptions,
    place: &Path,
    report: &mut DepthReport,
    bar: &ProgressBar,
) -> Result<(), BenchError> {
    let mut session = Session::open(options, place).await?;
    windows::run(&mut session, report, bar).await?;
    let next = |what: &'static str| {
        bar.set_message(what);
        bar.tick();
    };
    next("in turns with a young hub");
    let young = place.join(YOUNG);
    std::fs::create_dir(&young).map_err(BenchError::io("create", &young))?;
    report.in_turns = Some(in_turns::run(&mut session, &young).await?);
    session.check_books("after the turns").await?;
    bar.inc(1);
    next("kill -9 in mid-load");
    report.restarts.push(restart::kill_in_mid_load(&mut session, "no open holds").await?);
    bar.inc(1);
    next("kill -9 with open holds");
    let (restarted, checkpoints) = restart::kill_with_open_holds(&mut session).await?;
    report.restarts.push(restarted);
    report.checkpoints_with_holds = checkpoints;
    bar.inc(1);
    if options.expire {
        next("mass expiry");
        let rates: Vec<f64> = report.windows.iter().map(|window| window.payments_per_second).collect();
        report.expiry = Some(expiry::run(&mut session, median(&rates) * EXPIRY_PACE).await?);
    }
    bar.inc(1);
    next("clean stop");
    report.restarts.push(restart::stop_and_start(&mut session).await?);
    bar.inc(1);
    session.stop()
}

/// An error with its reasons, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Now, in UTC.
fn date() -> String {
    let now = jiff::Timestamp::from_millisecond(now_millis());
    now.map_or_else(|_| "unknown".to_owned(), |now| format!("{now:.0}"))
}
