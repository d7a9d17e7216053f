//! Checkouts through all hops of a node before a real Kafka and PostgreSQL, and beside them, in the same run, what they replace:
//! one transaction for each checkout on the same server.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `alone` | one transaction per checkout, without messages |
//! | `takeover` | a node that finds a million outcomes in Kafka |

mod alone;
mod takeover;

use std::path::Path;

use anyhow::ensure;
use holdfast_load::LoadError;
use holdfast_load::bar::Bar;
use holdfast_load::bench::{Case, Run, tell};
use holdfast_load::line::{Head, Line};
use holdfast_load::machine::load_average;
use holdfast_load::options::{LINES_MAX, LOAD_SECONDS_MAX, RUNS_DEFAULT, RUNS_MAX, check_range, parse_count};
use holdfast_load::report::{Report, grouped, grouped_count, millis};
use holdfast_load::shop::{BENCH_ROWS, CheckoutLoad, Goods, ROWS_MAX, Tally, count, drive};

use self::alone::alone;
use self::takeover::take_over;
use crate::database::town::Town;
use crate::database::{Servers, half};
use crate::rebuild::OUTCOMES_MAX;

/// The topics whose handlers are told of.
const HOPS: [&str; 4] = ["orders", "pay", "stock", "outcomes"];
/// Checkouts before the clock runs: plans are settled, pages in memory, and changed once since the checkpoint.
const WARM_UP: u64 = 10_000;
/// What is measured beside the runs, for the bar.
const OTHER_PARTS: u64 = 3;

/// Checkouts over HTTP through all hops of a node before Kafka and PostgreSQL.
///
/// Topics and databases are the run's own and are removed again: checkouts as fast as they go, half load, one transaction per
/// checkout in one database beside them, and a node that finds a million outcomes when it starts.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckoutBench {
    #[command(flatten)]
    servers: Servers,
    /// Checkouts of each run
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "50k")]
    checkouts: u64,
    /// Runs; the median is the figure
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u32,
    /// Requests under way at once, each on a connection of its own
    #[arg(long, default_value_t = 500)]
    connections: usize,
    /// Outcomes that a node finds when it starts
    #[arg(long, value_name = "COUNT", value_parser = parse_count, default_value = "1m")]
    outcomes: u64,
}

impl CheckoutBench {
    fn check(&self) -> Result<(), LoadError> {
        self.servers.check()?;
        check_range("--checkouts", self.checkouts, 1_000, ROWS_MAX / 2)?;
        check_range("--runs", self.runs.into(), 1, RUNS_MAX.into())?;
        check_range("--connections", self.connections as u64, 1, LINES_MAX as u64)?;
        check_range("--outcomes", self.outcomes, 1_000, OUTCOMES_MAX)
    }
}

/// Runs what the options ask for with this program.
///
/// # Errors
/// If a server is not there or promises nothing, a checkout comes to no end, or the books do not balance.
pub fn bench_checkout(program: &Path, options: &CheckoutBench) -> anyhow::Result<Report> {
    options.check()?;
    let bar = Bar::of(u64::from(options.runs) + OTHER_PARTS);
    let report = options.servers.measure(|directory| {
        let title = format!(
            "checkouts of two lines over HTTP through orders, pay, stock and outcomes, {} per run",
            grouped_count(options.checkouts)
        );
        let mut report = Report::measured(title, directory);
        let mut town = Town::lay_out(&options.servers)?;
        town.open_node(program, &options.servers, directory, 1)?;
        report.note(town.promises.clone());
        let mut runs = Vec::new();
        for _ in 0..options.runs {
            bar.next("checkouts");
            runs.push(run(&mut town, options, options.checkouts, None)?.0);
        }
        bar.next("half load");
        let full = Case::of(format!("{} under way", options.connections), runs);
        let rate = half(full.median_rate());
        let half_load = (rate * options.servers.half_seconds).min(ROWS_MAX - WARM_UP);
        let (half_load, late_us) = run(&mut town, options, half_load, Some(rate))?;
        let half_load = Case::of(format!("half load, {}/s", grouped_count(rate)), [half_load]);
        tell(&mut report, "checkouts", "of a request", &[full, half_load.at_a_given_rate()]);
        let late = millis(late_us.unwrap_or(0));
        report.note(format!("half load itself began a checkout at most {late:.1} ms late"));
        town.note_unseen(&mut report);
        close(town)?;
        bar.next("one transaction per checkout");
        let alone_per_second = alone(&options.servers.store, options.checkouts)?;
        report.note(format!(
            "one transaction per checkout in one database, without messages, {} connections: {} checkouts/s",
            alone::CONNECTIONS,
            grouped(alone_per_second, 0)
        ));
        bar.next("a node that finds outcomes");
        let rebuilt = take_over(program, options, directory)?;
        report.table("rebuild from Kafka by a node that starts:", [rebuilt]);
        Ok(report)
    });
    bar.clear();
    report
}

/// So many checkouts of new orders in a new shop, and how late one of an open loop began.
fn run(
    town: &mut Town,
    options: &CheckoutBench,
    checkouts: u64,
    rate: Option<u64>,
) -> anyhow::Result<(Run, Option<u64>)> {
    let all = checkouts + WARM_UP;
    let goods = Goods { users: BENCH_ROWS, items: BENCH_ROWS, orders: all, failing_percent: 0 };
    let address = town.address().to_owned();
    let head = Head::of(&address, None);
    town.runtime.block_on(async { goods.fill(&mut Line::open(&address).await?, &head).await })?;
    town.place.settle()?;
    let mut load = CheckoutLoad::to(&address, goods);
    load.pacing.in_flight = options.connections;
    load.pacing.seconds = Some(LOAD_SECONDS_MAX);
    load.checkouts = Some(WARM_UP);
    ended(&town.runtime.block_on(drive(&load, &head))?.tally, WARM_UP)?;
    load.pacing.rate = rate;
    if rate.is_some() {
        // So many that a checkout does not wait for one.
        load.pacing.in_flight = LINES_MAX;
    }
    (load.checkouts, load.first_order) = (Some(checkouts), WARM_UP);
    let (driven, costs) = town.measure(checkouts, &HOPS, drive(&load, &head))?;
    ended(&driven.tally, checkouts)?;
    let books = town.runtime.block_on(count(&goods, &address, &head))?;
    books.trouble(all, 0).map_or(Ok(()), |trouble| Err(LoadError::Books(trouble)))?;
    let run = Run {
        took: driven.took,
        rounds: checkouts,
        latencies: vec![("checkout", driven.tally.checkout_us.percentiles())],
        costs: costs.row().word("load", load_average()),
        handlers: costs.hops,
        ..Run::default()
    };
    Ok((run, driven.late_us()))
}

/// All were paid: there is enough of everything.
fn ended(tally: &Tally, checkouts: u64) -> anyhow::Result<()> {
    let Tally { paid, failed, refused, errors, .. } = tally;
    ensure!(
        *paid == checkouts,
        "{paid} of {checkouts} checkouts were paid; failed {failed:?}, refused {refused:?}, without an answer {errors:?}"
    );
    Ok(())
}

/// Ends the node, and finds everything in order.
fn close(mut town: Town) -> anyhow::Result<()> {
    town.close_node()?;
    let open = town.place.number("SELECT count(*) FROM orders WHERE state NOT IN ('paid', 'not_paid')")?;
    ensure!(open == 0, "the books do not balance: {open} checkouts are open at the end");
    town.place.verify()
}
