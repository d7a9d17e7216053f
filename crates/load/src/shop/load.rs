//! `holdfast load checkout`: checkouts against a hub that is running already, one request each.
//!
//! A run makes users, items and orders by their numbers, as the course's own stress test does, and checks the orders out one
//! after another; when all have been, it begins again, and the hub answers that they are paid. In a closed loop a checkout
//! begins when another has ended; in an open loop checkouts begin at their own places in time and their latency counts from
//! there. Failures are counted, not fatal; a checkout whose answer is lost is asked for again, which pays nothing twice. At the
//! end the shop is counted: the credit that is gone must be the price of the units that are gone.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::goods::{Books, Goods, Sides};
use crate::bench::runtime;
use crate::figures::{Counts, Latency, lock, per_second};
use crate::line::{Head, Line, Lost, PAUSE};
use crate::options::{Hub, LINES_MAX, PAYMENTS_MAX, Pacing, check_range, parse_count};
use crate::pace::{Starts, work};
use crate::report::{Report, grouped};
use crate::tokens::refusal;
use crate::{LoadError, Loaded};

/// The most users, items or orders: what one `batch_init` makes.
pub const ROWS_MAX: u64 = 1_000_000;
/// For so long a load tries again to reach a hub that is gone, as the client of `load transfers` does.
const GONE_MAX: Duration = Duration::from_secs(10);
/// Connections that count the shop at the end.
const COUNTERS: usize = 16;
/// The hub may keep a caller for so long while a side that is outside does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checkouts over HTTP, one request each, of orders that are made for the run.
///
/// Users, items and orders are made by their numbers from 0 on, as the shop's batch_init does. Orders are checked out one
/// after another; when all have been, they begin again and are answered as paid. Without --rate each checkout begins when
/// another has ended (closed loop). With --rate checkouts begin at their own places in time and latencies count from there.
/// A checkout whose answer is lost is asked for again, which pays nothing twice. At the end the credit that is gone must be the
/// price of the units that are gone, and something must have been paid; else the exit code is 1.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckoutLoad {
    /// The hub.
    #[command(flatten)]
    pub hub: Hub,
    /// When checkouts begin; each that is under way has a connection of its own.
    #[command(flatten)]
    pub pacing: Pacing,
    /// How many checkouts to make, such as 500000 or 500k
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub checkouts: Option<u64>,
    /// What the shop holds.
    #[command(flatten)]
    pub goods: Goods,
    /// Replace users, items and orders that have the numbers of this run
    #[arg(long)]
    pub replace: bool,
    /// How many of the orders are passed over: they were checked out before.
    #[arg(skip)]
    pub first_order: u64,
    /// For so long a hub that is gone is tried again.
    #[arg(skip = GONE_MAX)]
    pub gone_max: Duration,
}

impl CheckoutLoad {
    /// A closed loop with the defaults.
    pub fn to(address: &str, goods: Goods) -> CheckoutLoad {
        let (hub, pacing) = (Hub::at(address), Pacing::default());
        CheckoutLoad {
            hub,
            pacing,
            checkouts: None,
            goods,
            replace: false,
            first_order: 0,
            gone_max: GONE_MAX,
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        let Goods { users, items, orders, failing_percent } = self.goods;
        check_range("--checkouts", self.checkouts.unwrap_or(1), 1, PAYMENTS_MAX * 1_000)?;
        check_range("--users", users, 1, ROWS_MAX)?;
        check_range("--items", items, 1, ROWS_MAX)?;
        check_range("--orders", orders, 1, ROWS_MAX)?;
        check_range("--failing-percent", failing_percent.into(), 0, 100)?;
        self.pacing.check(LINES_MAX)
    }
}

/// Drives the hub as the options say.
///
/// # Errors
/// If the hub is not reached, has a shop already, charges something else than credit, or does not take the shop of the run.
pub fn load_checkouts(options: &CheckoutLoad) -> Result<Loaded, LoadError> {
    runtime()?.block_on(run_http(options))
}

/// The same on a runtime that is there already. What went wrong during the run stands in the report.
pub(super) async fn run_http(options: &CheckoutLoad) -> Result<Loaded, LoadError> {
    options.check()?;
    let Hub { address, key } = &options.hub;
    let head = Head::of(address, key.as_deref());
    let mut line = Line::open(address).await?;
    let sides = Sides::of(&mut line, &head).await?;
    if let Some(charged) = sides.charges_no_credit() {
        return Err(LoadError::Refused(format!(
            "checkouts of this hub charge {charged}, and the users of a load have credit only: take a hub with shop.payment = \
             \"inside\""
        )));
    }
    if !options.replace && Goods::are_there(&mut line, &head).await? {
        let said = "the hub has users, items or orders with the numbers that this run would make: take a hub of its own \
                    for the load, or have them replaced with --replace";
        return Err(LoadError::Refused(said.to_owned()));
    }
    options.goods.fill(&mut line, &head).await?;
    let driven = drive(options, &head).await?;
    let books = match sides.are_inside() {
        true => Some(count_patiently(options, &head).await),
        false => None,
    };
    Ok(report(options, &driven, books))
}

/// Counts the shop; a hub that is gone may come back for that.
async fn count_patiently(options: &CheckoutLoad, head: &Head) -> Result<Books, LoadError> {
    let end = Instant::now() + options.gone_max;
    loop {
        match count(&options.goods, &options.hub.address, head).await {
            Err(LoadError::Books(wrong)) => return Err(LoadError::Books(wrong)),
            Err(_) if Instant::now() < end => sleep(PAUSE).await,
            ended => return ended,
        }
    }
}

/// Counts the shop on new connections.
///
/// # Errors
/// If the hub does not answer, or has more than was put in.
pub async fn count(goods: &Goods, address: &str, head: &Head) -> Result<Books, LoadError> {
    goods.count(Line::open_all(address, COUNTERS).await?, head).await
}

/// What the clock saw.
pub struct Driven {
    /// What became of the checkouts.
    pub tally: Tally,
    /// All of it.
    pub took: Duration,
    starts: Arc<Starts>,
}

impl Driven {
    /// The longest that a checkout of an open loop began after its place in time.
    pub fn late_us(&self) -> Option<u64> {
        self.starts.late_us()
    }
}

/// Checks out until the time is over or all is done, in a shop that is there already.
///
/// # Errors
/// If the hub does not take the connections.
pub async fn drive(options: &CheckoutLoad, head: &Head) -> Result<Driven, LoadError> {
    let mut lines = Line::open_all(&options.hub.address, options.pacing.in_flight).await?;
    // A server takes connections in one after the other. All are to be in before the clock runs: a thousand that come at once are
    // no part of the load.
    let mut look = Vec::new();
    head.get(&"/stock/find/0", &mut look);
    for line in &mut lines {
        line.must("an item", &look, 200, |_| Some(())).await?;
    }
    let starts = Arc::new(Starts::paced("checkouts", &options.pacing, options.checkouts));
    // One for all: a histogram for each of a thousand would crowd the machine's caches.
    let tally = Arc::<Mutex<Tally>>::default();
    let workers = lines.into_iter().map(|line| {
        let (head, starts, tally) = (head.clone(), Arc::clone(&starts), Arc::clone(&tally));
        let CheckoutLoad { goods, first_order, gone_max, .. } = *options;
        Worker { line, head, starts, orders: goods.orders, first_order, gone_max, tally }.work()
    });
    let took = work(&starts, options.pacing.quiet, workers, |()| Ok(())).await?;
    let tally = std::mem::take(&mut *lock(&tally));
    Ok(Driven { tally, took, starts })
}

/// What became of the checkouts.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// That were begun.
    pub checkouts: u64,
    /// That were paid.
    pub paid: u64,
    /// Orders that were checked out again.
    pub paid_before: u64,
    /// Checkouts that were asked for again after an answer was lost.
    pub repeats: u64,
    /// Asked for again and found paid: by the attempt whose answer was lost, or before it.
    pub found_paid: u64,
    /// Failures, by the name of their problem.
    pub failed: Counts,
    /// Answers that are no end, by the name of their problem.
    pub refused: Counts,
    /// Calls without an answer, by what happened.
    pub errors: Counts,
    /// From a checkout's start (open loop: its place in time) to its end.
    pub checkout_us: Latency,
}

impl Tally {
    /// Checkouts of which nobody knows whether they were paid, or by which attempt.
    pub fn unknown(&self) -> u64 {
        self.found_paid + self.refused.total() + self.errors.total()
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
    tally: Arc<Mutex<Tally>>,
}

impl Worker {
    async fn work(mut self) {
        let mut out = Vec::with_capacity(256);
        while let Some((number, begun)) = self.starts.next().await {
            lock(&self.tally).checkouts += 1;
            let order = (self.first_order + number) % self.orders;
            let Err(lost) = self.checkout(order, begun, &mut out).await else { continue };
            lock(&self.tally).errors.note(lost.name());
            // A hub that is gone ends the worker: nothing would come of more checkouts.
            if self.line.reopen().await.is_err() {
                break;
            }
        }
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
            lock(&self.tally).repeats += 1;
        };
        let mut tally = lock(&self.tally);
        match answer {
            Told::Paid => tally.paid += 1,
            Told::PaidBefore if given_up_at.is_some() => tally.found_paid += 1,
            Told::PaidBefore => tally.paid_before += 1,
            Told::Failed(name) => tally.failed.note(name),
            Told::Refused(name) => {
                tally.refused.note(name);
                return Ok(());
            }
        }
        tally.checkout_us.record(begun.elapsed());
        Ok(())
    }
}

/// What makes the run worth nothing.
fn trouble(
    options: &CheckoutLoad,
    tally: &Tally,
    books: Option<&Result<Books, LoadError>>,
) -> Option<String> {
    let wrong = match books {
        Some(Ok(books)) => books.trouble(tally.paid, tally.unknown()),
        Some(Err(LoadError::Books(wrong))) => Some(wrong.clone()),
        Some(Err(error)) => return Some(format!("the books could not be read: {error}")),
        None => None,
    };
    if let Some(wrong) = wrong {
        return Some(format!("THE BOOKS DO NOT BALANCE: {wrong}"));
    }
    let paid = tally.paid + tally.paid_before + tally.found_paid;
    (paid == 0 && options.goods.failing_percent == 0).then(|| {
        "NOT ONE CHECKOUT WAS PAID, and none was to fail: the names above say what the hub refused".to_owned()
    })
}

fn report(options: &CheckoutLoad, driven: &Driven, books: Option<Result<Books, LoadError>>) -> Loaded {
    let Driven { tally, took, starts } = driven;
    let trouble = trouble(options, tally, books.as_ref());
    let mut report =
        starts.report(&options.pacing, tally.checkouts, *took, &[("checkout", &tally.checkout_us)]);
    report.set_title(format!(
        "{} checkouts in {:.1} s: {}/s; paid {}, paid before {}, failed {}, refused {}, unknown {}",
        tally.checkouts,
        took.as_secs_f64(),
        grouped(per_second(tally.checkouts, *took), 0),
        tally.paid,
        tally.paid_before,
        tally.failed.total(),
        tally.refused.total(),
        tally.errors.total(),
    ));
    report.figures(tally);
    report.figures(&options.goods);
    report.figure("books", books.as_ref().and_then(|books| books.as_ref().ok()));
    report.figure("trouble", &trouble);
    write_notes(&mut report, tally, trouble.as_deref(), books.and_then(Result::ok));
    Loaded { report, wrong: trouble.map(LoadError::Refused) }
}

fn write_notes(report: &mut Report, tally: &Tally, trouble: Option<&str>, books: Option<Books>) {
    if tally.repeats > 0 {
        let (repeats, found) = (tally.repeats, tally.found_paid);
        report.note(format!("asked again after a lost answer: {repeats}, of which {found} were found paid"));
    }
    for (name, count) in tally.failed.iter().chain(tally.refused.iter()).chain(tally.errors.iter()) {
        report.note(format!("  {name}: {count}"));
    }
    report.note(match (trouble, books) {
        (Some(trouble), _) => trouble.to_owned(),
        (None, Some(Books { credit_gone, units_gone })) => {
            format!("{units_gone} units and {credit_gone} of credit are gone, as they should be")
        }
        (None, None) => "a side of checkouts is outside: the books are not all here".to_owned(),
    });
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
