//! `holdfast load checkout`: checkouts against a hub that is running already, one request each.
//!
//! A run makes users, items and orders by their numbers, as the course's own stress test does, and checks the orders out one
//! after another; when all have been, it begins again, and the hub answers that they are paid. In a closed loop a checkout
//! begins when another has ended; in an open loop checkouts begin at their own places in time and their latency counts from
//! there. Failures are counted, not fatal. At the end the shop is counted: the credit that is gone must be the price of the
//! units that are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::goods::{Books, Goods, Head};
use super::options::CheckoutLoadOptions;
use super::report::CheckoutLoadReport;
use crate::BenchError;
use crate::drive::{micros, new_histogram};
use crate::line::{Line, Lost};
use crate::options::Pace;
use crate::pace::{Pacer, Starts, length};
use crate::report::{Percentiles, add_counts, per};
use crate::tokens::load::refusal;

/// Connections that count the shop at the end.
const COUNTERS: usize = 16;
/// The hub may keep a caller for so long while a side that is outside does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached, has a shop already, or does not take that of the run.
pub fn load_checkouts(options: &CheckoutLoadOptions) -> Result<CheckoutLoadReport, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(BenchError::Runtime)?.block_on(run_http(options))
}

/// The same on a runtime that is there already. What went wrong during the run stands in the report
/// ([`CheckoutLoadReport::is_clean`]).
///
/// # Errors
/// If the hub is not reached, has a shop already, or does not take that of the run.
pub async fn run_http(options: &CheckoutLoadOptions) -> Result<CheckoutLoadReport, BenchError> {
    options.check()?;
    let goods = options.goods();
    let head = Head::of(&options.address, options.api_key.as_deref());
    let mut line = Line::open(&options.address).await?;
    if !options.replace && Goods::are_there(&mut line, &head).await? {
        let said = "the hub has users, items or orders with the numbers that this run would make: take a hub of its own \
                    for the load, or have them replaced with --replace";
        return Err(BenchError::Refused(said.to_owned()));
    }
    goods.fill(&mut line, &head).await?;
    let (tally, took) = drive(options, &head).await?;
    let books = count(&goods, &options.address, &head).await;
    Ok(report(options, goods, tally, took, books))
}

/// Counts the shop on new connections.
pub(super) async fn count(goods: &Goods, address: &str, head: &Head) -> Result<Books, BenchError> {
    let mut lines = Vec::with_capacity(COUNTERS);
    for _ in 0..COUNTERS {
        lines.push(Line::open(address).await?);
    }
    goods.count(lines, head).await
}

/// Checks out until the time is over or all is done.
pub(super) async fn drive(
    options: &CheckoutLoadOptions,
    head: &Head,
) -> Result<(Tally, Duration), BenchError> {
    let mut lines = Vec::with_capacity(options.in_flight);
    for _ in 0..options.in_flight {
        lines.push(Line::open(&options.address).await?);
    }
    let (count, time) = length(options.pace, options.seconds, options.checkouts);
    let starts = Arc::new(Starts::new("checkouts", options.pace, count, time, options.in_flight));
    let bar = starts.bar(options.progress);
    let pacer = Pacer::start(&starts, &bar);
    let mut workers = JoinSet::new();
    for line in lines {
        let (head, starts, orders) = (head.clone(), Arc::clone(&starts), options.orders);
        workers.spawn(Worker { line, head, starts, orders, tally: Tally::default() }.work());
    }
    let mut all = Tally::default();
    while let Some(ended) = workers.join_next().await {
        all.add(ended.map_err(|error| BenchError::Refused(format!("a worker ended early: {error}")))?);
    }
    let took = starts.started.elapsed();
    drop(pacer);
    bar.finish_and_clear();
    Ok((all, took))
}

/// What became of the checkouts.
pub(super) struct Tally {
    pub(super) checkouts: u64,
    pub(super) paid: u64,
    pub(super) paid_before: u64,
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) checkout_us: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            checkouts: 0,
            paid: 0,
            paid_before: 0,
            failed: BTreeMap::new(),
            refused: BTreeMap::new(),
            errors: BTreeMap::new(),
            checkout_us: new_histogram(),
        }
    }
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.checkouts += other.checkouts;
        self.paid += other.paid;
        self.paid_before += other.paid_before;
        add_counts(&mut self.failed, other.failed);
        add_counts(&mut self.refused, other.refused);
        add_counts(&mut self.errors, other.errors);
        self.checkout_us.add(&other.checkout_us).expect("all histograms have the same bounds");
    }

    /// Checkouts of which nobody knows whether they were paid.
    pub(super) fn unknown(&self) -> u64 {
        self.refused.values().sum::<u64>() + self.errors.values().sum::<u64>()
    }
}

/// What a checkout was answered with.
enum Told {
    Paid,
    PaidBefore,
    /// It failed, and everything is given back.
    Failed(String),
    /// Anything else: not now, not known.
    Refused(String),
}

/// The problems that end a checkout.
const FAILURES: [&str; 5] =
    ["payment-refused", "stock-refused", "payment-and-stock-refused", "cancelled", "deadline-passed"];

fn told(status: u16, body: &[u8]) -> Told {
    #[derive(Deserialize)]
    struct Paid {
        charged: bool,
    }
    if status == 200
        && let Ok(Paid { charged }) = serde_json::from_slice(body)
    {
        return if charged { Told::Paid } else { Told::PaidBefore };
    }
    let name = refusal(status, body);
    if FAILURES.contains(&name.as_str()) { Told::Failed(name) } else { Told::Refused(name) }
}

/// One checkout after another on one connection.
struct Worker {
    line: Line,
    head: Head,
    starts: Arc<Starts>,
    orders: u64,
    tally: Tally,
}

impl Worker {
    async fn work(mut self) -> Tally {
        let mut out = Vec::with_capacity(256);
        while let Some((number, begun)) = self.starts.next().await {
            self.tally.checkouts += 1;
            let Err(lost) = self.checkout(number % self.orders, begun, &mut out).await else { continue };
            *self.tally.errors.entry(lost.name().to_owned()).or_default() += 1;
            // A hub that is gone ends the worker: nothing would come of more checkouts.
            if self.line.reopen().await.is_err() {
                break;
            }
        }
        self.tally
    }

    async fn checkout(&mut self, order: u64, begun: Instant, out: &mut Vec<u8>) -> Result<(), Lost> {
        self.head.post(&format_args!("/shop/orders/checkout/{order}"), out);
        let answer = self.line.ask(out, PATIENCE, told).await?;
        let tally = &mut self.tally;
        match answer {
            Told::Paid => tally.paid += 1,
            Told::PaidBefore => tally.paid_before += 1,
            Told::Failed(name) => *tally.failed.entry(name).or_default() += 1,
            Told::Refused(name) => {
                *tally.refused.entry(name).or_default() += 1;
                return Ok(());
            }
        }
        tally.checkout_us.saturating_record(micros(begun.elapsed()));
        Ok(())
    }
}

fn report(
    options: &CheckoutLoadOptions,
    goods: Goods,
    tally: Tally,
    took: Duration,
    books: Result<Books, BenchError>,
) -> CheckoutLoadReport {
    let trouble = match &books {
        Ok(books) => books.trouble(tally.paid, tally.unknown()),
        Err(error) => Some(error.to_string()),
    };
    CheckoutLoadReport {
        seconds: took.as_secs_f64(),
        checkouts: tally.checkouts,
        checkouts_per_second: per(tally.checkouts, micros(took)) * 1e6,
        rate: match options.pace {
            Pace::Open { rate } => Some(rate),
            Pace::Closed => None,
        },
        in_flight: options.in_flight,
        goods,
        paid: tally.paid,
        paid_before: tally.paid_before,
        failed: tally.failed,
        refused: tally.refused,
        errors: tally.errors,
        books: books.ok(),
        trouble,
        checkout_us: Percentiles::of(&tally.checkout_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let kind = |status, body: &[u8]| match told(status, body) {
            Told::Paid => "paid".to_owned(),
            Told::PaidBefore => "before".to_owned(),
            Told::Failed(name) => format!("failed {name}"),
            Told::Refused(name) => format!("refused {name}"),
        };
        assert_eq!(kind(200, br#"{"order":"1","tr":1,"state":"paid","charged":true}"#), "paid");
        assert_eq!(kind(200, br#"{"order":"1","tr":1,"state":"paid","charged":false}"#), "before");
        assert_eq!(kind(402, br#"{"type":"/problems/stock-refused"}"#), "failed stock-refused");
        assert_eq!(kind(504, br#"{"type":"/problems/checkout-open"}"#), "refused checkout-open");
        assert_eq!(kind(200, b"Checkout successful"), "refused status 200");
    }
}
