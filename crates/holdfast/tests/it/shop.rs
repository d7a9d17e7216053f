//! The shop through the real binary: a thousand orders on a hundred units, kill -9 in the middle of checkouts, operators'
//! commands, checkouts in batches, and what measures them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use holdfast_client::{Batch, Checkout, CheckoutReply, ORDER_BYTES_MAX};
use holdfast_domain::shop::{TrNum, Why};
use serde_json::{Value, json};

use crate::support::command::{self, assert_says, done, json_of};
use crate::support::http::{exchange, figure, send};
use crate::support::server::{Server, any_port, folder, fresh_hub, run, verify};
use crate::support::shop::{at_once, checkout, item, order, post, user};
use crate::support::sink::Sink;
use crate::support::wait::await_that;
use crate::support::world::{client, on_runtime};

#[track_caller]
fn get(server: &Server, path: &str) -> Value {
    let answer = exchange(server, "GET", path, "", b"");
    assert_eq!(answer.status, 200, "GET {path}: {answer:?}");
    assert!(answer.head_has("content-type: application/json"), "{answer:?}");
    answer.json()
}

/// Numbers that are the same each time.
fn drawn(number: u64, bound: u64) -> usize {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32).unwrap()
        % usize::try_from(bound).unwrap()
}

fn sum_of_credit(server: &Server, users: &[String]) -> u64 {
    let credit =
        |_, user: &String| get(server, &format!("/payment/find_user/{user}"))["credit"].as_u64().unwrap();
    at_once(16, users, credit).into_iter().sum()
}

/// The course's consistency run: it looks right after the last answer, so nothing may still be given back then.
#[test]
fn a_thousand_orders_on_a_hundred_units_pay_exactly_a_hundred() {
    const ORDERS: u64 = 1_000;
    let (folder, server) = fresh_hub();
    let item = item(&server, 1, 100);
    let numbers: Vec<u64> = (0..ORDERS).collect();
    let users = at_once(16, &numbers, |_, _| user(&server, 1));
    let orders: Vec<(String, usize)> = at_once(16, &numbers, |_, number| {
        let user = drawn(*number, ORDERS);
        (order(&server, &users[user], &item, 1), user)
    });
    let buyers: BTreeSet<usize> = orders.iter().map(|(_, user)| *user).collect();
    assert!((100..1_000).contains(&buyers.len()), "some users have several orders");

    let told = at_once(100, &orders, |_, (order, _)| {
        exchange(&server, "POST", &format!("/orders/checkout/{order}"), "", b"").status
    });

    assert!(told.iter().all(|status| matches!(status, 200 | 400)), "{told:?}");
    assert_eq!(told.iter().filter(|status| **status == 200).count(), 100);
    assert_eq!(get(&server, &format!("/stock/find/{item}")), json!({"stock": 0, "price": 1}));
    assert_eq!(sum_of_credit(&server, &users), 900);
    let paid = at_once(16, &orders, |_, (order, user)| {
        let shown = get(&server, &format!("/orders/find/{order}"));
        shown["paid"].as_bool().unwrap().then_some(*user)
    });
    for ((order, _), (status, paid)) in orders.iter().zip(told.iter().zip(&paid)) {
        assert_eq!(*status == 200, paid.is_some(), "order {order} was answered with {status}");
    }
    let payers: BTreeSet<usize> = paid.into_iter().flatten().collect();
    assert_eq!(payers.len(), 100, "each has paid once, with all that it had");
    for (place, user) in users.iter().enumerate() {
        let credit = u64::from(!payers.contains(&place));
        assert_eq!(get(&server, &format!("/payment/find_user/{user}"))["credit"], credit);
    }
    server.stop_and_verify(folder.path());
}

/// What came of a checkout at a server that may be gone.
enum Sent {
    /// Nobody took the connection.
    Not,
    /// It may have arrived; there was no answer.
    Cut,
    Answered(u16),
}

fn try_checkout(address: SocketAddr, order: &str) -> Sent {
    let Ok(mut stream) = TcpStream::connect(address) else { return Sent::Not };
    let request = format!(
        "POST /orders/checkout/{order} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let mut answer = String::new();
    let read = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    let status = read.ok().and_then(|_| answer.split(' ').nth(1)?.parse().ok());
    status.map_or(Sent::Cut, Sent::Answered)
}

/// What a kill left behind.
#[derive(Default)]
struct Killed {
    answers: BTreeMap<String, u16>,
    /// Checkouts of which nobody knows what became of them.
    cut: usize,
}

/// Checks orders out on many connections and kills the server after so many answers.
fn kill_in_the_middle(server: Server, orders: &[String], after: usize) -> Killed {
    const CONNECTIONS: usize = 32;
    // Few enough that a slow kill finds not all of them answered.
    let orders = &orders[..orders.len().min(after + 2 * CONNECTIONS)];
    let (address, killed) = (server.address, AtomicBool::new(false));
    let (tell, told) = channel();
    let mut all = Killed::default();
    std::thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            let (tell, killed) = (tell.clone(), &killed);
            scope.spawn(move || {
                for order in orders.iter().skip(first).step_by(CONNECTIONS) {
                    if killed.load(Ordering::Relaxed) {
                        return;
                    }
                    tell.send((order, try_checkout(address, order))).expect("somebody listens");
                }
            });
        }
        drop(tell);
        let mut server = Some(server);
        for (order, status) in told {
            match status {
                Sent::Answered(status) => drop(all.answers.insert(order.clone(), status)),
                Sent::Cut => all.cut += 1,
                Sent::Not => {}
            }
            if all.answers.len() >= after
                && let Some(server) = server.take()
            {
                server.kill();
                killed.store(true, Ordering::Relaxed);
            }
        }
    });
    all
}

#[test]
fn kill_nine_in_the_middle_of_checkouts_charges_once_or_not_at_all() {
    const USERS: u64 = 300;
    const STOCK: u64 = 250;
    let folder = folder();
    let mut server = Server::start(folder.path(), any_port());
    let item = item(&server, 1, STOCK);
    // Each user can pay one of its two orders, and there is not enough for all users: both sides refuse some.
    post(&server, &format!("/payment/batch_init/{USERS}/1"));
    let numbers: Vec<u64> = (0..600).collect();
    let orders = at_once(16, &numbers, |_, number| order(&server, &(number % USERS).to_string(), &item, 1));
    let mut answers: BTreeMap<String, u16> = BTreeMap::new();
    let (mut unanswered, mut cut) = (orders.clone(), 0);
    for after in [100; 3] {
        let killed = kill_in_the_middle(server, &unanswered, after);
        cut += killed.cut;
        answers.extend(killed.answers);
        unanswered.retain(|order| !answers.contains_key(order));
        verify(folder.path());
        server = Server::start(folder.path(), any_port());
        for (order, status) in &answers {
            let paid = &get(&server, &format!("/orders/find/{order}"))["paid"];
            assert_eq!(*paid, *status == 200, "order {order} was answered with {status}");
        }
    }
    assert!(cut > 0, "no checkout was cut off by three kills: this shows nothing");
    let repeated = at_once(32, &unanswered, |_, order| {
        exchange(&server, "POST", &format!("/orders/checkout/{order}"), "", b"").status
    });
    answers.extend(unanswered.into_iter().zip(repeated));
    assert_eq!(answers.len(), orders.len());
    assert!(answers.values().all(|status| matches!(status, 200 | 400)), "{answers:?}");

    let paid = answers.values().filter(|status| **status == 200).count() as u64;
    assert_eq!(get(&server, &format!("/stock/find/{item}"))["stock"], STOCK - paid);
    let users: Vec<String> = (0..USERS).map(|user| user.to_string()).collect();
    assert_eq!(sum_of_credit(&server, &users), USERS - paid);
    assert_eq!(paid, STOCK, "every unit found a buyer");
    assert_eq!(get(&server, "/hub/checkouts"), json!({"checkouts": [], "next": null}), "nothing is open");
    for (order, status) in &answers {
        let state = &get(&server, &format!("/hub/checkouts/{order}"))["state"];
        assert_eq!(state, if *status == 200 { "paid" } else { "not_paid" }, "order {order}");
    }
    server.stop_and_verify(folder.path());
}

/// Runs `holdfast checkouts`.
fn checkouts(server: &Server, arguments: &str) -> Output {
    let url = server.url();
    let words: Vec<&str> = arguments.split_whitespace().collect();
    run(&[&["checkouts"], &words[..], &["--url", &url]].concat())
}

/// For programs.
#[track_caller]
fn told(server: &Server, arguments: &str) -> Value {
    json_of(&checkouts(server, &format!("{arguments} --output json")))
}

/// For people.
#[track_caller]
fn says(server: &Server, arguments: &str, parts: &[&str]) {
    assert_says(&done(&checkouts(server, arguments)), parts);
}

#[track_caller]
fn refused(server: &Server, arguments: &str, part: &str) {
    command::refused(&checkouts(server, arguments), 1, &[part]);
}

/// A hub with both sides outside, where nobody listens: checkouts stay open.
fn with_both_sides_outside(data: &Path) -> Server {
    let nobody = Sink::nowhere();
    let sides = ["payment", "stock"].map(|side| format!("shop.{side}=http://{nobody}/"));
    Server::with(data, any_port(), &sides.each_ref().map(String::as_str))
}

/// An order of one unit for a price of 20, by a user who has so much.
fn order_of_one(server: &Server) -> String {
    order(server, &user(server, 20), &item(server, 20, 1), 1)
}

/// Begins a checkout that stays open.
#[track_caller]
fn begin(server: &Server, order: &str, deadline_ms: u64) {
    let begun = checkout(server, &format!("{order}?waitMs=0&deadlineMs={deadline_ms}"));
    assert_eq!((begun.status, &begun.json()["state"]), (202, &json!("pending")), "{begun:?}");
}

#[track_caller]
fn answers(server: &Server, order: &str, tr: u32, side: &str, outcome: &str) {
    let body = json!({"outcome": outcome}).to_string();
    let answer = send(server, "POST", &format!("/hub/checkouts/{order}/{tr}/{side}"), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn operators_see_what_a_checkout_waits_for_and_end_it() {
    let folder = folder();
    let server = with_both_sides_outside(folder.path());
    says(&server, "list", &["no checkout is open"]);
    let (order, other) = (order_of_one(&server), order_of_one(&server));
    says(&server, &format!("show {order}"), &["is not_paid; it was never tried", "pays 20"]);
    refused(&server, &format!("retry {order}"), "the hub refuses POST /hub/checkouts/");
    refused(&server, &format!("cancel {order}"), "409");
    for order in [&order, &other] {
        begin(&server, order, 600_000);
    }

    let list = told(&server, "list");
    assert_eq!(list["checkouts"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["checkouts"][0]["order"], order, "the oldest first");
    assert_eq!(list["checkouts"][0]["waitsFor"], json!(["pay", "stock"]));
    let page = told(&server, "list --limit 1");
    let next = page["next"].as_str().expect("there is more");
    assert_eq!(told(&server, &format!("list --after {next}"))["checkouts"][0]["order"], other);
    says(&server, "list --limit 1", &[&order, "pending", "waits for pay and stock", "more: --after"]);
    assert_eq!(told(&server, "list --state cancelling"), json!({"checkouts": [], "next": null}));

    answers(&server, &order, 1, "pay", "psucc");
    says(
        &server,
        &format!("show {order}"),
        &["is pending (try 1)", "waits for stock since", "give up: holdfast"],
    );
    assert_eq!(told(&server, &format!("retry {order}"))["state"], "pending", "asked again, not decided");
    let cancelled = told(&server, &format!("cancel {order}"));
    assert_eq!(
        (&cancelled["state"], &cancelled["waitsFor"]),
        (&json!("cancelling"), &json!(["pay", "stock"]))
    );
    refused(&server, &format!("cancel {order}"), "409");
    assert_eq!(told(&server, "list --state cancelling")["checkouts"][0]["order"], order);
    assert_eq!(told(&server, "list --state pending")["checkouts"][0]["order"], other);
    answers(&server, &order, 1, "pay", "csucc");
    says(&server, &format!("show {order}"), &["is cancelling", "waits for stock to give back"]);
    answers(&server, &order, 1, "stock", "asucc");
    says(
        &server,
        &format!("show {order}"),
        &["is not_paid; try 1 failed: an operator cancelled it", "try again: holdfast checkouts retry"],
    );

    let retried = told(&server, &format!("retry {order}"));
    assert_eq!((&retried["state"], &retried["tr"]), (&json!("pending"), &json!(2)));
    answers(&server, &order, 2, "stock", "ssucc");
    answers(&server, &order, 2, "pay", "psucc");
    says(&server, &format!("show {order}"), &["is paid (try 2)"]);
    refused(&server, &format!("retry {order}"), "409");
    refused(&server, "show nobody", "404");
    // What is open is still open after a kill.
    server.kill();
    let server = with_both_sides_outside(folder.path());
    assert_eq!(told(&server, "list")["checkouts"][0]["order"], other);
    says(&server, &format!("show {order}"), &["is paid (try 2)"]);
    server.stop_and_verify(folder.path());
    let output = run(&["checkouts", "show", ""]);
    assert_eq!(output.status.code(), Some(2), "no order is called so");
}

/// Downtime counts: the deadline passes while nobody serves, or soon after, and the new process ends what is due.
#[test]
fn nothing_is_pending_past_its_deadline_after_a_kill() {
    let folder = folder();
    let server = with_both_sides_outside(folder.path());
    let orders: Vec<String> = (0..8).map(|_| order_of_one(&server)).collect();
    for order in &orders {
        begin(&server, order, 700);
    }
    // One side of half of them has taken; it must be asked to give back.
    orders.iter().step_by(2).for_each(|order| answers(&server, order, 1, "pay", "psucc"));
    server.kill();
    let server = with_both_sides_outside(folder.path());
    // Whoever joins waits for what the sides give back, which they do not say: at the end of the wait it is decided.
    let joined = at_once(8, &orders, |_, order| checkout(&server, &format!("{order}?waitMs=2500")));
    for answer in joined {
        assert_eq!((answer.status, &answer.json()["state"]), (504, &json!("cancelling")), "{answer:?}");
    }
    assert_eq!(told(&server, "list --state pending"), json!({"checkouts": [], "next": null}));
    assert_eq!(told(&server, "list")["checkouts"].as_array().map(Vec::len), Some(8));
    for order in &orders {
        answers(&server, order, 1, "pay", "csucc");
        answers(&server, order, 1, "stock", "asucc");
        says(&server, &format!("show {order}"), &["is not_paid; try 1 failed: its deadline passed"]);
    }
    says(&server, "list", &["no checkout is open"]);
    server.stop_and_verify(folder.path());
}

#[test]
fn checkouts_go_into_batches() {
    let (folder, server) = fresh_hub();
    let (paid, poor, sold_out) = (order_of_one(&server), order_of_one(&server), order_of_one(&server));
    let of = |order: &str| get(&server, &format!("/orders/find/{order}"));
    let user = of(&poor)["user_id"].as_str().unwrap().to_owned();
    post(&server, &format!("/payment/pay/{user}/1"));
    let item = of(&sold_out)["items"][0][0].as_str().unwrap().to_owned();
    post(&server, &format!("/stock/subtract/{item}/1"));

    on_runtime(async {
        let client = client(&server).await;
        let checkout = |order: &str| Checkout::of(order.parse().expect("an id"));
        let tr = TrNum::FIRST;
        let mut batch = Batch::default();
        for order in [paid.as_str(), &paid, &poor, &sold_out, "nobody"] {
            batch.push(&checkout(order).into()).unwrap();
        }
        let replies = client.batch(batch).await.unwrap();
        let read: Vec<_> = replies.iter().filter_map(CheckoutReply::from_reply).collect();
        assert_eq!(
            read,
            [
                CheckoutReply::Paid { tr },
                CheckoutReply::AlreadyPaid { tr },
                CheckoutReply::Failed { tr, why: Why::Pay },
                CheckoutReply::Failed { tr, why: Why::Stock },
                CheckoutReply::Refused { code: 3200 },
            ]
        );
        assert_eq!(client.checkout(checkout(&paid)).await, Ok(CheckoutReply::AlreadyPaid { tr }));
        let again = CheckoutReply::Failed { tr: tr.next().unwrap(), why: Why::Pay };
        assert_eq!(client.checkout(checkout(&poor)).await, Ok(again), "a failed order is tried anew");
        assert!(client.checkout(checkout(&"x".repeat(ORDER_BYTES_MAX + 1))).await.is_err());
        // Calls of many callers share requests, and each gets its own answer.
        let unknown = (0..200).map(|number| {
            let (client, order) = (client.clone(), checkout(&format!("nobody-{number}")));
            tokio::spawn(async move { client.checkout(order).await })
        });
        for call in unknown.collect::<Vec<_>>() {
            assert_eq!(call.await.unwrap(), Ok(CheckoutReply::Refused { code: 3200 }));
        }
    });
    assert_eq!((&of(&paid)["paid"], &of(&poor)["paid"]), (&json!(true), &json!(false)));
    assert_eq!(get(&server, &format!("/payment/find_user/{user}"))["credit"], 19, "nothing was kept");
    server.stop_and_verify(folder.path());
}

#[test]
fn load_checkout_counts_each_end_in_both_loops() {
    let (folder, server) = fresh_hub();
    let url = server.url();
    let common = ["load", "checkout", "--url", &url, "--users", "100", "--items", "100", "--output", "json"];
    let failing = ["--orders", "1000", "--checkouts", "1000", "--failing-percent", "20"];
    let report = json_of(&run(&[&common[..], &failing].concat()));
    let count = |report: &Value, name: &str| report[name].as_u64().expect("a count");
    let failed = |report: &Value, name: &str| report["failed"][name].as_u64().unwrap_or(0);
    let by_side = [failed(&report, "payment-refused"), failed(&report, "stock-refused")];
    let all = by_side.iter().sum::<u64>() + failed(&report, "payment-and-stock-refused");
    assert_eq!(count(&report, "paid") + all, 1_000, "{report}");
    assert!(by_side.iter().all(|side| (40..160).contains(side)), "{report}");
    assert_eq!(report["trouble"], Value::Null);
    assert_eq!(report["books"]["unitsGone"], 2 * count(&report, "paid"), "{report}");

    // There is a shop already.
    command::refused(&run(&common), 1, &["--replace"]);

    let open = ["--orders", "400", "--checkouts", "600", "--rate", "2000", "--replace"];
    let report = json_of(&run(&[&common[..], &open].concat()));
    assert_eq!((count(&report, "paid"), count(&report, "paidBefore")), (400, 200), "{report}");
    assert!(report["seconds"].as_f64() > Some(0.29), "{report}");
    server.stop();
    let shop = &verify(folder.path())["shop"];
    assert_eq!(
        (&shop["users"], &shop["items"], &shop["openCheckouts"]),
        (&json!(100), &json!(100), &json!(0))
    );
}

/// The load waits for the hub to come back, asks again for what was lost, and the books balance.
#[test]
fn load_checkout_goes_on_with_a_hub_that_was_killed() {
    let (folder, server) = fresh_hub();
    let address = server.address;
    let url = format!("http://{address}");
    let report = std::thread::scope(|scope| {
        let sizes = ["--users", "100", "--items", "100", "--orders", "50000", "--seconds", "3"];
        let common = ["load", "checkout", "--url", &url, "--output", "json"];
        let load = scope.spawn(move || json_of(&run(&[&common[..], &sizes].concat())));
        let paid = || figure(&server, "holdfast_checkout_decisions_total{verdict=\"paid\"}");
        await_that("it pays", paid, |paid: &Option<u64>| *paid > Some(500));
        server.kill();
        let server = Server::start(folder.path(), address);
        let report = load.join().expect("the load ends");
        server.stop();
        report
    });
    assert_eq!((&report["trouble"], &report["errors"]), (&Value::Null, &json!({})), "{report}");
    assert!(report["repeats"].as_u64() > Some(0), "{report}");
    verify(folder.path());
}

#[test]
fn bench_checkout_reports_every_case() {
    let data = folder();
    let data = data.path().to_str().expect("a plain path");
    let sizes = ["--checkouts", "3000", "--http-checkouts", "600", "--connections", "8"];
    let common = ["bench", "checkout", "--runs", "1", "--data", data, "--output", "json"];
    let report = json_of(&run(&[&common[..], &sizes].concat()));
    let rows = |table: usize| report["tables"][table]["rows"].as_array().expect("rows");
    assert_eq!((rows(0).len(), rows(1).len(), rows(2).len()), (7, 7, 7), "{report}");
    for row in rows(0) {
        let count = |name: &str| row[name].as_u64().expect("a count");
        assert_eq!(count("paid") + count("failed"), count("checkouts"), "{row}");
        let to_fail = row["case"].as_str().expect("a name").contains("failing");
        assert_eq!(count("failed") > 0, to_fail, "{row}");
        assert!(row["p99"].as_f64() > Some(0.0), "{row}");
    }
    assert!(rows(2).iter().all(|row| row["4 KiB p50"].as_u64() > Some(0)), "{report}");
    let notes = report["tables"][2]["notes"].to_string();
    assert!(notes.contains("one hot item") && notes.contains("20 % failing"), "{notes}");
    assert_eq!(
        std::fs::read_dir(data).expect("the folder is there").count(),
        0,
        "without --keep nothing is left"
    );
    let out_of_bounds = run(&["bench", "checkout", "--checkouts", "2m"]);
    command::refused(&out_of_bounds, 2, &["--checkouts must be from 1 to 1000000"]);
}
