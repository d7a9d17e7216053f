//! A whole load against a hub of few lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::goods::{PRICE, UNITS};
use super::load::{CheckoutLoad, run_http};
use super::*;
use crate::bench::runtime;
use crate::stand_in::{Answers, serve};
use crate::{LoadError, Loaded};

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

impl Answers for Hub {
    fn answer(&mut self, line: &str, _: &[u8]) -> Option<(u16, String)> {
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
}

impl Hub {
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

type Ran = (Result<Loaded, LoadError>, Arc<Mutex<Hub>>);

fn run(hub: Hub, change: impl FnOnce(&mut CheckoutLoad)) -> Ran {
    let hub = Arc::new(Mutex::new(hub));
    let report = runtime().unwrap().block_on(async {
        let address = serve(Arc::clone(&hub)).await;
        let goods = Goods { users: 20, items: 20, orders: 200, failing_percent: 0 };
        let mut options = CheckoutLoad::to(&address, goods);
        (options.pacing.in_flight, options.checkouts) = (4, Some(200));
        change(&mut options);
        run_http(&options).await
    });
    (report, hub)
}

/// A run that has figures.
struct Figures(Loaded);

impl Figures {
    fn of((ran, _): Ran) -> Figures {
        Figures(ran.unwrap())
    }

    fn get(&self, name: &str) -> &Value {
        self.0.report.get(name)
    }

    fn count(&self, name: &str) -> u64 {
        self.get(name).as_u64().unwrap_or_else(|| panic!("{name}: {}", self.0.report))
    }

    fn says(&self, words: &str) -> bool {
        self.0.report.to_string().contains(words)
    }

    /// Whether every checkout came to an end, something was paid and the books balance.
    fn is_clean(&self) -> bool {
        (self.get("refused"), self.get("errors")) == (&json!({}), &json!({})) && self.0.wrong.is_none()
    }
}

#[test]
fn every_order_is_paid_once_and_the_books_balance() {
    let run = Figures::of(run(Hub::default(), |options| options.checkouts = Some(300)));
    assert_eq!((run.count("checkouts"), run.count("paid"), run.count("paidBefore")), (300, 200, 100));
    assert!(run.is_clean(), "{}", run.0.report);
    assert_eq!(run.get("books"), &json!({"creditGone": 200 * UNITS * PRICE, "unitsGone": 200 * UNITS}));
    assert!(run.get("checkoutUs")["p50"].as_u64() > Some(0), "{}", run.0.report);
}

#[test]
fn an_open_loop_makes_as_many_as_are_due() {
    let run = Figures::of(run(Hub::default(), |options| {
        options.pacing.rate = Some(1_000);
        (options.pacing.seconds, options.checkouts) = (Some(1), Some(150));
    }));
    assert_eq!((run.count("checkouts"), run.count("paid"), run.count("rate")), (150, 150, 1_000));
    let seconds = run.get("seconds").as_f64();
    assert!(seconds >= Some(0.149), "checkouts begin at their places in time: {seconds:?}");
    let (late, max) = (run.count("lateUs"), run.get("checkoutUs")["max"].as_u64());
    assert!(Some(late) <= max, "lateness is a part of the latency: {late}, {}", run.0.report);
}

#[test]
fn failures_are_counted_and_lost_answers_asked_for_again() {
    let run = Figures::of(run(Hub { fail: 10, hang_up: 40, ..Hub::default() }, |_| {}));
    assert_eq!(run.get("failed"), &json!({"stock-refused": 20}));
    let found = run.count("foundPaid");
    assert_eq!(run.count("paid") + found, 180, "{}", run.0.report);
    assert!(found > 0 && run.count("repeats") >= found, "{}", run.0.report);
    assert!(run.is_clean(), "{}", run.0.report);
}

/// The connections end and nobody listens: neither the checkouts nor the books come to an end, and the books are not said
/// to be wrong.
#[test]
fn a_hub_that_does_not_come_back_has_books_that_cannot_be_read() {
    let run = Figures::of(run(Hub { dies_after: Some(50), ..Hub::default() }, |options| {
        options.gone_max = Duration::from_millis(200);
    }));
    assert!(!run.is_clean() && run.get("errors") != &json!({}), "{}", run.0.report);
    assert!(run.get("trouble").as_str().unwrap().starts_with("the books could not be read: "));
    assert!(!run.says("DO NOT BALANCE"), "{}", run.0.report);
}

#[test]
fn a_run_in_which_nothing_is_paid_is_not_clean() {
    let none_paid = Figures::of(run(Hub { fail: 1, ..Hub::default() }, |_| {}));
    assert!(!none_paid.is_clean() && none_paid.says("NOT ONE CHECKOUT WAS PAID"), "{}", none_paid.0.report);
    let all_to_fail = run(Hub { fail: 1, ..Hub::default() }, |options| options.goods.failing_percent = 100);
    assert!(Figures::of(all_to_fail).is_clean(), "all were to fail");
}

#[test]
fn a_hub_that_charges_no_credit_is_told_so_before_anything_is_made() {
    for payment in ["positions", "tokens"] {
        let (refused, hub) = run(Hub { payment: Some(payment), ..Hub::default() }, |_| {});
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(&format!("charge {payment}")) && said.contains("shop.payment"), "{said}");
        assert_eq!(hub.lock().unwrap().inits, 0, "nothing was touched");
    }
    let outside = Figures::of(run(Hub { payment: Some("outside"), ..Hub::default() }, |_| {}));
    assert!(outside.is_clean() && outside.get("books").is_null(), "{}", outside.0.report);
}

#[test]
fn money_that_is_lost_is_found() {
    let run = Figures::of(run(Hub { leak: 1, ..Hub::default() }, |_| {}));
    assert!(!run.is_clean() && run.says("THE BOOKS DO NOT BALANCE"), "{}", run.0.report);
}

#[test]
fn a_shop_that_is_there_is_replaced_only_if_asked_for() {
    let there = || Hub { credit: [(0, 1)].into(), ..Hub::default() };
    let (refused, hub) = run(there(), |_| {});
    assert!(refused.unwrap_err().to_string().contains("--replace"));
    assert_eq!(hub.lock().unwrap().inits, 0, "nothing was touched");
    assert!(Figures::of(run(there(), |options| options.replace = true)).is_clean());
}

#[test]
fn options_have_bounds() {
    let said = |change: fn(&mut CheckoutLoad)| {
        let (ran, _) = run(Hub::default(), change);
        ran.unwrap_err().to_string()
    };
    let too_many = said(|options| options.pacing.in_flight = 1_001);
    assert!(too_many.contains("--in-flight must be from 1 to 1000"), "{too_many}");
    let no_orders = said(|options| options.goods.orders = 0);
    assert!(no_orders.contains("--orders must be from 1"), "{no_orders}");
}
