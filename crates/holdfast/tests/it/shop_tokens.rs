//! Checkouts that tokens pay for, through the real binary: who pays, who is refused, and what an open one holds over kill -9.

use std::path::Path;
use std::process::Command;

use holdfast_client::{Batch, Checkout, CheckoutReply};
use serde_json::{Value, json};

use crate::support::http::exchange;
use crate::support::server::{Server, any_port, folder, verify};
use crate::support::world::client;

/// Prices are whole dollars, ten units of a token each, for the wallet `the shop`.
fn charging(data: &Path) -> Command {
    let mut command = Server::command(data, any_port());
    command.env("HOLDFAST_SHOP_PAYMENT", "tokens").env("HOLDFAST_SHOP_WALLET", "the shop");
    command.env("HOLDFAST_SHOP_CURRENCY", "USD").env("HOLDFAST_SHOP_UNIT", "10");
    command
}

#[track_caller]
fn post(server: &Server, path: &str) -> (u16, Value) {
    let answer = exchange(server, "POST", path, "", b"");
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

#[track_caller]
fn issue(server: &Server, wallet: &str, quantities: &[u64]) {
    let token = |(at, quantity): (usize, &u64)| json!({"id": format!("{wallet}-{at}"), "wallet": wallet, "currency": "USD", "quantity": quantity.to_string()});
    let tokens: Vec<Value> = quantities.iter().enumerate().map(token).collect();
    let body = json!({"tokens": tokens}).to_string();
    let said =
        exchange(server, "POST", "/tokens/issue", "Content-Type: application/json\r\n", body.as_bytes());
    assert!(said.status < 300, "{} {}", said.status, said.body);
}

/// What is free in a wallet, and what is locked.
#[track_caller]
fn wallet(server: &Server, name: &str) -> (String, String) {
    let path = format!("/tokens/balance?wallet={}&currency=USD", name.replace(' ', "%20"));
    let said = exchange(server, "GET", &path, "", b"").json();
    let of = |name: &str| said[name].as_str().map_or_else(|| said[name].to_string(), str::to_owned);
    (of("free"), of("locked"))
}

#[track_caller]
fn has(server: &Server, name: &str, free: &str, locked: &str) {
    assert_eq!(wallet(server, name), (free.to_owned(), locked.to_owned()), "{name}");
}

fn item(server: &Server, price: u64, stock: u64) -> String {
    let (status, made) = post(server, &format!("/shop/stock/item/create/{price}"));
    assert_eq!(status, 201, "{made}");
    let item = made["item_id"].as_str().unwrap().to_owned();
    post(server, &format!("/shop/stock/add/{item}/{stock}"));
    item
}

fn order(server: &Server, user: &str, item: &str, quantity: u64) -> String {
    let (status, made) = post(server, &format!("/shop/orders/create/{user}"));
    assert_eq!(status, 201, "{made}");
    let order = made["order_id"].as_str().unwrap().to_owned();
    let (status, said) = post(server, &format!("/shop/orders/addItem/{order}/{item}/{quantity}"));
    assert_eq!(status, 200, "{said}");
    order
}

#[test]
fn a_checkout_moves_tokens_and_change_comes_back() {
    let folder = folder();
    let server = Server::launch(&mut charging(folder.path()));
    issue(&server, "alice", &[70, 50, 20]);
    let item = item(&server, 5, 100);
    let first = order(&server, "alice", &item, 2);
    let (status, said) = post(&server, &format!("/shop/orders/checkout/{first}"));
    assert_eq!((status, &said["state"]), (200, &json!("paid")), "{said}");
    has(&server, "alice", "40", "0");
    has(&server, "the shop", "100", "0");
    // Again, in the course's words too: nothing is charged.
    assert_eq!(post(&server, &format!("/shop/orders/checkout/{first}")).1["charged"], json!(false));
    assert_eq!(post(&server, &format!("/orders/checkout/{first}")).0, 200);
    has(&server, "the shop", "100", "0");

    // 50 are more than the 40; what the stock side took comes back. Nobody has nothing.
    for user in ["alice", "nobody"] {
        let second = order(&server, user, &item, 1);
        let (status, said) = post(&server, &format!("/shop/orders/checkout/{second}"));
        assert_eq!((status, &said["why"]), (402, &json!("pay")), "{said}");
        assert_eq!(post(&server, &format!("/orders/checkout/{second}")).0, 400, "in the course's words");
        assert_eq!(post(&server, &format!("/hub/checkouts/{second}/retry")).1["why"], json!("pay"));
    }
    let left = exchange(&server, "GET", &format!("/shop/stock/find/{item}"), "", b"").json();
    assert_eq!(left["stock"], json!(98));

    // With more in the wallet an operator's retry is paid.
    let third = order(&server, "bob", &item, 1);
    assert_eq!(post(&server, &format!("/orders/checkout/{third}")).0, 400);
    issue(&server, "bob", &[60]);
    let (status, said) = post(&server, &format!("/hub/checkouts/{third}/retry"));
    assert_eq!((status, &said["state"], &said["tr"]), (200, &json!("paid"), &json!(2)), "{said}");
    has(&server, "bob", "10", "0");
    has(&server, "the shop", "150", "0");
    server.kill();

    let server = Server::launch(&mut charging(folder.path()));
    has(&server, "alice", "40", "0");
    has(&server, "the shop", "150", "0");
    server.stop();
    verify(folder.path());
}

/// A hundred orders of one wallet at once, in one batch: each is paid with tokens of its own, as long as there are some.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_checkouts_is_paid_with_tokens() {
    let folder = folder();
    let server = Server::launch(&mut charging(folder.path()));
    issue(&server, "alice", &[10; 60]);
    let item = item(&server, 1, 1_000);
    let orders: Vec<String> = (0..100).map(|_| order(&server, "alice", &item, 1)).collect();
    let client = client(&server).await;
    let mut batch = Batch::with_capacity(orders.len());
    for order in &orders {
        batch.push(&Checkout::of(order.parse().unwrap()).into()).unwrap();
    }
    let replies = client.batch(batch).await.unwrap();
    let told: Vec<_> = replies.iter().map(|reply| CheckoutReply::from_reply(reply).unwrap()).collect();
    assert_eq!(told.iter().filter(|reply| reply.is_paid()).count(), 60, "{told:?}");
    assert!(replies.iter().all(|reply| reply.code == 0 || reply.code == 4001), "{replies:?}");
    has(&server, "alice", "0", "0");
    has(&server, "the shop", "600", "0");
    server.stop();
    verify(folder.path());
}

/// The warehouse never answers: the tokens stay locked over kill -9, and the deadline frees them.
#[test]
fn an_open_checkout_holds_its_tokens_until_its_deadline() {
    let folder = folder();
    let with_warehouse = || {
        let mut command = charging(folder.path());
        // Nobody listens there.
        command.env("HOLDFAST_SHOP_STOCK", "http://127.0.0.1:9/").env("HOLDFAST_SHOP_WAIT_MS", "0");
        command.env("HOLDFAST_SHOP_DEADLINE_MS", "4000");
        command
    };
    let server = Server::launch(&mut with_warehouse());
    issue(&server, "alice", &[70, 50]);
    let item = item(&server, 5, 0);
    let first = order(&server, "alice", &item, 1);
    let (status, said) = post(&server, &format!("/shop/orders/checkout/{first}"));
    assert_eq!(said["state"], json!("pending"), "{status} {said}");
    has(&server, "alice", "70", "50");
    let shown = exchange(&server, "GET", &format!("/hub/checkouts/{first}"), "", b"").json();
    let spender = shown["spender"].as_str().unwrap().to_owned();
    server.kill();

    let server = Server::launch(&mut with_warehouse());
    has(&server, "alice", "70", "50");
    let shown = exchange(&server, "GET", "/hub/checkouts", "", b"").json();
    assert_eq!(shown["checkouts"][0]["spender"], json!(spender), "{shown}");
    // Nobody else can end it.
    let freed = exchange(&server, "DELETE", &format!("/tokens/locks/{spender}"), "", b"");
    assert_eq!(freed.status, 409, "{}", freed.body);
    let late = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while wallet(&server, "alice") != ("120".to_owned(), "0".to_owned()) {
        assert!(std::time::Instant::now() < late, "the deadline has not freed the tokens");
        std::thread::yield_now();
    }
    let shown = exchange(&server, "GET", &format!("/hub/checkouts/{first}"), "", b"").json();
    assert_eq!((&shown["state"], &shown["why"]), (&json!("cancelling"), &json!("deadline")), "{shown}");
    server.stop();
    verify(folder.path());
}

#[test]
fn tokens_are_whole_and_the_shop_has_a_wallet() {
    let folder = folder();
    for (setting, value, said) in
        [("HOLDFAST_SHOP_UNIT", "0.5", "whole"), ("HOLDFAST_SHOP_UNIT", "0", "more than zero")]
    {
        let output = charging(folder.path()).env(setting, value).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains(said), "{why}");
    }
    let output = charging(folder.path()).env_remove("HOLDFAST_SHOP_WALLET").output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("shop.wallet is not set"), "{why}");
}
