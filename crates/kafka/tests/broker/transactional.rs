//! Somebody outside writes with Kafka's transactions. Each leaves a mark behind that takes an offset and is given to nobody, and so do
//! all messages of one that was given up.

use std::time::Instant;

use holdfast_kafka::{From, Topic};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use crate::support::{Cluster, Member, PATIENCE, Told, next_batch, shortly, soon};

const TOPIC: Topic = Topic::Transfers;

fn outsider(cluster: &Cluster) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", cluster.brokers.to_string())
        .set("transactional.id", cluster.topics.name(TOPIC))
        .create()
        .expect("a producer");
    producer.init_transactions(PATIENCE).expect("Kafka knows it");
    producer
}

fn say(cluster: &Cluster, producer: &BaseProducer, value: &str) {
    let name = cluster.topics.name(TOPIC);
    let record = BaseRecord::to(&name).partition(0).key("k").payload(value);
    producer.send(record).map_err(|(error, _)| error).expect("there is room");
}

/// A committed message, a given up one, two committed together, and a given up one at the end: offsets 0, 2, 4 and 5, 7.
fn speak(cluster: &Cluster) {
    let producer = outsider(cluster);
    for (values, commits) in [(&["a"][..], true), (&["gone"], false), (&["b", "c"], true), (&["gone"], false)]
    {
        producer.begin_transaction().expect("one at a time");
        values.iter().for_each(|value| say(cluster, &producer, value));
        producer.flush(PATIENCE).expect("Kafka takes them");
        match commits {
            true => producer.commit_transaction(PATIENCE),
            false => producer.abort_transaction(PATIENCE),
        }
        .expect("it ends");
    }
}

#[test]
fn a_consumer_goes_on_behind_the_marks_of_transactions() {
    let Some(cluster) = Cluster::new("transactional", 1) else { return };
    speak(&cluster);
    let mut producer = cluster.producer();
    cluster.write(&mut producer, TOPIC, 7..8);
    let (mut consumer, member) = (cluster.consumer(TOPIC), Member::default());
    let mut values: Vec<Vec<u8>> = Vec::new();
    while values.len() < 4 {
        // One at a time: also a batch that begins behind a hole is stored at the offset that was due.
        let batch = next_batch(&mut consumer, &mut member.clone(), 1);
        let next = member.store.store(&batch).expect("it begins where the last one ended");
        consumer.done(batch.partition, next);
        values.extend(batch.records.into_iter().map(|record| record.value));
    }
    assert_eq!(values, [b"a", b"b", b"c", b"7"]);
    let faults = member.told().into_iter().filter(|told| matches!(told, Told::Faulted(..)));
    assert_eq!(faults.count(), 0);
}

#[test]
fn a_reader_comes_to_an_end_that_is_a_mark() {
    let Some(cluster) = Cluster::new("transactional-end", 2) else { return };
    speak(&cluster);
    let values: Vec<Vec<u8>> = cluster.all(TOPIC).into_iter().map(|record| record.value).collect();
    assert_eq!(values, [b"a", b"b", b"c"]);
    // Also where nothing is left but marks.
    let mut reader = cluster.reader(TOPIC, &From::Offset(6));
    let deadline = soon();
    while !reader.at_end() {
        assert!(Instant::now() < deadline, "at {:?} of {:?}", reader.next_offsets(), reader.ends());
        assert_eq!(reader.poll(10, shortly()).expect("a reader").len(), 0);
    }
}
