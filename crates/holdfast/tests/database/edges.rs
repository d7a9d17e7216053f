//! What callers at the edge of the shop of the database profile may rely on: bad ids, waits, a node that ends, figures.

use std::time::{Duration, Instant};

use holdfast_kafka::{Outgoing, Topic};
use holdfast_services::PATIENCE;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shop::{begin, checkout};
use crate::support::http::{exchange, figure};
use crate::support::server::Server;
use crate::support::shop::{new_item, order, post};
use crate::support::wait::await_that;
use crate::tokens::wallet::{call, issue, select};
use crate::world::World;

fn await_figure(node: &Server, name: &str, will_do: impl Fn(f64) -> bool) {
    await_that(name, || figure(node, name).unwrap_or(0.0), |value| will_do(*value));
}

/// Nobody is there for the stock, so checkouts stay open.
#[test]
fn callers_of_the_shop_are_answered() {
    let Some(mut world) = World::beside_others() else { return };
    let roles = ["--roles", "api,expiry,callbacks,order,pay", "--set", "shop.deadline_ms=600000"];
    world.add_nodes_with(1, &roles);
    post(world.node(0), "/payment/batch_init/1/100");
    let item = new_item(world.node(0), 1);
    let order = |world: &World| order(world.node(0), "0", &item, 1);
    for (method, path) in [
        ("POST", "/orders/checkout/a%00b".to_owned()),
        ("GET", "/orders/find/a%00b".to_owned()),
        ("POST", format!("/stock/add/{item}%00/1")),
        ("POST", "/hub/checkouts/a%00b/cancel".to_owned()),
        ("GET", "/hub/checkouts?after=1%20a%00b".to_owned()),
    ] {
        assert_eq!(exchange(world.node(0), method, &path, "", b"").status, 400, "{path}");
    }

    let open = order(&world);
    begin(world.node(0), &open, 600_000);
    world.await_count("SELECT count(*) FROM orders WHERE pay_outcome = 'taken'", |heard| heard == 1);
    assert_eq!(figure(world.node(0), "holdfast_checkouts_open"), Some(1));
    await_figure(world.node(0), "holdfast_checkout_oldest_seconds", |age| age > 0.0);

    // An answer in another partition than the order's is passed over, and told.
    let topics = world.topics();
    let wrong = (topics.partition(Topic::Outcomes, open.as_bytes()) + 1) % topics.partitions(Topic::Outcomes);
    let key = format!(r#"{{"order_id":"{open}","tr_num":1}}"#);
    let value = format!(r#"{{"type":"ssucc","items":[{{"id":"{item}","amnt":1}}]}}"#);
    let (topic, key, value) = (Topic::Outcomes, key.as_bytes(), value.as_bytes());
    let misplaced = [Outgoing { topic, partition: wrong, key, value }];
    world.producer().send_all(&misplaced, Instant::now() + PATIENCE).expect("Kafka takes it");
    await_figure(world.node(0), "holdfast_checkout_alarms_total", |alarms| alarms > 0.0);
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE stock_outcome IS NOT NULL"), 0);
    // So is a question: two partitions at work on one try would not see each other.
    let value = br#"{"type":"can","user_id":"0","amnt":1}"#;
    let misplaced = [Outgoing { topic: Topic::Pay, partition: wrong, key, value }];
    world.producer().send_all(&misplaced, Instant::now() + PATIENCE).expect("Kafka takes it");
    await_figure(world.node(0), "holdfast_checkout_alarms_total", |alarms| alarms > 1.0);
    assert_eq!(world.count("SELECT count(*) FROM pay_transaction WHERE is_rollback"), 0);

    post(world.node(0), &format!("/hub/checkouts/{open}/cancel"));
    await_figure(world.node(0), r#"holdfast_checkout_decisions_total{verdict="failed"}"#, |failed| {
        failed > 0.0
    });
    await_figure(world.node(0), "holdfast_checkout_compensations_total", |asked| asked > 1.0);

    // Whoever waits when the node is asked to end is told where the checkout stands.
    let waiting = order(&world);
    let (address, path) = (world.node(0).address, format!("/shop/orders/checkout/{waiting}?waitMs=60000"));
    let caller = std::thread::spawn(move || call(address, "POST", &path, &Value::Null));
    let sql = format!("SELECT count(*) FROM orders WHERE order_id = '{waiting}' AND pay_outcome = 'taken'");
    world.await_count(&sql, |heard| heard == 1);
    issue(address, "alice", &[10]);
    assert_eq!(select(address, "first", "alice", 10, &json!({})).expect("an answer").status, 200);
    let wants_tokens =
        std::thread::spawn(move || select(address, "second", "alice", 10, &json!({"waitMs": 60_000})));
    await_figure(world.node(0), "holdfast_token_waiting", |waiting| waiting > 0.0);
    World::signal(world.node(0), Signal::TERM);
    let told = caller.join().expect("a caller").expect("an answer, and no connection that is cut");
    assert_eq!((told.status, told.body["type"].as_str()), (504, Some("/problems/checkout-open")), "{told:?}");
    let told = wants_tokens.join().expect("a caller").expect("an answer, and no connection that is cut");
    assert_eq!((told.status, told.refusal()), (503, "store-unavailable"), "{told:?}");
    world.take_node().stop();

    // Nobody takes commands about orders: the caller's wait is not that of all commands.
    world.add_nodes_with(1, &["--roles", "api"]);
    let unheard = order(&world);
    let began = Instant::now();
    assert_eq!(checkout(&world, &unheard, "?waitMs=100"), 503);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}
