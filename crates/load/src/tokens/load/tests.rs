//! A whole run against a hub of a hundred lines, to see that rounds, refusals and lost connections are counted right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::stand_in::{Answers, serve};
use serde_json::{Value, json};

/// Wallets with a balance and no tokens. Every `refuse`-th select is refused, every `hang_up`-th ends its connection.
#[derive(Default)]
struct Hub {
    wallets: BTreeMap<String, u128>,
    held: BTreeMap<String, (String, u128)>,
    selects: u64,
    refuse: u64,
    hang_up: u64,
    /// Value that it makes of nothing with each spend.
    interest: u128,
}

impl Hub {
    /// The answer; `None` ends the connection.
    fn told(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let number = |value: &Value| value.as_str().expect("a string").parse::<u128>().expect("digits");
        Some(match (method, path.split('?').next().expect("a path")) {
            ("POST", "/tokens/issue") => {
                for token in body["tokens"].as_array().expect("a list") {
                    *self.wallets.entry(text(&token["wallet"])).or_default() += number(&token["quantity"]);
                }
                (201, json!({"tokens": []}))
            }
            ("GET", "/tokens/balance") => {
                let wallet = path.split(['=', '&']).nth(1).expect("a wallet");
                (200, json!({"total": self.wallets.get(wallet).copied().unwrap_or(0).to_string()}))
            }
            ("POST", "/tokens/select") => {
                self.selects += 1;
                if self.hang_up > 0 && self.selects.is_multiple_of(self.hang_up) {
                    return None;
                }
                if self.refuse > 0 && self.selects.is_multiple_of(self.refuse) {
                    return Some((409, json!({"type": "/problems/funds-locked"})));
                }
                let (spender, amount) = (text(&body["spender"]), number(&body["amount"]));
                let again = self.held.insert(spender, (text(&body["wallet"]), amount));
                assert!(again.is_none(), "a spender is used once");
                (200, json!({"tokens": [{}, {}], "fence": self.selects.to_string()}))
            }
            ("POST", "/tokens/spend") => {
                let (from, amount) = self.held.remove(&text(&body["spender"])).expect("it selected");
                assert_eq!(number(&body["outputs"][0]["quantity"]), amount);
                *self.wallets.get_mut(&from).expect("it has funds") -= amount;
                *self.wallets.entry(text(&body["outputs"][0]["wallet"])).or_default() +=
                    amount + self.interest;
                (200, json!({"transaction": "t"}))
            }
            ("DELETE", path) => {
                let spender = path.strip_prefix("/tokens/locks/").expect("a spender");
                assert!(self.held.remove(spender).is_some(), "it selected");
                (200, json!({"released": 2}))
            }
            other => panic!("{other:?}"),
        })
    }
}

impl Answers for Hub {
    fn answer(&mut self, line: &str, body: &[u8]) -> Option<(u16, String)> {
        let mut words = line.split(' ');
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
        let body = serde_json::from_slice(body).unwrap_or_default();
        let (status, answer) = self.told(method, path, &body)?;
        Some((status, answer.to_string()))
    }
}

fn run(hub: Hub, change: impl FnOnce(&mut TokenLoad)) -> (Loaded, Arc<Mutex<Hub>>) {
    let hub = Arc::new(Mutex::new(hub));
    let runtime = runtime().unwrap();
    let report = runtime.block_on(async {
        let address = serve(Arc::clone(&hub)).await;
        let mut options = TokenLoad::to(&address, 3);
        (options.wallets, options.pacing.in_flight, options.rounds) = (20, 4, Some(200));
        change(&mut options);
        run_http(&options).await.unwrap()
    });
    (report, hub)
}

/// Rounds that were begun, those that went as meant, and whether that was all and no value was lost or made.
fn counts(Loaded { report, wrong }: &Loaded) -> (u64, u64, bool) {
    let count = |name: &str| report.get(name).as_u64().expect("a count");
    (count("rounds"), count("done"), count("rounds") == count("done") && wrong.is_none())
}

#[test]
fn every_round_is_spent_and_the_books_balance() {
    let (loaded, hub) = run(Hub::default(), |_| {});
    assert_eq!(counts(&loaded), (200, 200, true), "{}", loaded.report);
    let figure = |name: &str| loaded.report.get(name);
    assert_eq!((figure("tokensIssued"), figure("inputsPerSelection")), (&json!(2_000), &json!(2.0)));
    let p50 = |name: &str| figure(name)["p50"].as_u64();
    assert!(p50("roundUs") >= p50("selectUs") && p50("selectUs") > Some(0), "{}", loaded.report);
    assert!(hub.lock().unwrap().held.is_empty());
}

#[test]
fn an_open_loop_makes_as_many_rounds_as_are_due() {
    let (loaded, hub) = run(Hub::default(), |options| {
        options.then = Ending::Release;
        (options.pacing.rate, options.pacing.seconds, options.rounds) = (Some(1_000), Some(1), Some(150));
    });
    assert_eq!(counts(&loaded), (150, 150, true), "{}", loaded.report);
    assert_eq!(loaded.report.get("rate"), &json!(1_000));
    let seconds = loaded.report.get("seconds").as_f64();
    assert!(seconds >= Some(0.149), "rounds begin at their places in time: {seconds:?}");
    assert!(hub.lock().unwrap().held.is_empty());
}

#[test]
fn what_did_not_go_well_is_counted() {
    let (loaded, _) = run(Hub { refuse: 10, hang_up: 33, ..Hub::default() }, |_| {});
    assert_eq!(counts(&loaded), (200, 174, false), "{}", loaded.report);
    assert_eq!(loaded.report.get("errors"), &json!({"the hub ended the connection": 6}));
    assert_eq!(loaded.report.get("refused"), &json!({"funds-locked": 20}));
}

#[test]
fn value_out_of_nothing_is_found() {
    let (loaded, _) = run(Hub { interest: 1, ..Hub::default() }, |_| {});
    assert_eq!(counts(&loaded), (200, 200, false), "{}", loaded.report);
    assert!(loaded.report.to_string().contains("THE BOOKS DO NOT BALANCE"), "{}", loaded.report);
}

#[test]
fn a_seed_is_used_once_and_bounds_hold() {
    let hub = Hub { wallets: [("load-0000000000000003-0".to_owned(), 1)].into(), ..Hub::default() };
    let runtime = runtime().unwrap();
    let error = runtime.block_on(async {
        let address = serve(Arc::new(Mutex::new(hub))).await;
        run_http(&TokenLoad::to(&address, 3)).await.unwrap_err().to_string()
    });
    assert!(error.contains("a run with the same --seed"), "{error}");
    let mut too_many = TokenLoad::to("x", 1);
    too_many.pacing.in_flight = 1_001;
    assert!(too_many.check().unwrap_err().to_string().contains("--in-flight must be from 1 to 1000"));
}
