//! What a long history does to a hub: one server on one data directory, batched payments in windows, restarts after `kill -9`
//! in mid-load, with many open holds too, and many holds that expire at once.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `session` | the data directory, its server of the moment, what the books must say |
//! | `watch` | looks at the server many times a second: checkpoints, holds, memory |
//! | `windows`, `in_turns`, `restart`, `expiry` | the parts of a run, in this order |

mod expiry;
mod in_turns;
mod restart;
mod session;
mod watch;
mod windows;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_client::options::BATCH_RECORDS_MAX;
use holdfast_load::bar::Bar;
use holdfast_load::bench::{DataPlace, Directory, run_directory, runtime};
use holdfast_load::figures::{median, per};
use holdfast_load::machine::must_be_a_disk;
use holdfast_load::options::{ACCOUNTS_DEFAULT, ACCOUNTS_MAX, CONNECTIONS_MAX, check_range, parse_count};
use holdfast_load::report::{Report, Row, grouped_count, millis};
use holdfast_load::{LoadError, Loaded, probe};

use self::restart::Restart;
use self::session::Session;
use self::windows::{Found, Window, warm_mean};

/// The most payments: beyond, the disk is the question.
const PAYMENTS_MAX: u64 = 1_000_000_000;
/// The most holds that are open at once.
const OPEN_HOLDS_MAX: u64 = 10_000_000;
/// Open holds unless told otherwise, at most; with fewer than ten million payments a tenth of them.
const OPEN_HOLDS_DEFAULT: u64 = 1_000_000;
/// Payments of a window, at most.
const WINDOW_PAYMENTS_MAX: u64 = 1_000_000;
/// Windows of a run that is too short for windows of that size.
const WINDOWS_MIN: u64 = 10;
/// How long payments and holds of a run wait for their fulfil: a slow restart must not end them.
const LONG_EXPIRY: Duration = Duration::from_secs(3_600);
/// Parts of a run beside the windows: payments in turns, three restarts and the expiry.
const OTHER_PARTS: u64 = 5;
/// Where the hub with little history lies, beside the other's data.
const YOUNG: &str = "young";
/// The pace of payments beside the mass expiry, against the median of the windows: well below what the server can do,
/// so that lateness is a stall and not a queue, and the expiry has a share to take.
const EXPIRY_PACE: f64 = 1.0 / 3.0;

/// A long history on one data directory: windows of payments, restarts after kill -9, many open holds, and holds that expire
/// at once. It has one run.
#[derive(Debug, Clone, clap::Args)]
pub struct DepthBench {
    /// Payments of all windows together, such as 10m
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    pub payments: u64,
    /// Holds that are open while the server is killed, and that expire at once [default: a tenth of the payments, at most 1m]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub open_holds: Option<u64>,
    /// Let as many holds expire at once under load
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub expire: bool,
    /// Records of a request
    #[arg(long, default_value_t = 1_024)]
    pub batch: usize,
    /// Connections, with one request under way on each
    #[arg(long, default_value_t = 6)]
    pub connections: usize,
    /// Accounts that payments are spread over
    #[arg(long, default_value_t = ACCOUNTS_DEFAULT)]
    pub accounts: u32,
    /// From where ids and amounts come
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the data lies.
    #[command(flatten)]
    pub place: DataPlace,
}

impl DepthBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--payments", self.payments, WINDOWS_MIN, PAYMENTS_MAX)?;
        check_range("--open-holds", self.holds(), 1, OPEN_HOLDS_MAX)?;
        check_range("--batch", self.batch as u64, 1, BATCH_RECORDS_MAX as u64)?;
        check_range("--connections", self.connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--accounts", self.accounts.into(), 2, ACCOUNTS_MAX.into())
    }

    /// Holds that are open at once.
    fn holds(&self) -> u64 {
        self.open_holds.unwrap_or_else(|| (self.payments / WINDOWS_MIN).clamp(1, OPEN_HOLDS_DEFAULT))
    }

    /// Payments of every window but perhaps the last.
    fn window_payments(&self) -> u64 {
        (self.payments / WINDOWS_MIN).clamp(1, WINDOW_PAYMENTS_MAX)
    }

    /// The numbers of the payments of each window.
    fn windows(&self) -> Vec<Range<u64>> {
        let size = self.window_payments();
        let starts = (0..self.payments.div_ceil(size)).map(|window| window * size);
        starts.map(|start| start..(start + size).min(self.payments)).collect()
    }
}

/// Runs the windows, the restarts and the expiry. A run that fails after the first window still has its figures, and says why
/// it ended.
///
/// # Errors
/// If there are no figures.
pub fn bench_depth(program: &Path, options: &DepthBench) -> Result<Loaded, LoadError> {
    options.check()?;
    let directory = Directory::open(options.place.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let place = run_directory(directory.path())?;
    let title = format!(
        "{} two-phase payments on one data directory, batches of {}, {} connections, {} accounts, every answer after fdatasync",
        grouped_count(options.payments),
        grouped_count(options.batch as u64),
        options.connections,
        grouped_count(options.accounts.into()),
    );
    let mut report = Report::measured(title, place.path());
    let before = probe(place.path())?;
    let bar = Bar::of(options.windows().len() as u64 + OTHER_PARTS);
    let mut run = Run { program, options, bar, found: Found::default(), restarts: Vec::new() };
    let mut parts = Report::default();
    let ran = runtime()?.block_on(run.measure(place.path(), &mut parts));
    run.bar.clear();
    if ran.is_err() && run.found.windows.is_empty() {
        let _kept: PathBuf = place.keep();
        return ran.map(|()| Loaded { report, wrong: None });
    }
    run.tell(&mut report);
    report.append(parts);
    let after = ran.is_ok().then(|| probe(place.path())).transpose()?;
    let disks = [("before", Some(before)), ("afterwards", after)];
    let disks =
        disks.iter().filter_map(|(when, disk)| Some(Row::of("when", *when).and(disk.as_ref()?.row())));
    report.table("the raw disk, write + fdatasync on zeros; microseconds:", disks);
    let keep = ran.is_err() || options.place.keep;
    if keep {
        // The server's messages are worth more than the space.
        eprintln!("the data is in {}", place.keep().display());
    }
    directory.close(keep)?;
    Ok(Loaded { report, wrong: ran.err().map(LoadError::of("the run ended early")) })
}

struct Run<'a> {
    program: &'a Path,
    options: &'a DepthBench,
    bar: Bar,
    found: Found,
    restarts: Vec<Restart>,
}

impl Run<'_> {
    async fn measure(&mut self, place: &Path, report: &mut Report) -> Result<(), LoadError> {
        let mut session = Session::open(self.program, self.options, place).await?;
        windows::run(&mut session, &self.bar, &mut self.found).await?;
        self.bar.next("in turns with a young hub");
        let young = place.join(YOUNG);
        std::fs::create_dir(&young).map_err(LoadError::io("create", &young))?;
        report.note(in_turns::run(&mut session, &young).await?);
        session.check_books("after the turns").await?;
        self.bar.next("kill -9 in mid-load");
        self.restarts.push(restart::kill_in_mid_load(&mut session, "no open holds").await?);
        self.bar.next("kill -9 with open holds");
        let (restarted, checkpoints) = restart::kill_with_open_holds(&mut session).await?;
        self.restarts.push(restarted);
        let checkpoints = checkpoints.map(|checkpoints| checkpoints.row("while holds are placed"));
        report.table("requests beside checkpoints; milliseconds:", checkpoints);
        if self.options.expire {
            self.bar.next("mass expiry");
            let rates: Vec<f64> = self.found.windows.iter().map(Window::rate).collect();
            expiry::run(&mut session, median(&rates) * EXPIRY_PACE, report).await?;
        }
        self.bar.next("clean stop");
        self.restarts.push(restart::stop_and_start(&mut session).await?);
        session.stop()
    }

    /// The windows, what a payment came to after the first of them, and the restarts.
    fn tell(&self, report: &mut Report) {
        let Found { windows, checkpoints, looks } = &self.found;
        let table = report.table(
            "per window; microseconds of CPU or of the stage and bytes per payment up to the next window, milliseconds of a \
             request, MiB:",
            windows.iter().map(Window::row),
        );
        let after_first = [
            ("process", warm_mean(windows, |window| Some(window.costs.dirtied_bytes))),
            ("device", warm_mean(windows, |window| window.costs.written_bytes)),
        ];
        for (by, bytes) in after_first {
            let bytes = bytes.map_or_else(|| "not seen".to_owned(), |bytes| format!("{bytes:.0} B"));
            table.note(format!("written per payment after the first window, by the {by}: {bytes}"));
        }
        let peaks =
            self.restarts.iter().flat_map(|restart| [restart.rss_peak_before_bytes, restart.rss_peak_bytes]);
        let of_windows = windows.iter().map(|window| window.costs.rss_peak_bytes).max().unwrap_or(0);
        table.note(format!(
            "memory of the process: {:.0} MB in all windows, {:.0} MB with restarts, holds and expiry",
            per(of_windows, 1_000_000),
            per(peaks.fold(of_windows, u64::max), 1_000_000)
        ));
        if let Some(slowest) = checkpoints.as_ref().and_then(|checkpoints| checkpoints.slowest()) {
            let p99 = median(&windows.iter().map(|window| millis(window.request.p99)).collect::<Vec<_>>());
            table.note(format!(
                "slowest request beside a checkpoint: {slowest:.1} ms; the p99 of a window is {p99:.1} ms"
            ));
        }
        table.note(format!(
            "beside it {} looks at /metrics of {} µs, {:.0} µs of the client's CPU each",
            looks.looks, looks.mean_us, looks.cpu_us_each
        ));
        let checkpoints = checkpoints.as_ref().map(|checkpoints| checkpoints.row("in the windows"));
        report.table("requests beside checkpoints; milliseconds:", checkpoints);
        report.table(
            "restarts; milliseconds from the start of the program, peaks of memory:",
            self.restarts.iter().map(Restart::row),
        );
        report.table(
            "ids asked for again after each kill:",
            self.restarts.iter().flat_map(Restart::sample_rows),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(payments: u64) -> DepthBench {
        DepthBench {
            payments,
            open_holds: None,
            expire: true,
            batch: 1_024,
            connections: 6,
            accounts: 2,
            seed: 1,
            place: DataPlace::default(),
        }
    }

    #[test]
    fn windows_cover_every_payment_once() {
        for (payments, count, last) in [(200_000, 10, 20_000), (10_000_000, 10, 1_000_000), (25, 13, 1)] {
            let windows = options(payments).windows();
            assert_eq!(windows.len(), count, "{payments}");
            assert_eq!(windows[0].start, 0);
            assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
            let end = windows.last().expect("not empty");
            assert_eq!((end.end, end.end - end.start), (payments, last));
        }
        assert_eq!(options(25_500_000).windows().len(), 26);
    }

    #[test]
    fn a_million_holds_from_ten_million_payments_on() {
        assert_eq!(options(200_000).holds(), 20_000);
        assert_eq!(options(10_000_000).holds(), 1_000_000);
        assert_eq!(options(50_000_000).holds(), 1_000_000);
        assert_eq!(DepthBench { open_holds: Some(7), ..options(50_000_000) }.holds(), 7);
        assert!(options(9).check().is_err());
    }
}
