//! A batch is written whole and in order, or the caller learns from where on it is not known.

use std::time::{Duration, Instant};

use holdfast_kafka::{Health, Producer, ProducerSettings, SendCause, Topic, TopicSettings};

use crate::support::{Cluster, soon};

#[test]
fn batches_are_written_in_order() {
    let Some(cluster) = Cluster::new("order", 4) else { return };
    let mut producer = cluster.producer();
    let keys = cluster.keys(Topic::Position);
    for round in 0..20 {
        cluster.write(&mut producer, Topic::Position, round * 500..(round + 1) * 500);
    }
    producer.send_all(&[], soon()).expect("nothing is soon done");
    let mut of_partition = vec![Vec::new(); 4];
    for record in cluster.all(Topic::Position) {
        assert_eq!(record.key, keys[record.partition as usize].as_bytes());
        assert!(record.timestamp > 0);
        of_partition[record.partition as usize].push(String::from_utf8(record.value).unwrap());
    }
    for (partition, values) in of_partition.into_iter().enumerate() {
        let expected: Vec<String> =
            (0..10_000).filter(|number| number % 4 == partition).map(|number| number.to_string()).collect();
        assert_eq!(values, expected, "partition {partition}");
    }
    let numbers = producer.numbers();
    assert_eq!((numbers.batches, numbers.messages, numbers.largest_batch), (21, 10_000, 500));
    assert_eq!(numbers.failures, 0);
}

#[test]
fn more_than_the_client_holds_is_written_too() {
    let Some(cluster) = Cluster::new("full", 1) else { return };
    let mut producer = cluster.producer();
    let value = vec![b'x'; 900];
    let batch: Vec<_> =
        (0..120_000).map(|_| cluster.topics.outgoing(Topic::Transfers, b"k", &value)).collect();
    producer.send_all(&batch, soon()).expect("Kafka writes");
    assert_eq!(cluster.all(Topic::Transfers).len(), 120_000);
}

#[test]
fn a_message_that_is_too_large_stops_the_batch_at_its_place() {
    let Some(cluster) = Cluster::new("large", 2) else { return };
    let mut producer = cluster.producer();
    let sizes = [10, (1 << 20) - 513, 1 << 20, 20];
    let values = sizes.map(|bytes| vec![b'x'; bytes]);
    let batch: Vec<_> =
        values.iter().map(|value| cluster.topics.outgoing(Topic::Transfers, b"k", value)).collect();
    let error = producer.send_all(&batch, soon()).unwrap_err();
    assert_eq!((error.first_unsent, &error.cause), (2, &SendCause::TooLarge((1 << 20) + 1)));
    assert!(!error.cause.may_pass());
    producer.send_all(&batch[3..], soon()).expect("the caller goes on behind it");
    let sizes: Vec<usize> = cluster.all(Topic::Transfers).iter().map(|record| record.value.len()).collect();
    assert_eq!(sizes, [10, (1 << 20) - 513, 20]);
}

#[test]
fn without_kafka_the_deadline_ends_the_wait() {
    let brokers = "kafka://127.0.0.1:1".parse().unwrap();
    let topics = TopicSettings::default();
    let mut producer = Producer::new(ProducerSettings::new(brokers, topics.clone())).unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        let batch = [topics.outgoing(Topic::Transfers, b"k", b"v"); 3];
        let error = producer.send_all(&batch, began + Duration::from_millis(1_200)).unwrap_err();
        assert_eq!(error.first_unsent, 0);
        assert!(matches!(&error.cause, SendCause::Deadline(last) if !last.is_empty()), "{error}");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
    assert!(matches!(producer.health(), Health::Down { .. }), "{:?}", producer.health());
    assert_eq!(producer.numbers().failures, 2);
}

#[test]
fn deadlines_that_are_too_short_lose_nothing_and_keep_the_order() {
    let Some(cluster) = Cluster::new("short", 3) else { return };
    let mut producer = cluster.producer();
    let messages = cluster.numbered(Topic::Position, 0..30_000);
    let batch = cluster.batch(Topic::Position, &messages);
    let (mut next, mut wait) = (0, Duration::ZERO);
    while next < batch.len() {
        let end = batch.len().min(next + 1_000);
        // From far too short to just enough and back.
        wait += Duration::from_micros(200);
        if wait > Duration::from_millis(12) {
            wait = Duration::ZERO;
        }
        match producer.send_all(&batch[next..end], Instant::now() + wait) {
            Ok(()) => next = end,
            Err(error) => next += error.first_unsent,
        }
    }
    let failures = producer.numbers().failures;
    assert!(failures > 5, "only {failures} batches failed");
    let mut first = vec![Vec::new(); 3];
    let mut seen = std::collections::BTreeSet::new();
    let records = cluster.all(Topic::Position);
    for record in &records {
        let number: usize = String::from_utf8_lossy(&record.value).parse().unwrap();
        if seen.insert(number) {
            first[record.partition as usize].push(number);
        }
    }
    println!("{failures} batches failed, {} messages came twice", records.len() - seen.len());
    for (partition, numbers) in first.into_iter().enumerate() {
        assert_eq!(numbers, (partition..30_000).step_by(3).collect::<Vec<_>>(), "partition {partition}");
    }
}
