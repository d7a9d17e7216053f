//! Messages of a newer program wait for one; what cannot be told apart from them waits too, until an operator says otherwise.

use std::time::Instant;

use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::TransferState;
use holdfast_kafka::{Producer, ProducerSettings, Topic};
use holdfast_services::PATIENCE;

use crate::world::{World, await_part, decide, participants, prepare};

const AN_HOUR: i64 = 3_600_000;

#[test]
fn a_newer_message_stops_its_partition_and_no_other() {
    let Some(world) = World::new() else { return };
    let node = world.node(1);
    let handle = node.handle();
    let [(payer, _), (payee, _)] = participants(&handle, 1_000_000);
    let settings = world.settings(1);
    let topics = &settings.topics;
    let place = |id: u128| topics.partition(Topic::Transfers, TransferId(id).to_string().as_bytes());
    let stopped = place(1);
    let behind = (2..).find(|id| place(*id) == stopped).unwrap();
    let beside = (2..).find(|id| place(*id) != stopped).unwrap();

    let newer = br#"{"v":2,"trace":"00000000000000000000000000000001","what":"nobody here knows"}"#;
    let key = TransferId(1).to_string();
    let mut producer =
        Producer::new(ProducerSettings::new(settings.brokers.clone(), topics.clone())).unwrap();
    let message = topics.outgoing(Topic::Transfers, key.as_bytes(), newer);
    producer.send_all(&[message], Instant::now() + PATIENCE).unwrap();
    await_part(&handle, "transfers", |trouble| trouble.is_some_and(|why| why.contains("has version 2")));

    let pay = |id| prepare(id, payer, payee, 10_000, world.in_ms(AN_HOUR));
    handle.write(vec![pay(behind)], Box::new(|written| assert!(written.is_ok()))).unwrap();
    let outcomes = decide(&handle, vec![pay(beside)]).unwrap();
    assert_eq!(outcomes[0].state, Some(TransferState::Reserved), "other partitions go on");
    assert_eq!(world.count("SELECT count(*) FROM dead_letter"), 0, "it is not buried");
    assert_eq!(world.count("SELECT count(*) FROM transfer"), 1, "and nothing overtakes it");

    // An operator who knows that nobody will ever read it skips it.
    let skip = format!(
        "WITH moved AS (UPDATE segment SET value = value + 1 WHERE segment_type = 'consumer'
             AND table_name = 'transfers' AND enumeration = {stopped} RETURNING 1)
         SELECT count(*) FROM moved"
    );
    assert_eq!(world.count(&skip), 1);
    world.await_count("SELECT count(*) FROM transfer", 2);
    await_part(&handle, "transfers", |trouble| trouble.is_none());
    for part in handle.health().parts().iter().filter(|part| part.name() != "delivery") {
        assert_eq!(part.trouble(), None, "{}", part.name());
    }
    node.stop();
    world.check();
}
