//! Checkouts that tokens pay for, through the real binary: who pays, who is refused, and what an open one holds over kill -9.

use std::path::Path;
use std::process::Command;

use holdfast_client::{Batch, Checkout, CheckoutReply};
use serde_json::json;

use crate::support::command::refused;
use crate::support::funding;
use crate::support::http::{exchange, get};
use crate::support::server::{Server, any_port, folder};
use crate::support::shop::{checkout, shop_item, shop_order, shown, told};
use crate::support::wait::await_that;
use crate::support::world::client;

/// Prices are whole dollars, ten units of a token each, for the wallet `the shop`.
fn charging(data: &Path) -> Command {
    let mut command = Server::command(data, any_port());
    command.env("HOLDFAST_SHOP_PAYMENT", "tokens").env("HOLDFAST_SHOP_WALLET", "the shop");
    command.env("HOLDFAST_SHOP_CURRENCY", "USD").env("HOLDFAST_SHOP_UNIT", "10");
    command
}

/// Tokens of these quantities.
fn issue(server: &Server, wallet: &str, quantities: &[u64]) {
    let ids: Vec<String> = (0..quantities.len()).map(|at| format!("{wallet}-{at}")).collect();
    let tokens = ids.iter().zip(quantities).map(|(id, quantity)| (id.as_str(), wallet, *quantity));
    funding::issue(server, &tokens.collect::<Vec<_>>());
}

/// What is free in a wallet, and what is locked.
#[track_caller]
fn wallet(server: &Server, name: &str) -> (String, String) {
    let path = format!("/tokens/balance?wallet={}&currency=USD", name.replace(' ', "%20"));
    let said = get(server, &path).json();
    let of = |name: &str| said[name].as_str().map_or_else(|| said[name].to_string(), str::to_owned);
    (of("free"), of("locked"))
}

#[track_caller]
fn has(server: &Server, name: &str, free: &str, locked: &str) {
    assert_eq!(wallet(server, name), (free.to_owned(), locked.to_owned()), "{name}");
}

#[test]
fn a_checkout_moves_tokens_and_change_comes_back() {
    let folder = folder();
    let server = Server::launch(&mut charging(folder.path()));
    issue(&server, "alice", &[70, 50, 20]);
    let item = shop_item(&server, 5, 100);
    let first = shop_order(&server, "alice", &item, 2);
    let (status, said) = told(&checkout(&server, &first));
    assert_eq!((status, &said["state"]), (200, &json!("paid")), "{said}");
    has(&server, "alice", "40", "0");
    has(&server, "the shop", "100", "0");
    // Again, in the course's words too: nothing is charged.
    assert_eq!(told(&checkout(&server, &first)).1["charged"], json!(false));
    assert_eq!(exchange(&server, "POST", &format!("/orders/checkout/{first}"), "", b"").status, 200);
    has(&server, "the shop", "100", "0");

    // 50 are more than the 40; what the stock side took comes back. Nobody has nothing.
    for user in ["alice", "nobody"] {
        let second = shop_order(&server, user, &item, 1);
        let (status, said) = told(&checkout(&server, &second));
        assert_eq!((status, &said["why"]), (402, &json!("pay")), "{said}");
        assert_eq!(
            exchange(&server, "POST", &format!("/orders/checkout/{second}"), "", b"").status,
            400,
            "in the course's words"
        );
        assert_eq!(
            told(&exchange(&server, "POST", &format!("/hub/checkouts/{second}/retry"), "", b"")).1["why"],
            json!("pay")
        );
    }
    let left = get(&server, &format!("/shop/stock/find/{item}")).json();
    assert_eq!(left["stock"], json!(98));

    // With more in the wallet an operator's retry is paid.
    let third = shop_order(&server, "bob", &item, 1);
    assert_eq!(exchange(&server, "POST", &format!("/orders/checkout/{third}"), "", b"").status, 400);
    issue(&server, "bob", &[60]);
    let (status, said) = told(&exchange(&server, "POST", &format!("/hub/checkouts/{third}/retry"), "", b""));
    assert_eq!((status, &said["state"], &said["tr"]), (200, &json!("paid"), &json!(2)), "{said}");
    has(&server, "bob", "10", "0");
    has(&server, "the shop", "150", "0");
    server.kill();

    let server = Server::launch(&mut charging(folder.path()));
    has(&server, "alice", "40", "0");
    has(&server, "the shop", "150", "0");
    server.stop_and_verify(folder.path());
}

/// A hundred orders of one wallet at once, in one batch: each is paid with tokens of its own, as long as there are some.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_checkouts_is_paid_with_tokens() {
    let folder = folder();
    let server = Server::launch(&mut charging(folder.path()));
    issue(&server, "alice", &[10; 60]);
    let item = shop_item(&server, 1, 1_000);
    let orders: Vec<String> = (0..100).map(|_| shop_order(&server, "alice", &item, 1)).collect();
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
    server.stop_and_verify(folder.path());
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
    let item = shop_item(&server, 5, 0);
    let first = shop_order(&server, "alice", &item, 1);
    let (status, said) = told(&checkout(&server, &first));
    assert_eq!(said["state"], json!("pending"), "{status} {said}");
    has(&server, "alice", "70", "50");
    let spender = shown(&server, &first)["spender"].as_str().unwrap().to_owned();
    server.kill();

    let server = Server::launch(&mut with_warehouse());
    has(&server, "alice", "70", "50");
    let open = get(&server, "/hub/checkouts").json();
    assert_eq!(open["checkouts"][0]["spender"], json!(spender), "{open}");
    // Nobody else can end it.
    let freed = exchange(&server, "DELETE", &format!("/tokens/locks/{spender}"), "", b"");
    assert_eq!(freed.status, 409, "{}", freed.body);
    let freed = ("120".to_owned(), "0".to_owned());
    await_that("the deadline frees the tokens", || wallet(&server, "alice"), |wallet| *wallet == freed);
    let shown = shown(&server, &first);
    assert_eq!((&shown["state"], &shown["why"]), (&json!("cancelling"), &json!("deadline")), "{shown}");
    server.stop_and_verify(folder.path());
}

#[test]
fn tokens_are_whole_and_the_shop_has_a_wallet() {
    let folder = folder();
    for (setting, value, said) in
        [("HOLDFAST_SHOP_UNIT", "0.5", "whole"), ("HOLDFAST_SHOP_UNIT", "0", "more than zero")]
    {
        refused(&charging(folder.path()).env(setting, value).output().unwrap(), 2, &[said]);
    }
    let output = charging(folder.path()).env_remove("HOLDFAST_SHOP_WALLET").output().unwrap();
    refused(&output, 2, &["shop.wallet is not set"]);
}
