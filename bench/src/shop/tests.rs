//! A whole load against a hub of few lines, and goals held against figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;

use super::goods::{PRICE, UNITS};
use super::*;
use crate::fspiop::wire::Wire;
use crate::options::Pace;

/// A shop in which every order is of user and item 5. Every `fail`-th order fails, every `hang_up`-th checkout is done and
/// not answered; `leak` is money that goes with each payment and is accounted for nowhere.
#[derive(Default)]
struct Hub {
    credit: BTreeMap<u64, u64>,
    stock: BTreeMap<u64, u64>,
    paid: BTreeMap<u64, bool>,
    inits: usize,
    checkouts: u64,
    fail: u64,
    hang_up: u64,
    leak: u64,
    /// Nothing more is answered once this many checkouts came in.
    dies_after: Option<u64>,
    /// What is charged in place of credit.
    payment: Option<&'static str>,
}

impl Hub {
    /// The answer; `None` ends the connection.
    fn answer(&mut self, line: &str) -> Option<(u16, String)> {
        let path = line.split(' ').nth(1).expect("a path");
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let number = |text: &str| text.parse::<u64>().expect("digits");
        if self.dies_after.is_some_and(|last| self.checkouts > last) {
            return None;
        }
        Some(match parts[..] {
            ["payment", "batch_init", count, credit] => {
                self.credit.extend((0..number(count)).map(|id| (id, number(credit))));
                (200, "{}".to_owned())
            }
            ["stock", "batch_init", count, stock, _] => {
                self.stock.extend((0..number(count)).map(|id| (id, number(stock))));
                (200, "{}".to_owned())
            }
            ["orders", "batch_init", count, ..] => {
                self.inits += 1;
                self.paid = (0..number(count)).map(|id| (id, false)).collect();
                (200, "{}".to_owned())
            }
            ["payment", "find_user", id] => match self.credit.get(&number(id)) {
                Some(credit) => (200, format!(r#"{{"user_id":"{id}","credit":{credit}}}"#)),
                None => (400, String::new()),
            },
            ["stock", "find", id] => match self.stock.get(&number(id)) {
                Some(stock) => (200, format!(r#"{{"stock":{stock},"price":{PRICE}}}"#)),
                None => (400, String::new()),
            },
            ["orders", "find", id] => {
                (if self.paid.contains_key(&number(id)) { 200 } else { 400 }, String::new())
            }
            ["hub", "stats"] => {
                let payment = self.payment.unwrap_or("credit");
                (200, format!(r#"{{"transfers":0,"shop":{{"payment":"{payment}","stock":"inside"}}}}"#))
            }
            ["shop", "orders", "checkout", id] => return self.checkout(number(id)),
            _ => panic!("{line}"),
        })
    }

    fn checkout(&mut self, id: u64) -> Option<(u16, String)> {
        self.checkouts += 1;
        if self.fail > 0 && id.is_multiple_of(self.fail) {
            return Some((402, r#"{"type":"/problems/stock-refused"}"#.to_owned()));
        }
        let before = self.paid.insert(id, true).expect("it was made");
        if !before {
            *self.credit.get_mut(&5).expect("there") -= UNITS * PRICE + self.leak;
            *self.stock.get_mut(&5).expect("there") -= UNITS;
        }
        let answered = self.hang_up == 0 || !self.checkouts.is_multiple_of(self.hang_up);
        answered.then(|| (200, format!(r#"{{"order":"{id}","charged":{}}}"#, !before)))
    }
}

async fn serve(listener: TcpListener, hub: Arc<Mutex<Hub>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (mut wire, hub) = (Wire::over(stream), Arc::clone(&hub));
        tokio::spawn(async move {
            while let Ok(Some(message)) = wire.read().await {
                let line = String::from_utf8(wire.bytes(message)[..message.line_end].to_vec()).unwrap();
                let Some((status, answer)) = hub.lock().unwrap().answer(&line) else { return };
                wire.consume(message);
                let head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n", answer.len());
                if wire.write(format!("{head}{answer}").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

type Ran = (Result<CheckoutLoadReport, crate::BenchError>, Arc<Mutex<Hub>>);

fn run(hub: Hub, change: impl FnOnce(&mut CheckoutLoadOptions)) -> Ran {
    let hub = Arc::new(Mutex::new(hub));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(listener, Arc::clone(&hub)));
        let mut options = CheckoutLoadOptions::to(&address);
        (options.users, options.items, options.orders) = (20, 20, 200);
        (options.in_flight, options.checkouts) = (4, Some(200));
        change(&mut options);
        run_http(&options).await
    });
    (report, hub)
}

#[test]
fn every_order_is_paid_once_and_the_books_balance() {
    let (report, _) = run(Hub::default(), |options| options.checkouts = Some(300));
    let report = report.unwrap();
    assert_eq!((report.checkouts, report.paid, report.paid_before), (300, 200, 100));
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.books, Some(Books { credit_gone: 200 * UNITS * PRICE, units_gone: 200 * UNITS }));
    assert!(report.checkout_us.p50 > 0, "{report}");
}

#[test]
fn an_open_loop_makes_as_many_as_are_due() {
    let (report, _) = run(Hub::default(), |options| {
        options.pace = Pace::Open { rate: 1_000 };
        (options.seconds, options.checkouts) = (Some(1), Some(150));
    });
    let report = report.unwrap();
    assert_eq!((report.checkouts, report.paid, report.rate), (150, 150, Some(1_000)));
    assert!(report.seconds >= 0.149, "checkouts begin at their places in time: {}", report.seconds);
    let late = report.late_us.expect("an open loop knows how late it was");
    assert!(late <= report.checkout_us.max, "lateness is a part of the latency: {late}, {report}");
}

#[test]
fn failures_are_counted_and_lost_answers_asked_for_again() {
    let (report, _) = run(Hub { fail: 10, hang_up: 40, ..Hub::default() }, |_| {});
    let report = report.unwrap();
    assert_eq!(report.failed, BTreeMap::from([("stock-refused".to_owned(), 20)]));
    assert_eq!(report.paid + report.found_paid, 180, "{report}");
    assert!(report.found_paid > 0 && report.repeats >= report.found_paid, "{report}");
    assert!(report.is_clean(), "{report}");
}

/// The connections end and nobody listens: neither the checkouts nor the books come to an end, and the books are not said
/// to be wrong.
#[test]
fn a_hub_that_does_not_come_back_has_books_that_cannot_be_read() {
    let (report, _) = run(Hub { dies_after: Some(50), ..Hub::default() }, |options| {
        options.gone_max = Duration::from_millis(200);
    });
    let report = report.unwrap();
    assert!(!report.is_clean() && !report.errors.is_empty(), "{report}");
    assert!(report.trouble.as_ref().unwrap().starts_with("the books could not be read: "), "{report}");
    assert!(!report.to_string().contains("DO NOT BALANCE"), "{report}");
}

#[test]
fn a_run_in_which_nothing_is_paid_is_not_clean() {
    let (report, _) = run(Hub { fail: 1, ..Hub::default() }, |_| {});
    let report = report.unwrap();
    assert!(!report.is_clean() && report.to_string().contains("NOT ONE CHECKOUT WAS PAID"), "{report}");
    let (report, _) = run(Hub { fail: 1, ..Hub::default() }, |options| options.failing_percent = 100);
    assert!(report.unwrap().is_clean(), "all were to fail");
}

#[test]
fn a_hub_that_charges_no_credit_is_told_so_before_anything_is_made() {
    for payment in ["positions", "tokens"] {
        let (refused, hub) = run(Hub { payment: Some(payment), ..Hub::default() }, |_| {});
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(&format!("charge {payment}")) && said.contains("shop.payment"), "{said}");
        assert_eq!(hub.lock().unwrap().inits, 0, "nothing was touched");
    }
    let (report, _) = run(Hub { payment: Some("outside"), ..Hub::default() }, |_| {});
    let report = report.unwrap();
    assert!(report.is_clean() && report.books.is_none(), "{report}");
}

#[test]
fn money_that_is_lost_is_found() {
    let (report, _) = run(Hub { leak: 1, ..Hub::default() }, |_| {});
    let report = report.unwrap();
    assert!(!report.is_clean() && report.to_string().contains("THE BOOKS DO NOT BALANCE"), "{report}");
}

#[test]
fn a_shop_that_is_there_is_replaced_only_if_asked_for() {
    let there = || Hub { credit: [(0, 1)].into(), ..Hub::default() };
    let (refused, hub) = run(there(), |_| {});
    assert!(refused.unwrap_err().to_string().contains("--replace"));
    assert_eq!(hub.lock().unwrap().inits, 0, "nothing was touched");
    let (report, _) = run(there(), |options| options.replace = true);
    assert!(report.unwrap().is_clean());
}

#[test]
fn options_have_bounds() {
    let too_many = CheckoutLoadOptions { in_flight: 1_001, ..CheckoutLoadOptions::to("x") };
    assert!(too_many.check().unwrap_err().to_string().contains("--in-flight must be from 1 to 1000"));
    let no_orders = CheckoutLoadOptions { orders: 0, ..CheckoutLoadOptions::to("x") };
    assert!(no_orders.check().unwrap_err().to_string().contains("--orders must be from 1"));
}
