//! Checkouts that charge positions of participants, through the real binary: who pays, who is refused, what survives kill -9,
//! and who is told.

use std::path::Path;
use std::process::Command;

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::http::exchange;
use crate::support::server::{Server, any_port, folder, verify};
use crate::support::world::{client, set_up};

/// Participants `fsp1` and `fsp2`, each with a cap and funds of 10 USD.
async fn participants(data: &Path) {
    let server = Server::start(data, any_port());
    let ten = Amount(100_000);
    set_up(&client(&server).await, 2, ten, ten).await;
    server.stop();
}

/// `fsp2` is the shop, and prices are cents.
fn charging(data: &Path, payee: &str) -> Command {
    let mut command = Server::command(data, any_port());
    command.env("HOLDFAST_SHOP_PAYMENT", "transfers").env("HOLDFAST_SHOP_PAYEE", payee);
    command.env("HOLDFAST_SHOP_CURRENCY", "USD").env("HOLDFAST_SHOP_UNIT", "0.01");
    command
}

#[track_caller]
fn post(server: &Server, path: &str) -> (u16, Value) {
    let answer = exchange(server, "POST", path, "", b"");
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

/// An order of so many of the item.
fn order(server: &Server, user: &str, item: &str, quantity: u64) -> String {
    let (status, made) = post(server, &format!("/shop/orders/create/{user}"));
    assert_eq!(status, 201, "{made}");
    let order = made["order_id"].as_str().unwrap().to_owned();
    let (status, said) = post(server, &format!("/shop/orders/addItem/{order}/{item}/{quantity}"));
    assert_eq!(status, 200, "{said}");
    order
}

fn position(server: &Server, name: &str) -> Value {
    let path = format!("/participants/{name}/positions?currency=USD");
    exchange(server, "GET", &path, "", b"").json()["value"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_moves_positions_and_keeps_their_limits() {
    let folder = folder();
    participants(folder.path()).await;
    let server = Server::launch(&mut charging(folder.path(), "FSP2"));
    let (status, made) = post(&server, "/shop/stock/item/create/250");
    assert_eq!(status, 201, "{made}");
    let item = made["item_id"].as_str().unwrap().to_owned();
    post(&server, &format!("/shop/stock/add/{item}/100"));

    let first = order(&server, "fsp1", &item, 3);
    let (status, said) = post(&server, &format!("/shop/orders/checkout/{first}"));
    assert_eq!((status, &said["state"]), (200, &json!("paid")), "{said}");
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(7.5), json!(-7.5)));
    // Again: nothing is charged.
    assert_eq!(post(&server, &format!("/shop/orders/checkout/{first}")).1["charged"], json!(false));

    // 7.50 and 5 are more than the cap; what the stock side took comes back. Nobody of that name has nothing.
    for user in ["fsp1", "nobody"] {
        let second = order(&server, user, &item, 2);
        let (status, said) = post(&server, &format!("/shop/orders/checkout/{second}"));
        assert_eq!((status, &said["why"]), (402, &json!("pay")), "{said}");
        let (status, _) = post(&server, &format!("/orders/checkout/{second}"));
        assert_eq!(status, 400, "in the course's words");
    }
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(7.5), json!(-7.5)));
    let left = exchange(&server, "GET", &format!("/shop/stock/find/{item}"), "", b"").json();
    assert_eq!(left["stock"], json!(97));
    server.kill();

    let server = Server::launch(&mut charging(folder.path(), "fsp2"));
    let third = order(&server, "fsp1", &item, 1);
    assert_eq!(post(&server, &format!("/shop/orders/checkout/{third}")).0, 200);
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(10), json!(-10)));
    server.stop();
    verify(folder.path());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payee_that_is_not_there_keeps_the_hub_from_starting() {
    let folder = folder();
    participants(folder.path()).await;
    for (payee, currency, said) in
        [("nobody", "USD", "no participant nobody"), ("fsp2", "EUR", "no position account")]
    {
        let mut command = charging(folder.path(), payee);
        let output = command.env("HOLDFAST_SHOP_CURRENCY", currency).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains(said), "{why}");
        assert!(
            why.contains(&format!("`holdfast participants create {payee} --currency {currency} --cap 0`")),
            "{why}"
        );
    }
    Server::start(folder.path(), any_port()).stop();
}
