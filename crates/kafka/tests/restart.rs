//! Kafka goes away in the middle and comes back: nothing is lost, the order stays, and all go on by themselves.
//!
//! This test stops Kafka, so it is alone in this binary.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_kafka::{From, Health, Topic};
use support::{Cluster, Member, shortly, soon};

const PARTITIONS: u32 = 3;

#[test]
fn nothing_is_lost_when_kafka_is_stopped_and_killed() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    // A user's own server is not ours to stop.
    let Some(control) = kafka.control() else { return };
    let cluster = Cluster::at(&kafka, "restart", PARTITIONS);
    let (stop, sent, failed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let member = Member::default();
    let mut tail = cluster.reader(Topic::Transfers, &From::End);

    let down_seen = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A relay: sends numbered rows, and after an error begins again at the first unsent one.
            let mut producer = cluster.producer();
            let mut next = 0_u64;
            while !stop.load(Ordering::Acquire) {
                let messages = cluster.numbered(Topic::Transfers, next..next + 100);
                let batch = cluster.batch(Topic::Transfers, &messages);
                match producer.send_all(&batch, Instant::now() + Duration::from_millis(1_500)) {
                    Ok(()) => next += 100,
                    Err(error) => {
                        assert!(error.cause.may_pass(), "{error}");
                        failed.fetch_add(1, Ordering::Relaxed);
                        next += error.first_unsent as u64;
                    }
                }
                sent.store(next, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let mut consumer = cluster.consumer(Topic::Transfers);
            let handler = &mut member.clone();
            while !stop.load(Ordering::Acquire) {
                if let Some(batch) = consumer.poll(handler, 100, shortly()).unwrap()
                    && let Some(next) = handler.store.store(&batch)
                {
                    consumer.done(batch.partition, next);
                }
                if matches!(consumer.health(), Health::Down { .. }) {
                    down_seen.store(true, Ordering::Release);
                }
            }
            // All that is written is taken, by the same consumer.
            let ends = ends(&cluster);
            handler.handle_until(&mut consumer, |member| {
                ends.iter().all(|(partition, end)| {
                    member.store.rows().guards.get(partition).is_some_and(|(_, next)| next >= end)
                })
            });
            assert_eq!(consumer.health(), Health::Up);
            consumer.leave(handler);
        });

        // A failed assertion here must end the others too.
        let _stop = StopAtEnd(&stop);
        let stored_beyond = |count: usize| {
            let deadline = soon() + Duration::from_secs(30);
            while member.store.count() < count {
                assert!(Instant::now() < deadline, "{} of {count} stored", member.store.count());
                thread::park_timeout(Duration::from_millis(5));
            }
        };
        stored_beyond(500);
        for end in ["stop", "kill"] {
            let (mut leaver, mut told) = (cluster.consumer(Topic::Position), Member::default());
            told.handle_until(&mut leaver, |told| told.told().len() == PARTITIONS as usize);
            down_seen.store(false, Ordering::Release);
            if end == "stop" {
                control.stop()
            } else {
                control.kill()
            }
            let deadline = soon();
            while !down_seen.swap(false, Ordering::AcqRel) {
                assert!(Instant::now() < deadline, "the consumer does not say that Kafka is down");
                thread::park_timeout(Duration::from_millis(5));
            }
            let began = Instant::now();
            leaver.leave(&mut told);
            println!("leaving without Kafka took {:?}", began.elapsed());
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            // Who comes while Kafka is away is a member when it is back.
            let mut joiner = cluster.consumer(Topic::Notifications);
            assert_eq!(joiner.poll(&mut told, 1, shortly()).unwrap(), None);
            // Long enough for a batch to fail.
            let failures = failed.load(Ordering::Relaxed);
            while failed.load(Ordering::Relaxed) == failures {
                assert!(Instant::now() < deadline, "no batch failed");
                thread::park_timeout(Duration::from_millis(5));
            }
            let began = Instant::now();
            control.start();
            let started = Instant::now();
            let mut joined = Member::default();
            joined.handle_until(&mut joiner, |told| told.told().len() == PARTITIONS as usize);
            stored_beyond(member.store.count() + 2_000);
            println!(
                "after {end}: Kafka took {:?} to start, 2,000 more stored {:?} later",
                started - began,
                started.elapsed()
            );
        }
    });

    // What each partition holds: every number it should, in order of first writing; repeats are behind.
    let sent = sent.load(Ordering::Acquire);
    let mut repeats = 0;
    for (partition, values) in member.store.by_partition() {
        let mut seen = std::collections::BTreeSet::new();
        let first: Vec<u64> = values
            .iter()
            .map(|value| value.parse().unwrap())
            .filter(|number| {
                let new = seen.insert(*number);
                repeats += u64::from(!new);
                new
            })
            .collect();
        let known = first.iter().copied().filter(|number| *number < sent).collect::<Vec<_>>();
        let expected: Vec<u64> = (u64::from(partition)..sent).step_by(PARTITIONS as usize).collect();
        assert_eq!(known, expected, "partition {partition}");
    }
    println!("{sent} sent, {} batches failed, {repeats} messages came twice", failed.load(Ordering::Relaxed));

    // The tail, untouched meanwhile, has lost nothing either.
    let total = member.store.count();
    let deadline = soon();
    let mut tailed = 0;
    while tailed < total {
        assert!(Instant::now() < deadline, "{tailed} of {total}");
        tailed += tail.poll(1_000, shortly()).unwrap().len();
    }
    assert_eq!((tailed, tail.skipped()), (total, 0));
}

/// Where each partition ends.
fn ends(cluster: &Cluster) -> BTreeMap<u32, u64> {
    let reader = cluster.reader(Topic::Transfers, &From::End);
    (0..PARTITIONS).zip(reader.next_offsets().iter().copied()).collect()
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
