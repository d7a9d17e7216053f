//! Topics whose old records are gone, as a short retention leaves them.

use std::collections::BTreeMap;

use holdfast_kafka::Topic;
use holdfast_services::PATIENCE;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::{Offset, TopicPartitionList};

use crate::shop::{begin, checkout};
use crate::support::shop::{item, order, post};
use crate::support::world::on_runtime;
use crate::world::{self, Telling, World};

/// Nobody is there for the stock.
const WITHOUT_STOCK: [&str; 2] = ["--roles", "api,expiry,callbacks,order,pay"];

/// Longer than all of it takes.
const DEADLINE_MS: u64 = 600_000;

/// Removes what lies before these offsets of a topic's partitions.
pub fn trim(world: &World, topic: Topic, before: &[(i32, i64)]) {
    let name = world.topics().name(topic);
    let mut offsets = TopicPartitionList::new();
    for (partition, offset) in before {
        offsets.add_partition_offset(&name, *partition, Offset::Offset(*offset)).expect("an offset");
    }
    let admin: AdminClient<DefaultClientContext> = world.other_client().create().expect("a client");
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
    let trimmed = on_runtime(admin.delete_records(&offsets, &options)).expect("Kafka removes them");
    for element in trimmed.elements() {
        element.error().expect("each partition is trimmed");
    }
}

/// Partitions with a number each.
fn numbers(world: &World, sql: &str) -> Vec<(i32, i64)> {
    let rows = world.sql().query(sql, &[]).expect("rows");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// How far the handler of a topic has come.
fn committed(world: &World, topic: Topic) -> Vec<(i32, i64)> {
    let sql = "SELECT enumeration, value FROM segment WHERE segment_type = 'consumer' AND table_name = ";
    numbers(world, &format!("{sql} '{}'", topic.name()))
}

/// What a node that has all partitions has read and found open when it took them over, by its own words.
fn rebuilt(told: &Telling) -> (u64, u64) {
    let lines = told.await_lines("checkouts rebuilt", world::PARTITIONS as usize);
    let number = |line: &str, name: &str| -> u64 {
        let (_, value) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("no {name}: {line}"));
        value.split(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let mut first: BTreeMap<u64, &String> = BTreeMap::new();
    for line in &lines {
        first.entry(number(line, "partition")).or_insert(line);
    }
    assert_eq!(first.len(), world::PARTITIONS as usize, "{lines:?}");
    let sum = |name| first.values().map(|line| number(line, name)).sum();
    (sum("records"), sum("open"))
}

/// A hub that lost all that it need not read any more, with checkouts open: they end as they should, and new ones begin.
/// Then it also loses outcomes that it would read: that is told, and survived.
#[test]
fn topics_are_deleted_down_to_the_committed_offset() {
    let Some(mut world) = World::beside_others() else { return };
    world.add_nodes(1);
    post(world.node(0), "/payment/batch_init/1/100");
    let item = item(world.node(0), 1, 60);
    let order = |world: &World| order(world.node(0), "0", &item, 1);
    for _ in 0..20 {
        assert_eq!(checkout(&world, &order(&world), ""), 200);
    }
    world.take_node().stop();
    // These stay open, half answered.
    world.add_nodes_with(1, &WITHOUT_STOCK);
    let open: Vec<String> = (0..10).map(|_| order(&world)).collect();
    for order in &open {
        begin(world.node(0), order, DEADLINE_MS);
    }
    let half = "SELECT count(*) FROM orders WHERE state = 'pending' AND pay_outcome = 'taken'";
    world.await_count(half, |half| half == 10);
    world.take_node().stop();

    let kept = numbers(&world, "SELECT partition, value FROM outcome_offset");
    assert!(!kept.is_empty(), "something has ended, so the offset has risen");
    // What is told of each in the log: half an answer of each open one, and nothing of what is over.
    let ends = committed(&world, Topic::Outcomes);
    let from = |partition| kept.iter().find(|kept| kept.0 == partition).map_or(0, |kept| kept.1);
    let unread: i64 = ends.iter().map(|(partition, end)| end - from(*partition)).sum();
    assert_eq!(unread, 10, "from {kept:?} to {ends:?}");
    trim(&world, Topic::Outcomes, &kept);
    for topic in [Topic::Orders, Topic::Pay, Topic::Stock] {
        trim(&world, topic, &committed(&world, topic));
    }
    let told = world.add_telling_node(&WITHOUT_STOCK);
    assert_eq!(rebuilt(&told), (10, 10), "what is open is read, and no more");
    assert!(!told.text().contains("offset-below-log"), "nothing is missing: {}", told.text());
    world.add_nodes(1);
    let paid = "SELECT count(*) FROM orders WHERE paid";
    world.await_count(paid, |paid| paid == 30);
    for _ in 0..10 {
        assert_eq!(checkout(&world, &order(&world), ""), 200);
    }

    // Open again, and this time what a new consumer would read is gone as well: what was heard of it the rows know.
    world.take_node().stop();
    world.take_node().stop();
    world.add_nodes_with(1, &WITHOUT_STOCK);
    let lost: Vec<String> = (0..10).map(|_| order(&world)).collect();
    for order in &lost {
        begin(world.node(0), order, DEADLINE_MS);
    }
    world.await_count(half, |half| half == 10);
    world.take_node().stop();
    let needed = numbers(&world, "SELECT partition, value FROM outcome_offset");
    let ends = committed(&world, Topic::Outcomes);
    trim(&world, Topic::Outcomes, &ends);
    let told = world.add_telling_node(&WITHOUT_STOCK);
    assert_eq!(rebuilt(&told), (0, 0), "nothing is left to be read");
    for (partition, end) in ends {
        let Some((_, from)) = needed.iter().find(|needed| needed.0 == partition) else { continue };
        let why = format!("outcome_offset {from} is below the log's start {end}");
        assert_eq!(told.text().contains(&why), *from < end, "'{why}', in: {}", told.text());
    }
    assert!(told.text().contains("offset-below-log"), "{}", told.text());
    world.add_nodes(1);
    world.await_count(paid, |paid| paid == 50);
    assert_eq!(world.count("SELECT credit FROM users"), 50);
    assert_eq!(world.count("SELECT stock FROM items"), 10);
    world.verify();
}
