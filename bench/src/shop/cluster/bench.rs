//! What is measured, in which order: checkouts as fast as they go, half of that, the books, one transaction per checkout beside
//! it, and a node that finds a million outcomes.

use std::path::Path;

use holdfast_client::{Client, ClientOptions};
use indicatif::ProgressBar;
use tokio::runtime::Runtime;

use super::alone::{self, alone};
use super::options::SharedCheckoutOptions;
use super::report::{Run, SharedCheckoutReport, goals};
use super::takeover::take_over;
use crate::BenchError;
use crate::bench::{Directory, progress_bar};
use crate::cluster::costs::{Costs, Watched};
use crate::cluster::town::Town;
use crate::line::Line;
use crate::machine::{Machine, load_average};
use crate::meter::Counters;
use crate::options::{LINES_MAX, Pace};
use crate::report::{Percentiles, median};
use crate::shop::goods::{Goods, Head};
use crate::shop::load::{self, Tally};
use crate::shop::options::{BENCH_ROWS, CheckoutLoadOptions, ROWS_MAX};

/// The topics whose handlers are told of.
const HOPS: [&str; 4] = ["orders", "pay", "stock", "outcomes"];
/// Checkouts before the clock runs: plans are settled, pages in memory, and changed once since the checkpoint.
const WARM_UP: u64 = 10_000;
/// Connections at half load: so many that a checkout does not wait for one.
const HALF_CONNECTIONS: usize = 1_000;
/// What is measured besides the runs, for the bar.
const OTHER_PARTS: u64 = 3;

/// Runs what the options ask for.
///
/// # Errors
/// If a server is not there or promises nothing, a checkout comes to no end, or the books do not balance.
pub fn bench_shared_checkout(options: &SharedCheckoutOptions) -> Result<SharedCheckoutReport, BenchError> {
    options.check()?;
    let directory = Directory::open(None)?;
    let bar = progress_bar(options.progress, u64::from(options.runs) + OTHER_PARTS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(BenchError::Runtime)?;
    let report = measure(options, &runtime, directory.path(), &bar);
    let report =
        report.inspect_err(|_| eprintln!("the node's messages are in {}", directory.path().display()));
    bar.finish_and_clear();
    directory.close(options.keep || report.is_err())?;
    let mut report = report?;
    report.goals = goals(&report);
    Ok(report)
}

fn measure(
    options: &SharedCheckoutOptions,
    runtime: &Runtime,
    directory: &Path,
    bar: &ProgressBar,
) -> Result<SharedCheckoutReport, BenchError> {
    let say = |what: &'static str| {
        bar.set_message(what);
        bar.tick();
    };
    say("a node");
    let mut session = Session::open(options, runtime, directory)?;
    let mut runs = Vec::new();
    for _ in 0..options.runs {
        say("checkouts");
        runs.push(session.run(options.checkouts, None)?);
        bar.inc(1);
    }
    let rate = median(&runs.iter().map(|run| run.checkouts_per_second).collect::<Vec<_>>());
    say("half load");
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is small and positive"
    )]
    let half = ((rate / 2.0) as u64).max(1);
    let half_load = session.run((half * options.half_seconds).min(ROWS_MAX - WARM_UP), Some(half))?;
    bar.inc(1);
    let (promises, sees_all) = session.close()?;
    say("one transaction per checkout");
    let alone_per_second = alone(options)?;
    bar.inc(1);
    say("a node that finds outcomes");
    let rebuild = take_over(options, runtime, directory)?;
    bar.inc(1);
    let SharedCheckoutOptions { partitions, checkouts, connections, .. } = *options;
    Ok(SharedCheckoutReport {
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(directory),
        promises,
        partitions,
        checkouts,
        connections,
        sees_all,
        runs,
        half_load,
        alone_connections: alone::CONNECTIONS,
        alone_per_second,
        rebuild,
        goals: Vec::new(),
    })
}

/// A node, and the shop that is made anew for each drive.
struct Session<'a> {
    options: &'a SharedCheckoutOptions,
    runtime: &'a Runtime,
    town: Town,
    client: Client,
    watched: Watched,
    head: Head,
}

impl<'a> Session<'a> {
    fn open(
        options: &'a SharedCheckoutOptions,
        runtime: &'a Runtime,
        directory: &Path,
    ) -> Result<Session<'a>, BenchError> {
        let mut town = Town::found(&options.ground(), directory)?;
        let client = runtime.block_on(Client::connect(ClientOptions::to(town.address())));
        let client = client.map_err(BenchError::client("connecting to the node"))?;
        let (pid, prefix) = (town.pid(), town.topics().prefix.clone());
        let watched = Watched::find(pid, &mut town.client, &options.log, &prefix)?;
        let head = Head::of(town.address(), None);
        Ok(Session { options, runtime, town, client, watched, head })
    }

    /// So many checkouts of new orders, as fast as they go or at a rate of their own.
    fn run(&mut self, checkouts: u64, rate: Option<u64>) -> Result<Run, BenchError> {
        let all = checkouts + WARM_UP;
        let goods = Goods { users: BENCH_ROWS, items: BENCH_ROWS, orders: all, failing_percent: 0 };
        let Session { runtime, town, client, watched, head, .. } = self;
        let address = town.address().to_owned();
        runtime.block_on(async { goods.fill(&mut Line::open(&address).await?, head).await })?;
        // As a server that has grown slowly would have done by itself, and not while the clock runs.
        town.execute("tidy up", "VACUUM (ANALYZE)")?;
        town.execute("write what is dirty", "CHECKPOINT")?;
        let warm_up = CheckoutLoadOptions {
            in_flight: self.options.connections,
            seconds: Some(crate::options::LOAD_SECONDS_MAX),
            checkouts: Some(WARM_UP),
            orders: all,
            ..CheckoutLoadOptions::to(&address)
        };
        ended(&runtime.block_on(load::drive(&warm_up, head))?.0, WARM_UP)?;
        let load = CheckoutLoadOptions {
            pace: rate.map_or(Pace::Closed, |rate| Pace::Open { rate }),
            in_flight: if rate.is_some() { HALF_CONNECTIONS.min(LINES_MAX) } else { warm_up.in_flight },
            checkouts: Some(checkouts),
            first_order: WARM_UP,
            ..warm_up
        };
        let counters = runtime.block_on(Counters::read(client))?;
        let before = watched.read(&mut town.client, counters)?;
        let (tally, took) = runtime.block_on(load::drive(&load, head))?;
        let counters = runtime.block_on(Counters::read(client))?;
        let after = watched.read(&mut town.client, counters)?;
        ended(&tally, checkouts)?;
        let books = runtime.block_on(load::count(&goods, &address, head))?;
        if let Some(trouble) = books.trouble(all, 0) {
            return Err(BenchError::Books(trouble));
        }
        let costs: Costs = watched.costs(&before, &after, checkouts, &HOPS);
        #[allow(clippy::cast_precision_loss, reason = "a printed rate")]
        let checkouts_per_second = checkouts as f64 / took.as_secs_f64();
        Ok(Run {
            checkouts,
            seconds: took.as_secs_f64(),
            checkouts_per_second,
            rate,
            late_us: tally.late_us,
            latency_us: Percentiles::of(&tally.checkout_us),
            costs,
            load_average: load_average(),
        })
    }

    /// Ends the node, and finds everything in order.
    fn close(mut self) -> Result<(crate::cluster::town::Promises, bool), BenchError> {
        self.town.close_node()?;
        let open = "SELECT count(*) FROM orders WHERE state NOT IN ('paid', 'not_paid')";
        let open = self.town.number(open)?;
        if open > 0 {
            return Err(BenchError::Books(format!("{open} checkouts are open at the end")));
        }
        let verified = self.town.store()?.verify()?;
        match verified.findings.first() {
            Some(finding) => Err(BenchError::Books(format!("{}: {}", finding.table, finding.what))),
            None => Ok((self.town.promises.clone(), self.watched.sees_all())),
        }
    }
}

/// All were paid: there is enough of everything.
fn ended(tally: &Tally, checkouts: u64) -> Result<(), BenchError> {
    if tally.paid == checkouts {
        return Ok(());
    }
    let Tally { paid, failed, refused, errors, .. } = tally;
    Err(BenchError::Refused(format!(
        "{paid} of {checkouts} checkouts were paid; failed {failed:?}, refused {refused:?}, without an answer {errors:?}"
    )))
}
