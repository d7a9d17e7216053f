//! Members of a group share the partitions; whoever gets one goes on where its store says.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_kafka::{Claim, Fault, GroupConsumer, Health, Owner, Release, Topic};

use crate::support::{Cluster, Member, PATIENCE, Store, Told, next_batch, shortly, soon};

/// Names the topics to the process that is to be killed.
const CHILD: &str = "HOLDFAST_KAFKA_TEST_CHILD";

#[test]
fn a_batch_is_of_one_partition_bounded_and_in_turn() {
    let Some(cluster) = Cluster::new("turn", 4) else { return };
    cluster.write(&mut cluster.producer(), Topic::Transfers, 0..4_000);
    let mut settings = cluster.settings(Topic::Transfers);
    settings.batch_bytes_max = 300;
    let mut consumer = GroupConsumer::join(settings).unwrap();
    let mut member = Member::default();
    let deadline = soon();
    // Until all are fetched ahead, which Kafka's word on their ends shows, so that turns can be seen.
    let fetched = |consumer: &GroupConsumer| {
        let partitions = consumer.numbers().partitions;
        partitions.len() == 4 && partitions.iter().all(|partition| partition.lag.is_some())
    };
    while !fetched(&consumer) {
        assert!(Instant::now() < deadline, "{:?}", consumer.numbers());
        if let Some(batch) = consumer.poll(&mut member, 1, shortly()).unwrap() {
            consumer.done(batch.partition, member.store.store(&batch).expect("nobody else has it"));
        }
        (0..4).for_each(|partition| consumer.pause(partition));
    }
    (0..4).for_each(|partition| consumer.resume(partition));
    let mut sequence = Vec::new();
    while member.store.count() < 4_000 {
        let batch = next_batch(&mut consumer, &mut member, 70);
        assert!(batch.records.len() <= 70);
        assert!(batch.records.iter().map(holdfast_kafka::Record::bytes).sum::<usize>() <= 300);
        assert!(batch.records.iter().all(|record| record.partition == batch.partition));
        let next = member.store.store(&batch).expect("nobody else has it");
        consumer.done(batch.partition, next);
        sequence.push(batch.partition);
    }
    member.store.assert_holds(4_000, 4);
    // Nobody is served twice while another waits.
    let half = &sequence[..sequence.len() / 2];
    assert!(half.windows(2).all(|pair| pair[0] != pair[1]), "{half:?}");
    // Statistics come once a second.
    let lag_known = |member: &Member, consumer: &mut GroupConsumer| {
        consumer.poll(&mut member.clone(), 1, shortly()).unwrap();
        consumer.numbers().partitions.iter().all(|partition| partition.lag == Some(0))
    };
    let deadline = soon();
    while !lag_known(&member, &mut consumer) {
        assert!(Instant::now() < deadline, "{:?}", consumer.numbers());
    }
    let numbers = consumer.numbers();
    assert_eq!((numbers.messages, numbers.partitions.len(), numbers.rebalances), (4_000, 4, 1));
    assert_eq!(consumer.health(), Health::Up);
    assert!(numbers.largest_batch <= 70);
}

#[test]
fn a_paused_partition_waits_and_a_rewound_one_comes_again() {
    let Some(cluster) = Cluster::new("pause", 2) else { return };
    cluster.write(&mut cluster.producer(), Topic::Transfers, 0..200);
    let mut consumer = cluster.consumer(Topic::Transfers);
    let mut member = Member::default();
    let deadline = soon();
    while consumer.partitions().count() < 2 {
        assert!(Instant::now() < deadline);
        consumer.poll(&mut member, 0, Instant::now()).unwrap();
        // One message may have come with the assignment; all come again.
        thread::yield_now();
    }
    for partition in 0..2 {
        consumer.rewind(partition, 0).unwrap();
    }
    consumer.pause(1);
    let mut seen = Vec::new();
    while seen.len() < 100 {
        let batch = next_batch(&mut consumer, &mut member, 30);
        assert_eq!(batch.partition, 0);
        seen.extend(batch.records.into_iter().map(|record| record.offset));
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    assert_eq!(consumer.poll(&mut member, 30, shortly()).unwrap(), None);
    consumer.rewind(0, 90).unwrap();
    consumer.resume(1);
    let mut again = [Vec::new(), Vec::new()];
    while again[0].len() < 10 || again[1].len() < 100 {
        let batch = next_batch(&mut consumer, &mut member, 30);
        again[batch.partition as usize].extend(batch.records.into_iter().map(|record| record.offset));
    }
    assert_eq!(again, [(90..100).collect::<Vec<_>>(), (0..100).collect()]);
}

/// Fails its first claims, as when the database is away.
struct Reluctant {
    member: Member,
    failures: u32,
}

impl Owner for Reluctant {
    fn claim(&mut self, partition: u32) -> Result<Claim, Box<dyn std::error::Error + Send + Sync>> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err("the database is away".into());
        }
        self.member.claim(partition)
    }

    fn released(&mut self, partition: u32, why: Release) {
        self.member.released(partition, why);
    }

    fn faulted(&mut self, partition: u32, fault: Fault) {
        self.member.faulted(partition, fault);
    }
}

#[test]
fn a_claim_that_fails_is_tried_again() {
    let Some(cluster) = Cluster::new("claim", 3) else { return };
    cluster.write(&mut cluster.producer(), Topic::Transfers, 0..300);
    let mut consumer = cluster.consumer(Topic::Transfers);
    let mut owner = Reluctant { member: Member::default(), failures: 5 };
    while owner.member.store.count() < 300 {
        let batch = next_batch(&mut consumer, &mut owner, 100);
        owner.member.store.store(&batch).expect("nobody else has it");
    }
    assert_eq!((owner.failures, consumer.numbers().claim_failures), (0, 5));
    // One that could not be claimed must not stand in the way of leaving.
    let mut stubborn = Reluctant { member: Member::default(), failures: u32::MAX };
    let mut second = cluster.consumer(Topic::Transfers);
    let deadline = soon();
    while second.numbers().claim_failures == 0 {
        assert!(Instant::now() < deadline, "{:?}", second.numbers());
        second.poll(&mut stubborn, 1, shortly()).unwrap();
        consumer.poll(&mut owner, 1, shortly()).unwrap();
    }
    let began = Instant::now();
    second.leave(&mut stubborn);
    consumer.leave(&mut owner);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn who_joins_gets_a_share_and_who_leaves_gives_it_back_at_once() {
    let Some(cluster) = Cluster::new("join", 4) else { return };
    let mut producer = cluster.producer();
    let store = Store::default();
    let (mut first, mut second) = (Member::of(&store), Member::of(&store));
    let mut consumer = cluster.consumer(Topic::Transfers);
    cluster.write(&mut producer, Topic::Transfers, 0..2_000);
    first.handle_until(&mut consumer, |member| member.store.count() >= 1_000);
    assert_eq!(consumer.partitions().count(), 4);

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let told = second.clone();
        let (stop, cluster) = (&stop, &cluster);
        let joiner = scope.spawn(move || {
            let mut consumer = cluster.consumer(Topic::Transfers);
            second.handle_until(&mut consumer, |_| stop.load(Ordering::Acquire));
            consumer.leave(&mut second);
        });
        first.handle_until(&mut consumer, |_| {
            told.told().iter().filter(|told| matches!(told, Told::Claimed(_))).count() >= 2
        });
        cluster.write(&mut producer, Topic::Transfers, 2_000..6_000);
        first.handle_until(&mut consumer, |member| member.store.count() >= 6_000);
        assert_eq!(consumer.partitions().count(), 2);
        let released: Vec<Told> =
            first.told().into_iter().filter(|told| matches!(told, Told::Released(..))).collect();
        assert!(
            matches!(
                released[..],
                [Told::Released(_, Release::Revoked), Told::Released(_, Release::Revoked)]
            ),
            "{released:?}"
        );
        stop.store(true, Ordering::Release);
        let began = Instant::now();
        while consumer.partitions().count() < 4 {
            assert!(began.elapsed() < Duration::from_secs(5), "who leaves is not waited for");
            consumer.poll(&mut first, 1, shortly()).unwrap();
        }
        joiner.join().unwrap();
        let left = told.told().into_iter().filter(|told| matches!(told, Told::Released(_, Release::Left)));
        assert_eq!(left.count(), 2);
    });
    store.assert_holds(6_000, 4);
}

#[test]
fn who_stays_away_too_long_is_told_before_anything_else() {
    let Some(cluster) = Cluster::new("away", 1) else { return };
    let mut producer = cluster.producer();
    cluster.write(&mut producer, Topic::Transfers, 0..500);
    let store = Store::default();
    let (mut away, mut other) = (Member::of(&store), Member::of(&store));
    let mut settings = cluster.settings(Topic::Transfers);
    settings.poll_every_max = settings.session_timeout;
    let mut late = GroupConsumer::join(settings.clone()).unwrap();
    let batch = next_batch(&mut late, &mut away, 100);
    // It holds a batch and does not come back; the other takes over and stores all.
    let mut consumer = GroupConsumer::join(settings).unwrap();
    other.handle_until(&mut consumer, |member| member.store.count() >= 500);
    assert_eq!(store.store(&batch), None, "a zombie writes nothing");
    // Much of the log is fetched ahead, and yet nothing of it comes now.
    let next = late.poll(&mut away, 100, shortly()).unwrap();
    assert_eq!(next, None);
    assert_eq!(away.told(), [Told::Claimed(0), Told::Released(0, Release::Lost)]);
    assert_eq!(late.partitions().count(), 0);
    // It is a member again by itself.
    consumer.leave(&mut other);
    cluster.write(&mut producer, Topic::Transfers, 500..700);
    away.handle_until(&mut late, |member| member.store.count() >= 700);
    store.assert_holds(700, 1);
}

#[test]
fn who_is_fenced_by_a_late_claim_claims_anew() {
    let Some(cluster) = Cluster::new("fenced", 1) else { return };
    cluster.write(&mut cluster.producer(), Topic::Transfers, 0..300);
    let mut member = Member::default();
    let mut consumer = cluster.consumer(Topic::Transfers);
    member.handle_until(&mut consumer, |member| member.store.count() >= 100);
    // A claim that was on its way for long, by a node to which the partition no longer belongs.
    member.store.claim(0);
    while member.store.count() < 300 {
        let batch = next_batch(&mut consumer, &mut member, 50);
        if member.store.store(&batch).is_none() {
            consumer.reclaim(batch.partition).unwrap();
            assert_eq!(consumer.partitions().count(), 0);
        }
    }
    assert_eq!(member.store.rows().fenced, 1);
    assert_eq!(member.told(), [Told::Claimed(0), Told::Claimed(0)]);
    member.store.by_partition();
}

#[test]
fn a_killed_member_is_replaced_within_ten_seconds() {
    let Some(cluster) = Cluster::new("killed", 4) else { return };
    let mut producer = cluster.producer();
    cluster.write(&mut producer, Topic::Transfers, 0..1_000);
    let store = Store::default();

    // The child stores by telling us, as it would tell a database.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["group::the_member_that_is_killed", "--exact", "--nocapture"])
        .env(CHILD, &cluster.topics.prefix)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = store.clone();
    let listener = thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let fields: Vec<&str> = line.split(' ').collect();
            let ["stored", partition, offset, value] = fields[..] else { continue };
            let (partition, offset): (u32, u64) = (partition.parse().unwrap(), offset.parse().unwrap());
            let mut rows = told.rows();
            rows.stored.push((partition, offset, value.to_owned()));
            rows.guards.entry(partition).or_default().1 = offset + 1;
        }
    });
    let deadline = soon();
    while store.count() < 1_000 {
        assert!(Instant::now() < deadline, "the child stored only {}", store.count());
        thread::yield_now();
    }

    let mut member = Member::of(&store);
    let mut consumer = cluster.consumer(Topic::Transfers);
    member.handle_until(&mut consumer, |member| member.told().len() >= 2);
    cluster.write(&mut producer, Topic::Transfers, 1_000..2_000);
    member.handle_until(&mut consumer, |member| member.store.count() >= 2_000);
    assert_eq!(consumer.partitions().count(), 2);

    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap();
    let killed = Instant::now();
    cluster.write(&mut producer, Topic::Transfers, 2_000..3_000);
    member.handle_until(&mut consumer, |member| member.store.count() >= 3_000);
    assert!(killed.elapsed() < Duration::from_secs(10), "it took {:?}", killed.elapsed());
    println!("takeover after kill -9: {:?}", killed.elapsed());
    assert_eq!(consumer.partitions().count(), 4);
    store.assert_holds(3_000, 4);
}

/// Not a test of its own: the other process of the test above.
#[test]
fn the_member_that_is_killed() {
    let (Ok(prefix), Some(kafka)) = (std::env::var(CHILD), holdfast_services::kafka()) else { return };
    let cluster = std::mem::ManuallyDrop::new(Cluster::named(&kafka, &prefix, 4));
    let mut consumer = cluster.consumer(Topic::Transfers);
    let mut member = Member::default();
    let ends = Instant::now() + 4 * PATIENCE;
    let mut out = std::io::stdout();
    while Instant::now() < ends {
        let Some(batch) = consumer.poll(&mut member, 50, shortly()).unwrap() else { continue };
        let mut lines = String::new();
        for record in &batch.records {
            let value = String::from_utf8_lossy(&record.value);
            lines.push_str(&format!("stored {} {} {value}\n", record.partition, record.offset));
        }
        out.write_all(lines.as_bytes()).unwrap();
        out.flush().unwrap();
    }
}
