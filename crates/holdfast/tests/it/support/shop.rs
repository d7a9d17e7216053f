//! A shop's users, items and orders, made over HTTP in the words of the course.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::Value;

use super::http::{Answer, exchange};
use super::server::Server;

/// A POST that must be taken.
#[track_caller]
pub(crate) fn post(server: &Server, path: &str) -> Value {
    let answer = exchange(server, "POST", path, "", b"");
    assert!(matches!(answer.status, 200..=202), "POST {path}: {answer:?}");
    answer.json()
}

/// The text of that name.
#[track_caller]
pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// A user who has so much.
#[track_caller]
pub(crate) fn user(server: &Server, credit: u64) -> String {
    let user = text(&post(server, "/payment/create_user"), "user_id");
    post(server, &format!("/payment/add_funds/{user}/{credit}"));
    user
}

/// An item of that price, of which there is none.
#[track_caller]
pub(crate) fn new_item(server: &Server, price: u64) -> String {
    text(&post(server, &format!("/stock/item/create/{price}")), "item_id")
}

/// An item of that price, of which there are so many.
#[track_caller]
pub(crate) fn item(server: &Server, price: u64, stock: u64) -> String {
    let item = new_item(server, price);
    post(server, &format!("/stock/add/{item}/{stock}"));
    item
}

/// An order of so many of an item.
#[track_caller]
pub(crate) fn order(server: &Server, user: &str, item: &str, quantity: u64) -> String {
    order_at([server, server], user, item, quantity)
}

/// The same, made at one node, and its line added at another.
#[track_caller]
pub(crate) fn order_at(nodes: [&Server; 2], user: &str, item: &str, quantity: u64) -> String {
    let order = text(&post(nodes[0], &format!("/orders/create/{user}")), "order_id");
    post(nodes[1], &format!("/orders/addItem/{order}/{item}/{quantity}"));
    order
}

/// The same item in the words of the shop's own API.
#[track_caller]
pub(crate) fn shop_item(server: &Server, price: u64, stock: u64) -> String {
    let item = created(server, &format!("/shop/stock/item/create/{price}"), "item_id");
    post(server, &format!("/shop/stock/add/{item}/{stock}"));
    item
}

/// The same order in the words of the shop's own API.
#[track_caller]
pub(crate) fn shop_order(server: &Server, user: &str, item: &str, quantity: u64) -> String {
    let order = created(server, &format!("/shop/orders/create/{user}"), "order_id");
    post(server, &format!("/shop/orders/addItem/{order}/{item}/{quantity}"));
    order
}

#[track_caller]
fn created(server: &Server, path: &str, name: &str) -> String {
    let answer = exchange(server, "POST", path, "", b"");
    assert_eq!(answer.status, 201, "POST {path}: {answer:?}");
    text(&answer.json(), name)
}

/// Status and body.
pub(crate) fn told(answer: &Answer) -> (u16, Value) {
    (answer.status, answer.json())
}

/// Checks an order out, and waits for what becomes of it.
pub(crate) fn checkout(server: &Server, order: &str) -> Answer {
    exchange(server, "POST", &format!("/shop/orders/checkout/{order}"), "", b"")
}

/// How an order and its checkout stand.
pub(crate) fn shown(server: &Server, order: &str) -> Value {
    exchange(server, "GET", &format!("/hub/checkouts/{order}"), "", b"").json()
}

/// Does the same to each of `things` on so many threads, and gives what came of it in their order.
pub(crate) fn at_once<T: Sync, R: Send>(
    threads: usize,
    things: &[T],
    act: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let done: Mutex<BTreeMap<usize, R>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for first in 0..threads {
            let (done, act) = (&done, &act);
            scope.spawn(move || {
                for (place, thing) in things.iter().enumerate().skip(first).step_by(threads) {
                    let result = act(place, thing);
                    done.lock().expect("whole").insert(place, result);
                }
            });
        }
    });
    done.into_inner().expect("whole").into_values().collect()
}
