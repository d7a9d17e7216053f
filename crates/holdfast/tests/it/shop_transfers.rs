//! Checkouts that charge positions of participants, through the real binary: who pays, who is refused, what survives kill -9,
//! and who is told.

use std::path::Path;
use std::process::Command;

use holdfast_domain::money::Amount;
use serde_json::{Value, json};

use crate::support::command::refused;
use crate::support::http::{exchange, get};
use crate::support::server::{Server, any_port, folder};
use crate::support::shop::{checkout, shop_item, shop_order, told};
use crate::support::world::participants;

/// Participants `fsp1` and `fsp2`, each with a cap and funds of 10 USD.
fn two_participants(data: &Path) {
    let server = Server::start(data, any_port());
    participants(&server, 2, Amount(100_000), Amount(100_000));
    server.stop();
}

/// `fsp2` is the shop, and prices are cents.
fn charging(data: &Path, payee: &str) -> Command {
    let mut command = Server::command(data, any_port());
    command.env("HOLDFAST_SHOP_PAYMENT", "transfers").env("HOLDFAST_SHOP_PAYEE", payee);
    command.env("HOLDFAST_SHOP_CURRENCY", "USD").env("HOLDFAST_SHOP_UNIT", "0.01");
    command
}

fn position(server: &Server, name: &str) -> Value {
    let path = format!("/participants/{name}/positions?currency=USD");
    get(server, &path).json()["value"].clone()
}

#[test]
fn a_checkout_moves_positions_and_keeps_their_limits() {
    let folder = folder();
    two_participants(folder.path());
    let server = Server::launch(&mut charging(folder.path(), "FSP2"));
    let item = shop_item(&server, 250, 100);

    let first = shop_order(&server, "fsp1", &item, 3);
    let (status, said) = told(&checkout(&server, &first));
    assert_eq!((status, &said["state"]), (200, &json!("paid")), "{said}");
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(7.5), json!(-7.5)));
    // Again: nothing is charged.
    assert_eq!(told(&checkout(&server, &first)).1["charged"], json!(false));

    // 7.50 and 5 are more than the cap; what the stock side took comes back. Nobody of that name has nothing.
    for user in ["fsp1", "nobody"] {
        let second = shop_order(&server, user, &item, 2);
        let (status, said) = told(&checkout(&server, &second));
        assert_eq!((status, &said["why"]), (402, &json!("pay")), "{said}");
        let course = exchange(&server, "POST", &format!("/orders/checkout/{second}"), "", b"");
        assert_eq!(course.status, 400, "in the course's words");
    }
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(7.5), json!(-7.5)));
    let left = get(&server, &format!("/shop/stock/find/{item}")).json();
    assert_eq!(left["stock"], json!(97));
    server.kill();

    let server = Server::launch(&mut charging(folder.path(), "fsp2"));
    let third = shop_order(&server, "fsp1", &item, 1);
    assert_eq!(told(&checkout(&server, &third)).0, 200);
    assert_eq!((position(&server, "fsp1"), position(&server, "fsp2")), (json!(10), json!(-10)));
    server.stop_and_verify(folder.path());
}

#[test]
fn a_payee_that_is_not_there_keeps_the_hub_from_starting() {
    let folder = folder();
    two_participants(folder.path());
    for (payee, currency, said) in
        [("nobody", "USD", "no participant nobody"), ("fsp2", "EUR", "no position account")]
    {
        let mut command = charging(folder.path(), payee);
        let output = command.env("HOLDFAST_SHOP_CURRENCY", currency).output().unwrap();
        let how = format!("`holdfast participants create {payee} --currency {currency} --cap 0`");
        refused(&output, 1, &[said, &how]);
    }
    Server::start(folder.path(), any_port()).stop();
}
