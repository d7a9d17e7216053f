//! A whole run against a hub of a hundred lines, to see that rounds, refusals and lost connections are counted right.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::fspiop::wire::Wire;

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
    fn answer(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
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

async fn serve(listener: TcpListener, hub: Arc<Mutex<Hub>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (mut wire, hub) = (Wire::over(stream), Arc::clone(&hub));
        tokio::spawn(async move {
            while let Ok(Some(message)) = wire.read().await {
                let bytes = wire.bytes(message);
                let line = String::from_utf8(bytes[..message.line_end].to_vec()).unwrap();
                let mut words = line.split(' ');
                let (method, path) = (words.next().unwrap(), words.next().unwrap());
                let body = serde_json::from_slice(&bytes[message.body..]).unwrap_or_default();
                let Some((status, answer)) = hub.lock().unwrap().answer(method, path, &body) else { return };
                let answer = answer.to_string();
                wire.consume(message);
                let head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n", answer.len());
                if wire.write(format!("{head}{answer}").as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn run(hub: Hub, change: impl FnOnce(&mut TokenLoadOptions)) -> (TokenLoadReport, Arc<Mutex<Hub>>) {
    let hub = Arc::new(Mutex::new(hub));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(listener, Arc::clone(&hub)));
        let mut options = TokenLoadOptions::to(&address, 3);
        (options.wallets, options.in_flight, options.rounds) = (20, 4, Some(200));
        change(&mut options);
        run_http(&options).await.unwrap()
    });
    (report, hub)
}

#[test]
fn every_round_is_spent_and_the_books_balance() {
    let (report, hub) = run(Hub::default(), |_| {});
    assert_eq!((report.rounds, report.done, report.tokens_issued), (200, 200, 2_000));
    assert!(report.is_clean(), "{report}");
    assert!((report.inputs_per_selection - 2.0).abs() < 1e-9);
    assert!(report.round_us.p50 >= report.select_us.p50 && report.select_us.p50 > 0, "{report}");
    assert!(hub.lock().unwrap().held.is_empty());
}

#[test]
fn an_open_loop_makes_as_many_rounds_as_are_due() {
    let (report, hub) = run(Hub::default(), |options| {
        options.pace = Pace::Open { rate: 1_000 };
        options.ending = Ending::Release;
        (options.seconds, options.rounds) = (Some(1), Some(150));
    });
    assert_eq!((report.rounds, report.done, report.rate), (150, 150, Some(1_000)));
    assert!(report.seconds >= 0.149, "rounds begin at their places in time: {}", report.seconds);
    assert!(report.is_clean() && hub.lock().unwrap().held.is_empty());
}

#[test]
fn what_did_not_go_well_is_counted() {
    let (report, _) = run(Hub { refuse: 10, hang_up: 33, ..Hub::default() }, |_| {});
    assert_eq!(report.rounds, 200);
    assert_eq!(report.errors, BTreeMap::from([("the hub ended the connection".to_owned(), 6)]));
    assert_eq!(report.refused, BTreeMap::from([("funds-locked".to_owned(), 20)]));
    assert_eq!(report.done, 174);
    assert!(!report.is_clean());
}

#[test]
fn value_out_of_nothing_is_found() {
    let (report, _) = run(Hub { interest: 1, ..Hub::default() }, |_| {});
    assert_eq!(report.done, report.rounds);
    assert!(!report.is_clean() && report.to_string().contains("THE BOOKS DO NOT BALANCE"), "{report}");
}

#[test]
fn a_seed_is_used_once_and_bounds_hold() {
    let hub = Hub { wallets: [("load-0000000000000003-0".to_owned(), 1)].into(), ..Hub::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(serve(listener, Arc::new(Mutex::new(hub))));
        run_http(&TokenLoadOptions::to(&address, 3)).await.unwrap_err().to_string()
    });
    assert!(error.contains("a run with the same --seed"), "{error}");
    let too_many = TokenLoadOptions { in_flight: 1_001, ..TokenLoadOptions::to("x", 1) };
    assert!(too_many.check().unwrap_err().to_string().contains("--in-flight must be from 1 to 1000"));
}
