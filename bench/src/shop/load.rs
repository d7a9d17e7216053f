//! `holdfast load checkout`: checkouts against a hub that is running already, one request each.
//!
//! A run makes users, items and orders by their numbers, as the course's own stress test does, and checks the orders out one
//! after another; when all have been, it begins again, and the hub answers that they are paid. In a closed loop a checkout
//! begins when another has ended; in an open loop checkouts begin at their own places in time and their latency counts from
//! there. Failures are counted, not fatal; a checkout whose answer is lost is asked for again, which pays nothing twice. At the
//! end the shop is counted: the credit that is gone must be the price of the units that are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Deserialize;
use tokio::time::sleep;

use super::goods::{Books, Goods, Head, Sides};
use super::options::CheckoutLoadOptions;
use super::report::CheckoutLoadReport;
use crate::BenchError;
use crate::drive::{micros, new_histogram};
use crate::line::{Line, Lost, PAUSE};
use crate::options::Pace;
use crate::pace::{Starts, length, work};
use crate::report::{Percentiles, add_counts, per};
use crate::tokens::load::refusal;

/// Connections that count the shop at the end.
const COUNTERS: usize = 16;
/// The hub may keep a caller for so long while a side that is outside does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached, has a shop already, charges something else than credit, or does not take the shop of the run.
pub fn load_checkouts(options: &CheckoutLoadOptions) -> Result<CheckoutLoadReport, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(BenchError::Runtime)?.block_on(run_http(options))
}

/// The same on a runtime that is there already. What went wrong during the run stands in the report
/// ([`CheckoutLoadReport::is_clean`]).
///
/// # Errors
/// If the hub is not reached, has a shop already, charges something else than credit, or does not take the shop of the run.
pub async fn run_http(options: &CheckoutLoadOptions) -> Result<CheckoutLoadReport, BenchError> {
    options.check()?;
    let goods = options.goods();
    let head = Head::of(&options.address, options.api_key.as_deref());
    let mut line = Line::open(&options.address).await?;
    let sides = Sides::of(&mut line, &head).await?;
    if let Some(charged) = sides.charges_no_credit() {
        return Err(BenchError::Refused(format!(
            "checkouts of this hub charge {charged}, and the users of a load have credit only: take a hub with shop.payment = \
             \"inside\""
        )));
    }
    if !options.replace && Goods::are_there(&mut line, &head).await? {
        let said = "the hub has users, items or orders with the numbers that this run would make: take a hub of its own \
                    for the load, or have them replaced with --replace";
        return Err(BenchError::Refused(said.to_owned()));
    }
    goods.fill(&mut line, &head).await?;
    let (tally, took) = drive(options, &head).await?;
    let books = match sides.are_inside() {
        true => Some(count_patiently(&goods, options, &head).await),
        false => None,
    };
    Ok(report(options, goods, tally, took, books))
}

/// Counts the shop; a hub that is gone may come back for that.
async fn count_patiently(
    goods: &Goods,
    options: &CheckoutLoadOptions,
    head: &Head,
) -> Result<Books, BenchError> {
    let end = Instant::now() + options.gone_max;
    loop {
        match count(goods, &options.address, head).await {
            Err(BenchError::Books(wrong)) => return Err(BenchError::Books(wrong)),
            Err(_) if Instant::now() < end => sleep(PAUSE).await,
            ended => return ended,
        }
    }
}

/// Counts the shop on new connections.
pub(super) async fn count(goods: &Goods, address: &str, head: &Head) -> Result<Books, BenchError> {
    goods.count(Line::open_all(address, COUNTERS).await?, head).await
}

/// Checks out until the time is over or all is done.
pub(super) async fn drive(
    options: &CheckoutLoadOptions,
    head: &Head,
) -> Result<(Tally, Duration), BenchError> {
    let mut lines = Line::open_all(&options.address, options.in_flight).await?;
    // A server takes connections in one after the other. All are to be in before the clock runs: a thousand that come at once are
    // no part of the load.
    let mut look = Vec::new();
    head.get(&"/stock/find/0", &mut look);
    for line in &mut lines {
        line.must("an item", &look, 200, |_| Some(())).await?;
    }
    let (count, time) = length(options.pace, options.seconds, options.checkouts);
    let starts = Arc::new(Starts::new("checkouts", options.pace, count, time, options.in_flight));
    let workers = lines.into_iter().map(|line| {
        let (head, starts) = (head.clone(), Arc::clone(&starts));
        let CheckoutLoadOptions { orders, first_order, gone_max, .. } = *options;
        Worker { line, head, starts, orders, first_order, gone_max, tally: Tally::default() }.work()
    });
    let mut all = Tally::default();
    let took = work(&starts, options.progress, workers, |tally| {
        all.add(tally);
        Ok(())
    });
    let took = took.await?;
    all.late_us = starts.late_us();
    Ok((all, took))
}

/// What became of the checkouts.
pub(super) struct Tally {
    pub(super) checkouts: u64,
    pub(super) paid: u64,
    pub(super) paid_before: u64,
    pub(super) repeats: u64,
    /// Asked for again and found paid: by the attempt whose answer was lost, or before it.
    pub(super) found_paid: u64,
    pub(super) failed: BTreeMap<String, u64>,
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) checkout_us: Histogram<u64>,
    /// Of all together, in an open loop: see [`Starts::late_us`].
    pub(super) late_us: Option<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            checkouts: 0,
            paid: 0,
            paid_before: 0,
            repeats: 0,
            found_paid: 0,
            failed: BTreeMap::new(),
            refused: BTreeMap::new(),
            errors: BTreeMap::new(),
            checkout_us: new_histogram(),
            late_us: None,
        }
    }
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.checkouts += other.checkouts;
        self.paid += other.paid;
        self.paid_before += other.paid_before;
        self.repeats += other.repeats;
        self.found_paid += other.found_paid;
        add_counts(&mut self.failed, other.failed);
        add_counts(&mut self.refused, other.refused);
        add_counts(&mut self.errors, other.errors);
        self.checkout_us.add(&other.checkout_us).expect("all histograms have the same bounds");
    }

    /// Checkouts of which nobody knows whether they were paid, or by which attempt.
    pub(super) fn unknown(&self) -> u64 {
        self.found_paid + self.refused.values().sum::<u64>() + self.errors.values().sum::<u64>()
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
    first_order: u64,
    gone_max: Duration,
    tally: Tally,
}

impl Worker {
    async fn work(mut self) -> Tally {
        let mut out = Vec::with_capacity(256);
        while let Some((number, begun)) = self.starts.next().await {
            self.tally.checkouts += 1;
            let order = (self.first_order + number) % self.orders;
            let Err(lost) = self.checkout(order, begun, &mut out).await else { continue };
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
        let mut given_up_at = None;
        let answer = loop {
            let lost = match self.line.ask(out, PATIENCE, told).await {
                Ok(answer) => break answer,
                Err(lost) => lost,
            };
            let end = *given_up_at.get_or_insert_with(|| Instant::now() + self.gone_max);
            if Instant::now() > end || self.line.reopen_until(end).await.is_err() {
                return Err(lost);
            }
            self.tally.repeats += 1;
        };
        let tally = &mut self.tally;
        match answer {
            Told::Paid => tally.paid += 1,
            Told::PaidBefore if given_up_at.is_some() => tally.found_paid += 1,
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

/// What makes the run worth nothing.
fn trouble(
    options: &CheckoutLoadOptions,
    tally: &Tally,
    books: Option<&Result<Books, BenchError>>,
) -> Option<String> {
    let wrong = match books {
        Some(Ok(books)) => books.trouble(tally.paid, tally.unknown()),
        Some(Err(BenchError::Books(wrong))) => Some(wrong.clone()),
        Some(Err(error)) => return Some(format!("the books could not be read: {error}")),
        None => None,
    };
    if let Some(wrong) = wrong {
        return Some(format!("THE BOOKS DO NOT BALANCE: {wrong}"));
    }
    let paid = tally.paid + tally.paid_before + tally.found_paid;
    (paid == 0 && options.failing_percent == 0).then(|| {
        "NOT ONE CHECKOUT WAS PAID, and none was to fail: the names above say what the hub refused".to_owned()
    })
}

fn report(
    options: &CheckoutLoadOptions,
    goods: Goods,
    tally: Tally,
    took: Duration,
    books: Option<Result<Books, BenchError>>,
) -> CheckoutLoadReport {
    let trouble = trouble(options, &tally, books.as_ref());
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
        repeats: tally.repeats,
        found_paid: tally.found_paid,
        failed: tally.failed,
        refused: tally.refused,
        errors: tally.errors,
        books: books.and_then(Result::ok),
        trouble,
        late_us: tally.late_us,
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
