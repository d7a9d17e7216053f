//! Dead letters of the shop's topics, and another try for them.

use std::time::Instant;

use holdfast_kafka::{Outgoing, Topic};
use holdfast_services::PATIENCE;

use crate::shop::{begin, checkout};
use crate::support::command::{assert_says, done, refused};
use crate::support::server::run;
use crate::support::shop::{item, order, post};
use crate::world::World;

/// A message that nobody can read is put aside, and the checkouts go on. Written again, it is put aside again, at its new place. One
/// that the database refused is done once that takes it.
#[test]
fn a_dead_letter_is_tried_again() {
    let Some(mut world) = World::beside_others() else { return };
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
        done(&retry(&format!("{}/2/0", topic.name())));
    }
    letters(8);
    assert_eq!(world.count("SELECT count(*) FROM dead_letter WHERE source_offset = 1"), 4);
    refused(&retry("pay/2/77"), 2, &["there is no dead letter pay/2/77"]);
    let shown = done(&run(&["log", "topics", "--log", &kafka, "--prefix", &prefix]));
    assert_says(&shown, &["outcomes         2"]);

    post(world.node(0), "/payment/batch_init/1/10");
    let item = item(world.node(0), 1, 1);
    let order = || order(world.node(0), "0", &item, 1);
    assert_eq!(checkout(&world, &order(), ""), 200);

    // A rule of the database's owner is in the way of one message: it is put aside, and all others go on. The rule goes, the
    // message is tried again, and the checkout ends as if nothing had been.
    post(world.node(0), &format!("/stock/add/{item}/2"));
    let held_up = order();
    let rule =
        format!("ALTER TABLE stock_transaction ADD CONSTRAINT no_sale CHECK (order_id <> '{held_up}')");
    world.sql().batch_execute(&rule).expect("a rule");
    begin(world.node(0), &held_up, 600_000);
    letters(9);
    assert_eq!(checkout(&world, &order(), ""), 200, "others go on");
    let buried =
        "SELECT source_offset, enumeration::text, reason FROM dead_letter JOIN segment USING (segment_id)
                  WHERE table_name = 'stock' ORDER BY dead_letter_id DESC LIMIT 1";
    let row = world.sql().query_one(buried, &[]).expect("it is there");
    let (offset, partition, reason): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
    assert!(reason.contains("no_sale"), "{reason}");
    world.sql().batch_execute("ALTER TABLE stock_transaction DROP CONSTRAINT no_sale").expect("it goes");
    let open = format!("SELECT count(*) FROM orders WHERE order_id = '{held_up}' AND state = 'pending'");
    assert_eq!(world.count(&open), 1, "nobody else asks for it");
    done(&retry(&format!("stock/{partition}/{offset}")));
    assert_eq!(checkout(&world, &held_up, ""), 200);
    assert_eq!(world.count("SELECT stock FROM items"), 0);
    assert_eq!(world.count("SELECT credit FROM users"), 7);
    assert_eq!(world.count("SELECT count(*) FROM dead_letter"), 9, "it was not buried again");
}
