//! Sides that are called over HTTP, and the webhook of outcomes, on three nodes of the real binary.

mod callers;
mod ends;
mod load;
mod partner;
mod settings;
mod sides;

pub use load::a_warehouse_in_a_crowd;
pub use settings::refused_for;
pub use sides::{partitions_of, says};

use crate::support::server::{Server, set};
use crate::support::shop;
use crate::world::World;

/// Short pauses, and no patience with those who hang.
const HASTE: [&str; 3] =
    ["callbacks.pause_min_ms=20", "callbacks.pause_max_ms=200", "callbacks.timeout_ms=1000"];

/// Arguments of a node that calls.
fn calling(settings: &[String]) -> Vec<&str> {
    let settings: Vec<&str> = HASTE.into_iter().chain(settings.iter().map(String::as_str)).collect();
    set(&settings)
}

/// Checks an order out, and waits. What was answered, and why not.
fn checkout(node: &Server, order: &str) -> (u16, Option<String>) {
    let answer = shop::checkout(node, order);
    (answer.status, answer.json()["why"].as_str().map(str::to_owned))
}

/// Waits until an order stands there.
fn await_state(world: &World, order: &str, state: &str) {
    let sql = format!("SELECT count(*) FROM orders WHERE order_id = '{order}' AND state = '{state}'");
    world.await_count(&sql, |found| found == 1);
}
