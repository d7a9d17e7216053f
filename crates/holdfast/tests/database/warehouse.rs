//! A warehouse in another language, on Kafka.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use holdfast_kafka::{PartitionBy, Topic};
use holdfast_services::PATIENCE;
use serde_json::json;

use crate::called::refused_for;
use crate::shop::{ask, begin};
use crate::support::server::Running;
use crate::support::shop::{checkout, new_item, order_at, post};
use crate::world::{OPEN_CHECKOUTS, World};

/// The classes of Kafka's own client; `None` if this run has no servers.
fn kafka_client() -> Option<String> {
    let client = std::env::var("HOLDFAST_TEST_KAFKA_CLIENT").ok();
    let needed = std::env::var_os("HOLDFAST_TEST_REQUIRE_SERVICES").is_some();
    assert!(client.is_some() || !needed, "HOLDFAST_TEST_KAFKA_CLIENT names the folder of Kafka's jars");
    client
}

/// Opens the warehouse that docs/examples has.
fn open(world: &World, client: &str, stock: &str) -> Running {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/Warehouse.java");
    let mut command = Command::new("java");
    command.args(["-cp", &format!("{client}/*"), source]);
    command.args([world.brokers().to_string(), world.topics().prefix, stock.to_owned()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("java runs");
    let told = child.stdout.take().expect("it was piped");
    let first = BufReader::new(told).lines().next().expect("it says something").expect("text");
    assert_eq!(first, "the warehouse is open");
    Running(child)
}

const STOCK: u64 = 10_000;
const PRICE: u64 = 5;
const CREDIT: u64 = 100_000;

/// Two nodes without a stock side, and an item that only the warehouse has.
struct Shop {
    world: World,
    item: String,
}

impl Shop {
    fn order(&self, quantity: u64) -> String {
        order_at([self.world.node(1), self.world.node(0)], "0", &self.item, quantity)
    }

    fn checkout(&self, order: &str) -> (u16, Option<String>) {
        let answer = checkout(self.world.node(1), order);
        (answer.status, answer.json()["why"].as_str().map(str::to_owned))
    }

    fn await_state(&self, order: &str, state: &str) {
        let there = format!("SELECT count(*) FROM orders WHERE order_id = '{order}' AND state = '{state}'");
        self.world.await_count(&there, |found| found == 1);
    }

    /// Orders come until it is killed, and a little longer: of these every second has little time.
    fn kill_it_in_the_middle(&self, warehouse: Running) -> Vec<String> {
        const BUYERS: usize = 4;
        /// So many come when nobody answers any more.
        const LATER: usize = 4;
        let (killed, orders) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..BUYERS {
                scope.spawn(|| {
                    let mut left = LATER;
                    while left > 0 {
                        let order = self.order(1);
                        let deadline_ms = if left.is_multiple_of(2) { 600_000 } else { 1_500 };
                        let asked = ask(self.world.node(0), &order, deadline_ms);
                        // The warehouse may be as quick as the answer.
                        assert!([200, 202].contains(&asked.status), "{asked:?}");
                        orders.lock().expect("whole").push(order);
                        left -= usize::from(killed.load(Ordering::SeqCst));
                    }
                });
            }
            self.world.await_count("SELECT count(*) FROM orders WHERE paid", |paid| paid > 10);
            drop(warehouse);
            killed.store(true, Ordering::SeqCst);
        });
        orders.into_inner().expect("whole")
    }
}

/// The stock side is outside, on Kafka and in another language. It is killed while it answers, and begins again: what it has
/// sold is what is paid.
#[test]
fn a_warehouse_in_another_language() {
    let Some(client) = kafka_client() else { return };
    let Some(mut world) = World::alone() else { return };
    world.add_nodes_with(2, &["--set", "shop.stock=kafka"]);
    post(world.node(0), &format!("/payment/batch_init/1/{CREDIT}"));
    // Its prices are the shop's; how many there are only the warehouse knows.
    let item = new_item(world.node(0), PRICE);
    let shop = Shop { world, item };
    refused_for(&shop.world, "shop.stock is kafka for the nodes of this hub, and inside here");
    let stock = format!("{}={STOCK}", shop.item);
    let warehouse = open(&shop.world, &client, &stock);
    let refused = (402, Some("stock".to_owned()));
    assert_eq!(shop.checkout(&shop.order(2)), (200, None));
    assert_eq!(shop.checkout(&shop.order(STOCK)), refused, "two are gone");

    // A rollback that comes before what it rolls back, as after a fault: the try is over before it has begun.
    let undone = shop.order(1);
    let key = json!({"order_id": undone, "tr_num": 1}).to_string();
    let value = json!({"type": "add", "items": [{"id": shop.item, "amnt": 1}]}).to_string();
    let topics = shop.world.topics();
    let by = PartitionBy::Other(undone.clone());
    let add = topics.outgoing_by(Topic::Stock, &by, key.as_bytes(), value.as_bytes());
    shop.world.producer().send_all(&[add], Instant::now() + PATIENCE).expect("Kafka takes it");
    assert_eq!(shop.checkout(&undone), refused);
    assert_eq!(shop.checkout(&undone), (200, None), "the next try is another");

    let orders = shop.kill_it_in_the_middle(warehouse);
    assert!(shop.world.count(OPEN_CHECKOUTS) > 0, "it was killed too late to be in the middle");
    // Nobody answers: the deadline ends some, an operator another, and their payments are given back. The warehouse hears of it
    // all when it is back.
    let cancelled = shop.order(1);
    begin(shop.world.node(0), &cancelled, 600_000);
    post(shop.world.node(1), &format!("/hub/checkouts/{cancelled}/cancel"));
    shop.await_state(&cancelled, "cancelling");
    shop.world.await_count("SELECT count(*) FROM orders WHERE state = 'cancelling'", |found| found > 1);
    let warehouse = open(&shop.world, &client, &stock);
    shop.await_state(&cancelled, "not_paid");
    shop.world.await_no_open_checkout();

    // The books agree: all that is not paid for is there, and not one more.
    let crowd = "SELECT count(*) FROM orders WHERE paid AND amount = 5";
    let paid = u64::try_from(shop.world.count(crowd)).expect("a count");
    assert!((11..=orders.len() as u64).contains(&(paid - 1)), "{paid} of {} are paid", orders.len());
    assert!(shop.world.count("SELECT count(*) FROM orders WHERE why_failed = 'deadline'") > 0);
    let left = STOCK - 2 - paid;
    assert_eq!(shop.checkout(&shop.order(left + 1)), refused, "so many are not there");
    assert_eq!(shop.checkout(&shop.order(left)), (200, None), "and so many are");
    let credit = i64::try_from(CREDIT - STOCK * PRICE).expect("small");
    assert_eq!(shop.world.count("SELECT credit FROM users WHERE user_id = '0'"), credit);
    drop(warehouse);
    shop.world.verify();

    // The shop keeps its stock itself from now on, and takes for no order that was the warehouse's.
    let Shop { mut world, item } = shop;
    world.take_node().stop();
    world.take_node().stop();
    world.add_nodes(1);
    post(world.node(0), &format!("/stock/add/{item}/3"));
    post(world.node(0), "/payment/add_funds/0/100");
    let shop = Shop { world, item };
    assert_eq!(shop.checkout(&shop.order(2)), (200, None));
    assert_eq!(shop.world.count("SELECT count(*) FROM stock_transaction"), 1);
    assert_eq!(shop.world.count("SELECT stock FROM items"), 1);
    shop.world.verify();
}
