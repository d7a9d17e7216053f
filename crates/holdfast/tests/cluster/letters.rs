//! Dead letters of the shop's topics, and another try for them.

use std::time::Instant;

use holdfast_kafka::{Outgoing, Topic};
use holdfast_services::PATIENCE;

use crate::shop::{checkout, ok};
use crate::support::server::run;
use crate::world::World;

/// A message that nobody can read is put aside, and the checkouts go on. Written again, it is put aside again, at its new place.
pub fn a_dead_letter_is_tried_again() {
    let Some(mut world) = World::new() else { return };
    world.add_nodes(1);
    let topics = [Topic::Orders, Topic::Pay, Topic::Stock, Topic::Outcomes];
    for topic in topics {
        let poison = Outgoing { topic, partition: 2, key: b"nobody's", value: b"nothing" };
        world.producer().send_all(&[poison], Instant::now() + PATIENCE).expect("Kafka takes it");
    }
    let letters = |count: i64| {
        world.await_count("SELECT count(*) FROM dead_letter", |found| found == count);
        world.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
    };
    letters(4);
    let kafka = format!("kafka://{}", world.brokers().to_string().trim_start_matches("kafka://"));
    let prefix = world.topics().prefix;
    let retry = |letter: &str| run(&["log", "retry", letter, "--log", &kafka, "--prefix", &prefix]);
    for topic in topics {
        let retried = retry(&format!("{}/2/0", topic.name()));
        assert!(retried.status.success(), "{retried:?}");
    }
    letters(8);
    assert_eq!(world.count("SELECT count(*) FROM dead_letter WHERE source_offset = 1"), 4);
    let unknown = retry("pay/2/77");
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no dead letter pay/2/77"));
    let shown = run(&["log", "topics", "--log", &kafka, "--prefix", &prefix]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("outcomes         2"), "{shown}");

    ok(world.node(0), "/payment/batch_init/1/10");
    let item = ok(world.node(0), "/stock/item/create/1")["item_id"].as_str().expect("an item").to_owned();
    ok(world.node(0), &format!("/stock/add/{item}/1"));
    let order = ok(world.node(0), "/orders/create/0")["order_id"].as_str().expect("an order").to_owned();
    ok(world.node(0), &format!("/orders/addItem/{order}/{item}/1"));
    assert_eq!(checkout(&world, &order, ""), 200);
}
