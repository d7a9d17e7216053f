//! Sides that are called over HTTP, and the webhook of outcomes, on three nodes of the real binary.

mod desk;
mod ends;
mod load;
mod partner;
mod settings;
mod sides;

pub use ends::ends_are_told_although_the_node_that_tells_is_killed;
pub use load::a_warehouse_in_a_crowd;
pub use settings::{all_nodes_call_the_same_sides, refused_for};
pub use sides::{
    a_called_bank_charges_once_or_gives_back, a_called_warehouse_hangs_fails_and_answers_later,
    a_called_warehouse_sells_no_more_than_it_has, partitions_of, says,
    the_node_that_asks_is_killed_and_another_goes_on,
};

use serde_json::Value;

use crate::support::http::exchange;
use crate::support::server::{Server, run};
use crate::world::World;

/// Short pauses, and no patience with those who hang.
const HASTE: [&str; 6] = [
    "--set",
    "callbacks.pause_min_ms=20",
    "--set",
    "callbacks.pause_max_ms=200",
    "--set",
    "callbacks.timeout_ms=1000",
];

/// Arguments of a node that calls.
fn calling(settings: &[String]) -> Vec<&str> {
    let set = settings.iter().flat_map(|setting| ["--set", setting.as_str()]);
    HASTE.into_iter().chain(set).collect()
}

#[track_caller]
fn post(node: &Server, path: &str) -> Value {
    let answer = exchange(node, "POST", path, "", b"");
    assert!(matches!(answer.status, 200..=202), "POST {path}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap_or(Value::Null)
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// An item of that price, which costs nothing but that.
fn item(node: &Server, price: u64) -> String {
    text(&post(node, &format!("/stock/item/create/{price}")), "item_id")
}

/// An order of so many of an item.
fn order(node: &Server, user: &str, item: &str, quantity: u64) -> String {
    let order = text(&post(node, &format!("/orders/create/{user}")), "order_id");
    post(node, &format!("/orders/addItem/{order}/{item}/{quantity}"));
    order
}

/// Checks an order out, and waits. What was answered, and why not.
fn checkout(node: &Server, order: &str) -> (u16, Option<String>) {
    let answer = exchange(node, "POST", &format!("/shop/orders/checkout/{order}"), "", b"");
    (answer.status, answer.json()["why"].as_str().map(str::to_owned))
}

/// Waits until an order stands there.
fn await_state(world: &World, order: &str, state: &str) {
    let sql = format!("SELECT count(*) FROM orders WHERE order_id = '{order}' AND state = '{state}'");
    world.await_count(&sql, |found| found == 1);
}

fn verified(world: &World) {
    let verified = run(&["verify", "--store", world.url()]);
    assert!(verified.status.success(), "{verified:?}");
}
