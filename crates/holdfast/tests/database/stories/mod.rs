//! What people do with orders at three nodes, and what the files of `scenarios/checkout` therefore cannot say: two checkouts of
//! one order, lines of one that is paid or under way, a second try, sides that are away. In the end every sum is exact.
//!
//! A checkout is held under way here by a lock on its item's row, which the stock side waits for. Elsewhere: many orders for few
//! units in `shop`, keys, joins and operators in `called::callers`, sides that are called and hang in `called::sides`, one in another
//! language in `warehouse`, callers whose wait ends in `edges`, dead letters that are tried again in `letters`, logs that were
//! cut in `trimmed`; all of it under faults in `faults`.

mod silent;
mod tried;

use std::sync::Mutex;
use std::time::Instant;

use holdfast_kafka::{Outgoing, Producer, Topic};
use holdfast_services::PATIENCE;
use postgres::{Client, Transaction};
use serde_json::{Value, json};

use crate::support::http::{Answer, exchange, get};
use crate::support::shop::{checkout, item, order_at, text, user};
use crate::world::{OPEN_CHECKOUTS, World};

const NODES: usize = 3;
const PRICE: u64 = 5;
const CREDIT: u64 = 10_000;
const UNITS: u64 = 1_000;
/// Longer than all of it takes.
const LONG_MS: u64 = 600_000;
const TOPICS: [Topic; 4] = [Topic::Orders, Topic::Pay, Topic::Stock, Topic::Outcomes];

/// A user and an item of nobody else.
struct Shop<'w> {
    world: &'w World,
    producer: Mutex<Producer>,
    user: String,
    item: String,
}

impl Shop<'_> {
    fn open(world: &World, credit: u64) -> Shop<'_> {
        Shop::of(world, user(world.node(0), credit), item(world.node(2), PRICE, UNITS))
    }

    /// These, where they are there already.
    fn of(world: &World, user: String, item: String) -> Shop<'_> {
        Shop { world, producer: Mutex::new(world.producer()), user, item }
    }

    /// Made at one node, and its line added at another.
    fn order(&self, quantity: u64) -> String {
        order_at([self.world.node(1), self.world.node(2)], &self.user, &self.item, quantity)
    }

    /// One of a single unit for each partition.
    fn order_in_each_partition(&self) -> Vec<String> {
        let orders = self.world.for_each_partition(Topic::Orders, 1, || self.order(1));
        orders.into_iter().map(|(order, _)| order).collect()
    }

    fn checkout(&self, node: usize, order: &str) -> Answer {
        checkout(self.world.node(node), &format!("{order}?waitMs=60000"))
    }

    /// Whatever node is asked, a line more is refused.
    fn takes_no_more_lines(&self, order: &str) {
        let lines = || get(self.world.node(0), &format!("/orders/find/{order}")).json();
        let before = lines();
        for node in 0..NODES {
            let path = format!("/orders/addItem/{order}/{}/1", self.item);
            let refused = exchange(self.world.node(node), "POST", &path, "", b"");
            assert_eq!(refused.status, 400, "at node {node}: {refused:?}");
        }
        assert_eq!(lines(), before);
    }

    /// The stock side waits for the item until this ends.
    fn hold<'s>(&self, sql: &'s mut Client) -> Transaction<'s> {
        let mut held = sql.transaction().expect("a transaction");
        let lock = "SELECT stock FROM items WHERE item_id = $1 FOR UPDATE";
        held.query_one(lock, &[&self.item]).expect("the item is there");
        held
    }

    fn await_order(&self, order: &str, how: &str) {
        let sql = format!("SELECT count(*) FROM orders WHERE order_id = '{order}' AND {how}");
        self.world.await_count(&sql, |found| found == 1);
    }

    fn credit(&self) -> u64 {
        let sql = format!("SELECT credit FROM users WHERE user_id = '{}'", self.user);
        self.world.count(&sql).unsigned_abs()
    }

    fn stock(&self) -> u64 {
        let sql = format!("SELECT stock FROM items WHERE item_id = '{}'", self.item);
        self.world.count(&sql).unsigned_abs()
    }

    /// So many units are gone, and so many are paid for, and nothing is under way.
    fn has_sold(&self, units: u64, of_credit: u64) {
        assert_eq!((UNITS - self.stock(), of_credit - self.credit()), (units, units * PRICE));
        let paid = format!(
            "SELECT coalesce(sum(amount), 0)::bigint FROM orders WHERE paid AND user_id = '{}'",
            self.user
        );
        assert_eq!(self.world.count(&paid).unsigned_abs(), units * PRICE);
        assert_eq!(self.world.count(OPEN_CHECKOUTS), 0);
    }

    /// Says something about a try of an order, as a side might.
    fn say(&self, order: &str, tr: u64, value: &Value) {
        let key = json!({"order_id": order, "tr_num": tr}).to_string();
        let partition = self.world.topics().partition(Topic::Outcomes, order.as_bytes());
        let value = value.to_string();
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.write(&[Outgoing { topic: Topic::Outcomes, partition, key, value }]);
    }

    fn write(&self, messages: &[Outgoing<'_>]) {
        let mut producer = self.producer.lock().expect("whole");
        producer.send_all(messages, Instant::now() + PATIENCE).expect("Kafka takes it");
    }

    fn payment(&self, kind: &str, units: u64) -> Value {
        let payment = json!({"type": kind, "user_id": self.user, "amnt": units * PRICE});
        if kind != "pfail" {
            return payment;
        }
        json!({"type": kind, "tr_type": "pay", "user_id": self.user, "amnt": units * PRICE})
    }

    fn items(&self, kind: &str, units: u64) -> Value {
        json!({"type": kind, "items": [{"id": self.item, "amnt": units}]})
    }

    /// What lies in a topic about an order: tries and types, in their order.
    fn words(&self, topic: Topic, order: &str) -> Vec<(u64, String)> {
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let all =
            self.world.records(topic).into_iter().map(|record| (json(&record.key), json(&record.value)));
        let about = all.filter(|(key, _)| key["order_id"] == order);
        about.map(|(key, value)| (key["tr_num"].as_u64().expect("a try"), text(&value, "type"))).collect()
    }
}
