//! Readers get everything, from where they want, and take nothing away from anybody.

use std::time::{Duration, Instant};

use holdfast_kafka::{From, Health, KafkaError, Reader, Record, Topic};

use crate::support::{Cluster, next_records, shortly, soon};

fn numbers(records: &[Record]) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        records.iter().map(|record| String::from_utf8_lossy(&record.value).parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_tail_sees_all_that_is_written_after_it_was_opened() {
    let Some(cluster) = Cluster::new("tail", 3) else { return };
    let mut producer = cluster.producer();
    cluster.write(&mut producer, Topic::Notifications, 0..100);
    let mut tails = [(); 2].map(|()| cluster.reader(Topic::Notifications, &From::End));
    assert!(tails[0].at_end());
    cluster.write(&mut producer, Topic::Notifications, 100..400);
    for tail in &mut tails {
        assert_eq!(numbers(&next_records(tail, 300)), (100..400).collect::<Vec<_>>());
        assert!(tail.poll(40, shortly()).unwrap().is_empty());
        assert_eq!((tail.skipped(), tail.health()), (0, Health::Up));
    }
    // How soon a waiting caller hears of it, once all is warm.
    let mut waits: Vec<Duration> = (400..420)
        .map(|number| {
            cluster.write(&mut producer, Topic::Notifications, number..number + 1);
            let acknowledged = Instant::now();
            assert_eq!(numbers(&tails[0].poll(1, soon()).unwrap()), [number]);
            acknowledged.elapsed()
        })
        .collect();
    waits.sort_unstable();
    println!("from acknowledged to tailed: median {:?}, worst {:?}", waits[10], waits[19]);
}

#[test]
fn what_is_written_the_moment_after_a_tail_was_opened_is_seen() {
    let Some(cluster) = Cluster::new("moment", 3) else { return };
    let mut producer = cluster.producer();
    for round in 0..20 {
        let mut tail = cluster.reader(Topic::Notifications, &From::End);
        cluster.write(&mut producer, Topic::Notifications, round * 3..round * 3 + 3);
        let expected: Vec<u64> = (round * 3..round * 3 + 3).collect();
        assert_eq!(numbers(&next_records(&mut tail, 3)), expected, "round {round}");
    }
}

#[test]
fn a_full_reader_starts_where_it_is_told() {
    let Some(cluster) = Cluster::new("full-reader", 3) else { return };
    cluster.write(&mut cluster.producer(), Topic::Transfers, 0..300);
    assert_eq!(numbers(&cluster.all(Topic::Transfers)), (0..300).collect::<Vec<_>>());
    let mut reader = cluster.reader(Topic::Transfers, &From::Offsets(vec![100, 98, 5_000]));
    assert_eq!(reader.next_offsets(), [100, 98, 100]);
    let mut seen = Vec::new();
    let deadline = soon();
    while !reader.at_end() {
        assert!(Instant::now() < deadline);
        seen.extend(reader.poll(10, shortly()).unwrap());
    }
    assert_eq!(
        seen.iter().map(|record| (record.partition, record.offset)).collect::<Vec<_>>(),
        [(1, 98), (1, 99)]
    );
}

#[test]
fn a_topic_that_is_not_there_is_named() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    let brokers = kafka.url().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(3);
    let error = Reader::open(&brokers, "no-such-topic", &From::End, deadline).unwrap_err();
    assert!(matches!(&error, KafkaError::NoTopic(name) if name == "no-such-topic"), "{error}");
}
