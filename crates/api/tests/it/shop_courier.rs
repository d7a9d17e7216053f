//! Sides that are outside, asked by the courier: answers at once, later, wrong, too late, and after a restart.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use holdfast_api::{ServeOptions, serve};
use holdfast_delivery::options::CallbackOptions;
use holdfast_delivery::{ShopAddresses, ShopCalls};
use holdfast_domain::shop::Sides;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::shop_outside::{STOCK, Shop};
use crate::world::{PATIENCE, World, assert_has, until};

/// How a participant answers.
enum Script {
    Says(u16, &'static str),
    /// Answers when it is told to.
    Waits(oneshot::Receiver<()>, &'static str),
}

/// A participant that answers by a script, and then always with the last word.
#[derive(Clone)]
struct Participant {
    script: Arc<Mutex<VecDeque<Script>>>,
    then: &'static str,
    asked: mpsc::UnboundedSender<Value>,
}

async fn answer(State(participant): State<Participant>, body: String) -> (StatusCode, String) {
    participant.asked.send(serde_json::from_str(&body).unwrap()).ok();
    let next = participant.script.lock().unwrap().pop_front();
    let (status, text) = match next {
        None => (200, participant.then),
        Some(Script::Says(status, text)) => (status, text),
        Some(Script::Waits(told, text)) => {
            told.await.ok();
            (200, text)
        }
    };
    (StatusCode::from_u16(status).unwrap(), text.to_owned())
}

/// Where it listens, and what it is asked.
async fn participant(
    script: Vec<Script>,
    then: &'static str,
) -> (SocketAddr, mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, asks) = mpsc::unbounded_channel();
    let state = Participant { script: Arc::new(Mutex::new(script.into())), then, asked };
    let router = Router::new().route("/steps", post(answer)).with_state(state);
    tokio::spawn(serve(listener, router, ServeOptions::default(), std::future::pending()));
    (address, asks)
}

async fn next(asks: &mut mpsc::UnboundedReceiver<Value>) -> Value {
    tokio::time::timeout(PATIENCE, asks.recv()).await.expect("it is asked").expect("it lives")
}

async fn next_type(asks: &mut mpsc::UnboundedReceiver<Value>) -> String {
    next(asks).await["value"]["type"].as_str().unwrap().to_owned()
}

fn calls(world: &World, payment: Option<SocketAddr>, stock: Option<SocketAddr>) -> ShopCalls {
    let uri = |address: SocketAddr| format!("http://{address}/steps").parse().unwrap();
    let addresses = ShopAddresses { payment: payment.map(uri), stock: stock.map(uri), webhook: None };
    let (pause_min, pause_max) = (Duration::from_millis(2), Duration::from_millis(20));
    // Callbacks are given up after so many attempts; a side of a checkout never is. What is waited for here never comes from the
    // end of an attempt's time.
    let (attempts_max, attempt_time_max) = (2, 10 * PATIENCE);
    let options = CallbackOptions {
        pause_min,
        pause_max,
        attempts_max,
        attempt_time_max,
        ..CallbackOptions::default()
    };
    let nowhere = std::path::Path::new("/nonexistent");
    ShopCalls::start(world.hub.shop(), addresses, options, None, nowhere).unwrap()
}

async fn shop(outside: Sides) -> (Arc<World>, String) {
    let Shop { world, order, .. } = Shop::with(outside).await;
    (world, order)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_answer_at_once() {
    let (world, order) = shop(Sides::BOTH).await;
    let (pay, mut pay_asks) = participant(Vec::new(), r#"{"outcome":"psucc"}"#).await;
    let (stock, mut stock_asks) = participant(Vec::new(), r#"{"outcome":"ssucc"}"#).await;
    let mut calls = calls(&world, Some(pay), Some(stock));
    let paid = world.checkout(&order, "").await.json(200);
    assert_eq!(paid, json!({"order": order, "tr": 1, "state": "paid", "charged": true}));
    let asked = next(&mut pay_asks).await;
    assert_eq!(asked["key"], json!({"order_id": order, "tr_num": 1}));
    assert_has(&asked["value"], &json!({"type": "pay", "amnt": 10}));
    assert_eq!(next(&mut stock_asks).await["value"]["items"][0]["amnt"], 2);
    calls.end().await;
    assert!(pay_asks.try_recv().is_err() && stock_asks.try_recv().is_err(), "each was asked once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_answer_is_asked_again_until_there_is_one() {
    let (world, order) = shop(STOCK).await;
    let script = vec![
        Script::Says(503, ""),
        Script::Says(400, r#"{"outcome":"sfail"}"#),
        Script::Says(200, "done"),
        Script::Says(200, r#"{"outcome":"asucc"}"#),
        Script::Says(302, ""),
        Script::Says(202, ""),
    ];
    let (stock, mut asks) = participant(script, r#"{"outcome":"ssucc"}"#).await;
    let _calls = calls(&world, None, Some(stock));
    assert_eq!(world.checkout(&order, "").await.json(200)["state"], "paid");
    let first = next(&mut asks).await;
    for _ in 0..6 {
        assert_eq!(next(&mut asks).await, first, "the same each time");
    }
    assert!(asks.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_give_back_is_asked_until_it_has() {
    let (world, order) = shop(STOCK).await;
    let mut script = vec![Script::Says(202, "")];
    script.extend((0..40).map(|_| Script::Says(503, "")));
    let (stock, mut asks) = participant(script, r#"{"outcome":"asucc"}"#).await;
    let _calls = calls(&world, None, Some(stock));
    world.checkout(&order, "?waitMs=0&deadlineMs=600000").await.json(202);
    assert_eq!(next_type(&mut asks).await, "sub");
    world.posted(&format!("/hub/checkouts/{order}/cancel")).await.json(200);
    let shown = world.got("/hub/checkouts?state=cancelling").await.json(200);
    let detail = shown["checkouts"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("has failed and waits for stock to give back since"), "{shown}");
    let mut adds = 0;
    while adds < 30 {
        adds += usize::from(next_type(&mut asks).await == "add");
    }
    let shown = world.until_it_is("not_paid", &order).await;
    assert_has(&shown, &json!({"why": "cancelled", "tr": 1}));
}

/// Nobody listens at the warehouse's address. Whoever waits sees why, until it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_side_is_shown() {
    let (world, order) = shop(STOCK).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let mut calls_nobody = calls(&world, None, Some(nobody));
    world.checkout(&order, "?waitMs=0&deadlineMs=600000").await.json(202);
    until("it is shown", async || {
        let list = world.got("/hub/checkouts").await.json(200);
        list["checkouts"][0]["detail"].as_str().unwrap().contains("(cannot connect").then_some(())
    })
    .await;
    let one = world.shown(&order).await;
    assert!(one["detail"].as_str().unwrap().contains("(cannot connect"), "{one}");
    let open = world.checkout(&order, "?waitMs=1").await.problem(504, "checkout-open");
    assert!(open["detail"].as_str().unwrap().contains("(cannot connect"), "{open}");
    calls_nobody.end().await;

    // It is there now, and takes its time.
    let (stock, mut asks) = participant(Vec::new(), "").await;
    let _calls = calls(&world, None, Some(stock));
    next(&mut asks).await;
    next(&mut asks).await;
    let one = world.shown(&order).await;
    assert!(one["detail"].as_str().unwrap().starts_with("waits for stock since"), "{one}");
    assert!(!one["detail"].as_str().unwrap().contains("cannot connect"), "{one}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_answers_later_is_asked_until_then_and_not_after() {
    let (world, order) = shop(Sides::BOTH).await;
    let (stock, mut asks) = participant(Vec::new(), "{}").await;
    let mut calls = calls(&world, None, Some(stock));
    world.checkout(&order, "?waitMs=0").await.json(202);
    assert_eq!(next_type(&mut asks).await, "sub");
    assert_eq!(next_type(&mut asks).await, "sub");
    assert_eq!(world.say(&order, "1", "stock", "ssucc").await.json(200)["waitsFor"], json!(["pay"]));
    // One may be on its way. Then it is quiet, although the checkout is open: the courier has nothing left to ask.
    let settled =
        async { while tokio::time::timeout(Duration::from_millis(300), asks.recv()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, settled).await.expect("it is not asked for ever");
    // The payment side refuses, and what was taken is to be given back: that is asked at once.
    assert_eq!(world.say(&order, "1", "pay", "pfail").await.json(200)["state"], "cancelling");
    let asked = next(&mut asks).await;
    assert_eq!((&asked["value"]["type"], &asked["key"]["tr_num"]), (&json!("add"), &json!(1)));
    assert_eq!(world.say(&order, "1", "stock", "asucc").await.json(200)["state"], "not_paid");
    calls.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_too_late_is_asked_to_give_back_and_not_before_it_has_answered() {
    let (world, order) = shop(STOCK).await;
    let (tell, told) = oneshot::channel();
    let script = vec![Script::Waits(told, r#"{"outcome":"ssucc"}"#)];
    let (stock, mut asks) = participant(script, r#"{"outcome":"asucc"}"#).await;
    let _calls = calls(&world, None, Some(stock));
    world.checkout(&order, "?waitMs=0").await.json(202);
    assert_eq!(next_type(&mut asks).await, "sub");
    world.posted(&format!("/hub/checkouts/{order}/cancel")).await.json(200);
    assert!(asks.try_recv().is_err(), "one step at a time");
    tell.send(()).unwrap();
    assert_eq!(next_type(&mut asks).await, "add");
    // Whoever checks out now joins the cancelled try, or comes after it and begins another.
    let shown = world.until_it_is("not_paid", &order).await;
    assert_has(&shown, &json!({"why": "cancelled", "tr": 1}));
    assert!(asks.try_recv().is_err(), "it was given back once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_is_asked_to_give_back_at_the_deadline() {
    let (world, order) = shop(STOCK).await;
    let (_never, told) = oneshot::channel();
    let script = vec![Script::Waits(told, r#"{"outcome":"ssucc"}"#)];
    let (stock, mut asks) = participant(script, r#"{"outcome":"asucc"}"#).await;
    let _calls = calls(&world, None, Some(stock));
    world.checkout(&order, "?waitMs=0&deadlineMs=300").await.json(202);
    assert_eq!(next_type(&mut asks).await, "sub");
    // An attempt may take longer than the patience of this test; the deadline comes before.
    assert_eq!(next_type(&mut asks).await, "add");
    assert_eq!(world.until_it_is("not_paid", &order).await["why"], "deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_open_before_the_start_is_asked() {
    let (world, first) = shop(STOCK).await;
    let user = world.user(1_000).await;
    let item = world.item(5, 100).await;
    let mut orders = vec![first];
    for _ in 0..40 {
        orders.push(world.order(&user, &[(&item, 1)]).await);
    }
    for order in &orders {
        world.checkout(order, "?waitMs=0&deadlineMs=600000").await.json(202);
    }
    let (stock, mut asks) = participant(Vec::new(), r#"{"outcome":"ssucc"}"#).await;
    let _calls = calls(&world, None, Some(stock));
    let mut asked: Vec<String> = Vec::new();
    for _ in &orders {
        asked.push(next(&mut asks).await["key"]["order_id"].as_str().unwrap().to_owned());
    }
    asked.sort_unstable();
    orders.sort_unstable();
    assert_eq!(asked, orders, "each once");
    for order in &orders {
        assert_eq!(world.checkout(order, "").await.json(200)["tr"], 1);
    }
}
