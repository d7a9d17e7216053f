//! What callers and operators may ask of one node they may ask of any, whichever has the order's partition: keys, joins, the list
//! of what is open, cancel and retry.

use holdfast_kafka::Topic;
use serde_json::{Value, json};

use super::await_state;
use super::partner::{Manner, Partner};
use super::sides::says;
use crate::shop::begin;
use crate::support::http::{Answer, exchange, get, rows_of_all_pages};
use crate::support::shop::{new_item, order, post, shown, text, user};
use crate::world::World;

const NODES: usize = 3;
const PRICE: u64 = 3;
const UNITS: u64 = 100;
const CREDIT: u64 = 1_000;

struct Shop<'a> {
    world: &'a World,
    warehouse: &'a Partner,
    user: String,
    item: String,
}

/// Beside others: it has an item and a user of its own.
pub(super) fn of_any_node(world: &World, warehouse: &Partner) {
    let (user, item) = (user(world.node(0), CREDIT), new_item(world.node(2), PRICE));
    warehouse.put(&item, UNITS);
    let shop = Shop { world, warehouse, user, item };
    let sold = shop.keys() + shop.joins() + shop.operators();
    assert_eq!(warehouse.books().left[&shop.item], UNITS - sold);
    let gone = format!("SELECT {CREDIT} - credit FROM users WHERE user_id = '{}'", shop.user);
    assert_eq!(world.count(&gone), i64::try_from(sold * PRICE).expect("few"));
}

impl Shop<'_> {
    fn order(&self, quantity: u64) -> String {
        order(self.world.node(0), &self.user, &self.item, quantity)
    }

    /// One that the warehouse leaves open.
    fn slow(&self) -> String {
        let order = self.order(1);
        self.warehouse.behave_about(&order, Manner::LaterFirst(u32::MAX));
        order
    }

    fn checkout(&self, node: usize, order: &str, query: &str, key: &str) -> Answer {
        let path = format!("/shop/orders/checkout/{order}{query}");
        let header = format!("Idempotency-Key: {key}\r\n");
        exchange(self.world.node(node), "POST", &path, if key.is_empty() { "" } else { &header }, b"")
    }

    /// The same key and request get the same answer, at any node; with another request the key is refused. How many units are
    /// sold by it.
    fn keys(&self) -> u64 {
        let (paid, other) = (self.order(1), self.order(1));
        let first = self.checkout(0, &paid, "", "key-1");
        assert_eq!((first.status, &first.json()["charged"]), (200, &json!(true)), "{first:?}");
        let dear = self.order(UNITS);
        let refused = self.checkout(1, &dear, "", "key-2");
        assert_eq!((refused.status, &refused.json()["why"]), (402, &json!("stock")), "{refused:?}");
        for node in 0..NODES {
            let again = self.checkout(node, &paid, "", "key-1");
            assert_eq!((again.status, &again.body), (200, &first.body), "at node {node}");
            let again = self.checkout(node, &dear, "", "key-2");
            assert_eq!((again.status, again.json()), (402, refused.json()), "at node {node}");
            for (order, query) in [(&other, ""), (&paid, "?deadlineMs=7777"), (&dear, "?deadlineMs=7777")] {
                for key in ["key-1", "key-2"] {
                    let reused = self.checkout(node, order, query, key);
                    assert_eq!(reused.status, 422, "at node {node}: {reused:?}");
                    assert!(reused.body.contains("key-reused"), "{reused:?}");
                }
            }
        }
        assert_eq!(shown(self.world.node(2), &dear)["tr"], 1, "nothing was tried again");
        assert_eq!(shown(self.world.node(1), &other)["tr"], Value::Null, "nor tried at all");
        1
    }

    /// Callers at other nodes join what is pending, and all hear of its end: of one that is paid, and of one that is cancelled.
    fn joins(&self) -> u64 {
        let (paid, cancelled) = (self.slow(), self.slow());
        for order in [&paid, &cancelled] {
            begin(self.world.node(0), order, 600_000);
        }
        std::thread::scope(|scope| {
            let callers: Vec<_> = [&paid, &cancelled]
                .into_iter()
                .flat_map(|order| (0..NODES).map(move |node| (order, node)))
                .map(|(order, node)| {
                    let key = format!("key-{order}-{node}");
                    let caller = scope.spawn(move || self.checkout(node, order, "?waitMs=60000", &key));
                    (order, node, caller)
                })
                .collect();
            for order in [&paid, &cancelled] {
                let joined = format!(
                    "SELECT count(*) FROM orders WHERE order_id = '{order}' AND state = 'pending'
                     AND json_array_length(idempotency_keys) = {NODES}"
                );
                self.world.await_count(&joined, |found| found == 1);
            }
            self.says_it_took(&paid);
            let path = format!("/hub/checkouts/{cancelled}/cancel");
            assert_eq!(post(self.world.node(1), &path)["state"], "cancelling");
            self.warehouse.behave_about(&cancelled, Manner::Well);
            for (order, node, caller) in callers {
                let told = caller.join().expect("an answer");
                let shown = told.json();
                let found = (told.status, shown["state"].as_str().unwrap_or_default(), &shown["why"]);
                if *order == paid {
                    assert_eq!(found, (200, "paid", &Value::Null), "at node {node}: {told:?}");
                } else {
                    assert_eq!((found.0, found.2), (409, &json!("cancelled")), "at node {node}: {told:?}");
                }
                assert_eq!(shown["tr"], 1, "{told:?}");
                // The key that joined has the answer for good, at another node too.
                let again = self.checkout(node + 1, order, "", &format!("key-{order}-{node}"));
                assert_eq!((again.status, again.json()), (told.status, shown), "at node {node}");
            }
        });
        1
    }

    fn says_it_took(&self, order: &str) {
        let taken = json!({"type": "sub", "items": [{"id": self.item, "amnt": 1}]});
        assert_eq!(self.warehouse.books().act(order, 1, &taken), "ssucc");
        let (status, heard) = says(self.world.node(2), order, 1, "stock", "ssucc");
        assert_eq!((status, &heard["counted"]), (200, &json!(true)), "{heard}");
    }

    /// Three orders of each partition, and each is cancelled and retried at another node: two of three do not have it.
    fn operators(&self) -> u64 {
        let orders = self.world.for_each_partition(Topic::Orders, NODES, || self.slow());
        for (order, node) in &orders {
            begin(self.world.node(*node), order, 600_000);
        }
        for (order, node) in &orders {
            let heard =
                format!("SELECT count(*) FROM orders WHERE order_id = '{order}' AND pay_outcome = 'taken'");
            self.world.await_count(&heard, |found| found == 1);
            let asked = post(self.world.node(*node), &format!("/hub/checkouts/{order}/retry"));
            assert_eq!((&asked["state"], &asked["tr"]), (&json!("pending"), &json!(1)), "not decided anew");
            assert_eq!(asked["waitsFor"], json!(["stock"]), "{asked}");
        }
        let named: Vec<String> = orders.iter().map(|(order, _)| order.clone()).collect();
        for node in 0..NODES {
            assert_eq!(self.listed(node, "?state=pending&limit=5", &named), named, "the oldest first");
            assert_eq!(self.listed(node, "?limit=3", &named), named);
            assert_eq!(self.listed(node, "?state=cancelling&limit=5", &named), [""; 0]);
        }
        for (order, node) in &orders {
            let cancelled = post(self.world.node(*node), &format!("/hub/checkouts/{order}/cancel"));
            assert_eq!((&cancelled["state"], &cancelled["tr"]), (&json!("cancelling"), &json!(1)));
            self.refused(node + 1, order, "cancel");
        }
        for node in 0..NODES {
            assert_eq!(self.listed(node, "?state=cancelling&limit=5", &named), named);
            assert_eq!(self.listed(node, "?state=pending&limit=5", &named), [""; 0]);
        }
        orders.iter().for_each(|(order, _)| self.warehouse.behave_about(order, Manner::Well));
        for (order, node) in &orders {
            await_state(self.world, order, "not_paid");
            let shown = shown(self.world.node(*node), order);
            assert_eq!((&shown["why"], &shown["tr"]), (&json!("cancelled"), &json!(1)), "{shown}");
            assert_eq!(post(self.world.node(*node), &format!("/hub/checkouts/{order}/retry"))["tr"], 2);
        }
        for (order, node) in &orders {
            await_state(self.world, order, "paid");
            self.refused(*node, order, "retry");
            self.refused(*node, order, "cancel");
        }
        let nobody = exchange(self.world.node(1), "POST", "/hub/checkouts/nobody/cancel", "", b"");
        assert_eq!(nobody.status, 404, "{nobody:?}");
        orders.len() as u64
    }

    fn refused(&self, node: usize, order: &str, what: &str) {
        let path = format!("/hub/checkouts/{order}/{what}");
        let refused = exchange(self.world.node(node), "POST", &path, "", b"");
        assert_eq!(refused.status, 409, "{what}: {refused:?}");
    }

    /// Those of these orders that are open, as they are listed page by page at a node.
    fn listed(&self, node: usize, query: &str, named: &[String]) -> Vec<String> {
        let rows = rows_of_all_pages("checkouts", |after| {
            let after = after.map_or_else(String::new, |next| format!("&after={}", next.replace(' ', "%20")));
            get(self.world.node(node), &format!("/hub/checkouts{query}{after}")).json()
        });
        let found = rows.iter().map(|row| text(row, "order"));
        found.filter(|order| named.contains(order)).collect()
    }
}
