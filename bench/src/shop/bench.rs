//! `holdfast bench checkout`: each run on a new server with a shop of its own, beside the raw disk at that moment. A checkout
//! that is neither paid nor failed, and books that do not balance, end the benchmark.

use std::path::Path;

use holdfast_client::{Client, ClientOptions};

use super::batches::{self, Driven};
use super::goals::goals;
use super::goods::{Goods, Head};
use super::load;
use super::options::{
    BATCH_CONNECTIONS, BATCH_RECORDS, BENCH_ROWS, CheckoutBenchOptions, CheckoutLoadOptions,
    SINGLES_IN_FLIGHT,
};
use super::rebuild::rebuild;
use super::report::{Case, CaseReport, CheckoutReport, Kind, Run, Way};
use crate::BenchError;
use crate::bench::{Directory, on_new_server, progress_bar};
use crate::child::Server;
use crate::disk::Disk;
use crate::line::Line;
use crate::machine::{Machine, load_average, must_be_a_disk};
use crate::meter::{Counters, Usage, device_written_bytes};
use crate::options::{CALL_DEADLINE, IN_FLIGHT_MAX, Pace, SINGLE_CONNECTIONS_DEFAULT};
use crate::report::{Percentiles, median, per};

/// Of a hundred orders, how many fail in the case that is about that.
const FAILING_PERCENT: u8 = 20;

/// Measures what the options ask for.
///
/// # Errors
/// If the server does not start, a checkout comes to no end, or the books do not balance.
pub fn bench_checkout(options: &CheckoutBenchOptions) -> Result<CheckoutReport, BenchError> {
    options.check()?;
    let directory = Directory::open(options.data.as_deref())?;
    must_be_a_disk(directory.path())?;
    let cases = cases(options);
    let bar = progress_bar(options.progress, (cases.len() as u64 + 1) * u64::from(options.runs));
    let mut report = CheckoutReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(directory.path()),
        cases: Vec::new(),
        rebuild: None,
        goals: Vec::new(),
    };
    for case in cases {
        bar.set_message(case.name());
        let full = report.cases.iter().find(|full| Case { half_load: true, ..full.case } == case);
        let rate = full.filter(|_| case.half_load).map(|full| full.median_checkouts_per_second / 2.0);
        let mut runs = Vec::new();
        for _ in 0..options.runs {
            bar.tick();
            runs.push(run(options, &case, rate, directory.path())?);
            bar.inc(1);
        }
        let rates: Vec<f64> = runs.iter().map(|run| run.checkouts_per_second).collect();
        let median_checkouts_per_second = median(&rates);
        report.cases.push(CaseReport { name: case.name(), case, median_checkouts_per_second, runs });
    }
    if options.parts.rebuild {
        bar.set_message("rebuild");
        bar.tick();
        report.rebuild = Some(rebuild(options.outcomes, options.runs)?);
    }
    bar.finish_and_clear();
    report.goals = goals(&report);
    directory.close(options.keep)?;
    Ok(report)
}

/// Those at half load come after those whose half they are.
fn cases(options: &CheckoutBenchOptions) -> Vec<Case> {
    let batches = |kind, half_load| Case {
        way: Way::Batches { records: BATCH_RECORDS },
        kind,
        half_load,
        connections: BATCH_CONNECTIONS,
        checkouts: options.checkouts,
    };
    let http = |half_load| Case {
        way: Way::Http,
        kind: Kind::Many,
        half_load,
        connections: options.connections,
        checkouts: options.http_checkouts,
    };
    let singles = Case {
        way: Way::Singles { in_flight: SINGLES_IN_FLIGHT },
        connections: SINGLE_CONNECTIONS_DEFAULT,
        ..batches(Kind::Many, false)
    };
    let mut cases = Vec::new();
    if options.parts.batched {
        cases.extend([Kind::Many, Kind::Hot, Kind::Failing].map(|kind| batches(kind, false)));
        cases.extend([batches(Kind::Many, true), singles]);
    }
    if options.parts.http {
        cases.extend([false, true].map(http));
    }
    cases
}

fn goods(case: &Case) -> Goods {
    Goods {
        users: BENCH_ROWS,
        items: if case.kind == Kind::Hot { 1 } else { BENCH_ROWS },
        orders: case.checkouts,
        failing_percent: if case.kind == Kind::Failing { FAILING_PERCENT } else { 0 },
    }
}

fn run(
    options: &CheckoutBenchOptions,
    case: &Case,
    rate: Option<f64>,
    directory: &Path,
) -> Result<Run, BenchError> {
    on_new_server(&options.program, directory, options.keep, async |server, place, disk| {
        run_once(case, rate, server, place, disk).await
    })
}

async fn run_once(
    case: &Case,
    rate: Option<f64>,
    server: &Server,
    place: &Path,
    disk: Disk,
) -> Result<Run, BenchError> {
    let (goods, head) = (goods(case), Head::of(&server.address, None));
    goods.fill(&mut Line::open(&server.address).await?, &head).await?;
    let client = Client::connect(ClientOptions {
        connections: if case.way == Way::Http { 1 } else { case.connections },
        calls_max: IN_FLIGHT_MAX,
        deadline: CALL_DEADLINE,
        attempt_max: CALL_DEADLINE,
        ..ClientOptions::to(&server.address)
    });
    let client = client.await.map_err(BenchError::client("connecting to the server"))?;
    let counters = Counters::read(&client).await?;
    let usage = || (Usage::of(server.pid()), Usage::of(std::process::id()), device_written_bytes(place));
    let before = usage();
    let driven = drive(case, rate, &client, &server.address, &head).await?;
    let after = usage();
    let counted = Counters::read(&client).await?;
    let load_average = load_average();
    let decided = |verdict: &str| {
        counted.since(&counters, &format!("holdfast_checkout_decisions_total{{verdict=\"{verdict}\"}}"))
    };
    let Driven { took, paid, failed, latency_us } = driven;
    if (decided("paid"), decided("failed")) != (paid, failed) {
        let (by_paid, by_failed) = (decided("paid"), decided("failed"));
        let said =
            format!("{paid} paid and {failed} failed were seen, {by_paid} and {by_failed} were decided");
        return Err(BenchError::Books(said));
    }
    let books = load::count(&goods, &server.address, &head).await?;
    if let Some(trouble) = books.trouble(paid, 0) {
        return Err(BenchError::Books(trouble));
    }
    let (frames, records) = (counted.frames_since(&counters), counted.records_since(&counters));
    let checkouts = case.checkouts;
    let cpu = |before: Usage, after: Usage| per(after.cpu_us.saturating_sub(before.cpu_us), checkouts);
    let stages = counted.stages_since(&counters).into_iter();
    #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
    let checkouts_per_second = checkouts as f64 / took.as_secs_f64();
    Ok(Run {
        seconds: took.as_secs_f64(),
        checkouts_per_second,
        rate,
        paid,
        failed,
        latency_us: Percentiles::of(&latency_us),
        server_cpu_us_per_checkout: cpu(before.0, after.0),
        client_cpu_us_per_checkout: cpu(before.1, after.1),
        written_bytes_per_checkout: before
            .2
            .zip(after.2)
            .map(|(before, after)| per(after.saturating_sub(before), checkouts)),
        server_rss_peak_bytes: after.0.rss_peak_bytes,
        frames,
        records_per_frame: per(records, frames),
        stage_us_per_checkout: stages.map(|(stage, nanos)| (stage, per(nanos, checkouts) / 1e3)).collect(),
        books,
        disk,
        load_average,
    })
}

async fn drive(
    case: &Case,
    rate: Option<f64>,
    client: &Client,
    address: &str,
    head: &Head,
) -> Result<Driven, BenchError> {
    let pace = |each: usize| rate.map_or(Pace::Closed, |rate| Pace::Open { rate: per_second(rate, each) });
    match case.way {
        Way::Batches { records } => {
            batches::in_batches(client, case.checkouts, records, case.connections, pace(records)).await
        }
        Way::Singles { in_flight } => batches::singly(client, case.checkouts, in_flight).await,
        Way::Http => {
            let options = CheckoutLoadOptions {
                pace: pace(1),
                in_flight: case.connections,
                seconds: Some(crate::options::LOAD_SECONDS_MAX),
                checkouts: Some(case.checkouts),
                orders: case.checkouts,
                ..CheckoutLoadOptions::to(address)
            };
            let (tally, took) = load::drive(&options, head).await?;
            let failed = tally.failed.values().sum();
            if tally.unknown() > 0 || tally.paid + failed != case.checkouts {
                let (refused, errors) = (&tally.refused, &tally.errors);
                return Err(BenchError::Refused(format!(
                    "{} of {} checkouts came to an end; refused {refused:?}, without an answer {errors:?}",
                    tally.paid + failed,
                    case.checkouts
                )));
            }
            Ok(Driven { took, paid: tally.paid, failed, latency_us: tally.checkout_us })
        }
    }
}

/// Requests of `each` records per second, at least one.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate"
)]
fn per_second(rate: f64, each: usize) -> u64 {
    (rate / each as f64).round().max(1.0) as u64
}
