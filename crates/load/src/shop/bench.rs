//! `holdfast bench checkout`: each run on a new hub with a shop of its own, beside the raw disk at that moment. A checkout
//! that is neither paid nor failed, and books that do not balance, end the benchmark.

use std::path::Path;

use holdfast_client::Client;

use super::batches::{self, Driven};
use super::goods::Goods;
use super::load::{self, CheckoutLoad, ROWS_MAX};
use crate::LoadError;
use crate::bench::{Bench, Case as Measured, DataPlace, Hub, Run, tell};
use crate::figures::per;
use crate::line::{Head, Line};
use crate::meter::Reading;
use crate::options::{
    HTTP_CONNECTIONS_DEFAULT, LINES_MAX, LOAD_SECONDS_MAX, RUNS_DEFAULT, RUNS_MAX,
    SINGLE_CONNECTIONS_DEFAULT, check_range, parse_count,
};
use crate::report::{Report, Row};

/// Users and items of the bench's shops.
pub const BENCH_ROWS: u64 = 10_000;
/// Records of a batch.
const BATCH_RECORDS: usize = 1_024;
/// Connections that carry batches.
const BATCH_CONNECTIONS: usize = 6;
/// Single checkouts through the client that are under way at once.
const SINGLES_IN_FLIGHT: usize = 1_000;
/// Of a hundred orders, how many fail in the case that is about that.
const FAILING_PERCENT: u8 = 20;

/// Checkouts against hubs of its own: through the client, over HTTP, at half load, failing, and with one hot item.
///
/// Every run has a new hub with a shop of its own, and the raw disk is measured before it. A checkout that comes to no
/// end, or books that do not balance, fail the run.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckoutBench {
    /// What is measured
    #[arg(long, value_enum, default_value = "all")]
    pub part: Part,
    /// Checkouts of each case through the client, such as 500k
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 500_000)]
    pub checkouts: u64,
    /// Checkouts of each case over HTTP
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value_t = 100_000)]
    pub http_checkouts: u64,
    /// Runs of each case; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    pub runs: u32,
    /// Connections over HTTP, each with one request under way
    #[arg(long, default_value_t = HTTP_CONNECTIONS_DEFAULT)]
    pub connections: usize,
    /// Where the data lies.
    #[command(flatten)]
    pub place: DataPlace,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Through the client: in batches, one hot item, some failing, half load, single calls
    Batched,
    /// One request each: as fast as it goes, and at half of that
    Http,
    /// All of these
    All,
}

/// How checkouts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Requests of many records through the client.
    Batches,
    /// Single calls through the client, which coalesces them.
    Singles,
    /// One request each.
    Http,
}

/// What is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Any of many items.
    Many,
    /// Always the same item.
    Hot,
    /// Any of many items; of a hundred orders some fail.
    Failing,
}

/// One line of the benchmark.
#[derive(Debug, Clone, Copy)]
struct Case {
    way: Way,
    kind: Kind,
    connections: usize,
    checkouts: u64,
    /// Checkouts in a second, each request at its own place in time; `None`: as fast as they go.
    rate: Option<f64>,
}

impl Case {
    fn name(&self) -> String {
        let way = match self.way {
            Way::Batches => format!("batches of {BATCH_RECORDS}, {} connections", self.connections),
            Way::Singles => format!("singles through the client, {SINGLES_IN_FLIGHT} in flight"),
            Way::Http => format!("HTTP, {} connections", self.connections),
        };
        let kind = match self.kind {
            Kind::Many => String::new(),
            Kind::Hot => ", one hot item".to_owned(),
            Kind::Failing => format!(", {FAILING_PERCENT} % failing"),
        };
        format!("{way}{kind}{}", if self.rate.is_some() { ", half load" } else { "" })
    }

    fn goods(&self) -> Goods {
        Goods {
            users: BENCH_ROWS,
            items: if self.kind == Kind::Hot { 1 } else { BENCH_ROWS },
            orders: self.checkouts,
            failing_percent: if self.kind == Kind::Failing { FAILING_PERCENT } else { 0 },
        }
    }

    /// Requests of `each` checkouts per second, at least one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate")]
    fn requests_per_second(&self, each: usize) -> Option<u64> {
        self.rate.map(|rate| (rate / per(each as u64, 1)).round().max(1.0) as u64)
    }
}

impl CheckoutBench {
    fn check(&self) -> Result<(), LoadError> {
        check_range("--checkouts", self.checkouts, 1, ROWS_MAX)?;
        check_range("--http-checkouts", self.http_checkouts, 1, ROWS_MAX)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--connections", self.connections as u64, 1, LINES_MAX as u64)
    }

    /// As fast as they go; the first of each way is followed by the same at half of its rate.
    fn cases(&self) -> Vec<Case> {
        let batches = |kind| Case {
            way: Way::Batches,
            kind,
            connections: BATCH_CONNECTIONS,
            checkouts: self.checkouts,
            rate: None,
        };
        let singles =
            Case { way: Way::Singles, connections: SINGLE_CONNECTIONS_DEFAULT, ..batches(Kind::Many) };
        let http = Case {
            way: Way::Http,
            connections: self.connections,
            checkouts: self.http_checkouts,
            ..batches(Kind::Many)
        };
        let mut cases = Vec::new();
        if self.part != Part::Http {
            cases.extend([Kind::Many, Kind::Hot, Kind::Failing].map(batches));
            cases.push(singles);
        }
        if self.part != Part::Batched {
            cases.push(http);
        }
        cases
    }
}

/// Measures what the options ask for with this program.
///
/// # Errors
/// If the hub does not start, a checkout comes to no end, or the books do not balance.
pub fn bench_checkout(program: &Path, options: &CheckoutBench) -> Result<Report, LoadError> {
    options.check()?;
    let cases = options.cases();
    let has_half_load = |case: &Case| case.kind == Kind::Many && case.way != Way::Singles;
    let lines = cases.len() + cases.iter().filter(|case| has_half_load(case)).count();
    let bench = Bench::open(program, &options.place, options.runs, lines)?;
    let mut report = Report::measured("checkouts of two lines", bench.directory());
    let measure = |case: Case| bench.case(case.name(), async |hub| run(&case, hub).await);
    let mut found: Vec<(Case, Measured)> = Vec::new();
    for case in cases {
        let full = measure(case)?;
        let rate = full.median_rate() / 2.0;
        found.push((case, full));
        if has_half_load(&case) {
            let half = Case { rate: Some(rate), ..case };
            found.push((half, measure(half)?.at_a_given_rate()));
        }
    }
    let rate = |kind| {
        let is_it = |case: &Case| case.way == Way::Batches && case.kind == kind && case.rate.is_none();
        found.iter().find(|(case, _)| is_it(case)).map(|(_, found)| found.median_rate())
    };
    let notes = rate(Kind::Many).zip(rate(Kind::Hot).zip(rate(Kind::Failing))).map(|(many, (hot, failing))| {
        let (hot, failing) = (hot / many, many / failing);
        format!("one hot item: {hot:.2} times the rate of many; {FAILING_PERCENT} % failing: {failing:.2} times the time of none")
    });
    let found: Vec<Measured> = found.into_iter().map(|(_, found)| found).collect();
    tell(&mut report, "checkouts", "every answer after fdatasync, of a request or call", &found);
    notes.into_iter().for_each(|note| report.note(note));
    bench.close()?;
    Ok(report)
}

async fn run(case: &Case, hub: Hub<'_>) -> Result<Run, LoadError> {
    let (goods, address) = (case.goods(), &hub.server.address);
    let head = Head::of(address, None);
    goods.fill(&mut Line::open(address).await?, &head).await?;
    let client = hub.client(if case.way == Way::Http { 1 } else { case.connections }).await?;
    let before = Reading::take(&client, hub.server.pid(), hub.place).await?;
    let Driven { took, paid, failed, latency } = drive(case, &client, address, &head).await?;
    let after = Reading::take(&client, hub.server.pid(), hub.place).await?;
    let decided = |verdict: &str| {
        after.counted_since(&before, &format!("holdfast_checkout_decisions_total{{verdict=\"{verdict}\"}}"))
    };
    let by_hub = (decided("paid"), decided("failed"));
    if by_hub != (paid, failed) {
        let (by_paid, by_failed) = by_hub;
        let said =
            format!("{paid} paid and {failed} failed were seen, {by_paid} and {by_failed} were decided");
        return Err(LoadError::Books(said));
    }
    if let Some(trouble) = load::count(&goods, address, &head).await?.trouble(paid, 0) {
        return Err(LoadError::Books(trouble));
    }
    Ok(Run {
        took,
        rounds: case.checkouts,
        latencies: vec![(
            if case.way == Way::Batches { "request" } else { "checkout" },
            latency.percentiles(),
        )],
        costs: after.costs_since(&before, case.checkouts).row(),
        more: Row::default().count("paid", paid).count("failed", failed),
        ..Run::default()
    })
}

async fn drive(case: &Case, client: &Client, address: &str, head: &Head) -> Result<Driven, LoadError> {
    match case.way {
        Way::Batches => {
            let rate = case.requests_per_second(BATCH_RECORDS);
            batches::in_batches(client, case.checkouts, BATCH_RECORDS, case.connections, rate).await
        }
        Way::Singles => batches::singly(client, case.checkouts, SINGLES_IN_FLIGHT).await,
        Way::Http => {
            let mut options = CheckoutLoad::to(address, case.goods());
            options.pacing.rate = case.requests_per_second(1);
            options.pacing.in_flight = case.connections;
            options.pacing.seconds = Some(LOAD_SECONDS_MAX);
            options.checkouts = Some(case.checkouts);
            let load::Driven { tally, took, .. } = load::drive(&options, head).await?;
            let failed = tally.failed.total();
            if tally.unknown() > 0 || tally.paid + failed != case.checkouts {
                let (refused, errors) = (&tally.refused, &tally.errors);
                return Err(LoadError::Refused(format!(
                    "{} of {} checkouts came to an end; refused {refused:?}, without an answer {errors:?}",
                    tally.paid + failed,
                    case.checkouts
                )));
            }
            Ok(Driven { took, paid: tally.paid, failed, latency: tally.checkout_us })
        }
    }
}
