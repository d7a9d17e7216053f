//! How fast it is. Run alone: `cargo test -p holdfast-kafka --test broker measure -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use holdfast_kafka::{From, Producer, ProducerSettings, Topic};

use crate::support::{Cluster, Member, shortly, soon};

const BATCH: usize = 1_000;
const BATCHES: usize = 200;
const BYTES: usize = 400;

#[test]
#[ignore = "a measurement"]
fn produce_and_consume() {
    let Some(kafka) = holdfast_services::kafka() else { return };
    let value = vec![b'x'; BYTES];
    for partitions in [1, 12] {
        for linger in [0, 1, 5] {
            let cluster = Cluster::at(&kafka, &format!("measure-{partitions}-{linger}"), partitions);
            let mut settings = ProducerSettings::new(cluster.brokers.clone(), cluster.topics.clone());
            settings.linger = Duration::from_millis(linger);
            let mut producer = Producer::new(settings).unwrap();
            let keys: Vec<String> = (0..BATCH).map(|number| number.to_string()).collect();
            let batch: Vec<_> = keys
                .iter()
                .map(|key| cluster.topics.outgoing(Topic::Transfers, key.as_bytes(), &value))
                .collect();
            producer.send_all(&batch, soon()).unwrap();
            let began = Instant::now();
            let waits = timed(BATCHES, || producer.send_all(&batch, soon()).unwrap());
            let rate = rate(BATCHES * BATCH, began.elapsed());
            let (median, worst) = (waits[BATCHES / 2], waits[BATCHES - 1]);
            let single = timed(100, || producer.send_all(&batch[..1], soon()).unwrap());
            println!(
                "produce, {partitions} partitions, linger {linger} ms: {rate}/s; batch of {BATCH}: median {median:?}, \
                 worst {worst:?}; one message: median {:?}",
                single[50]
            );
            if linger == 0 {
                consume(&cluster, partitions);
            }
        }
    }
}

fn consume(cluster: &Cluster, partitions: u32) {
    let total = (BATCHES + 1) * BATCH + 100;
    let mut consumer = cluster.consumer(Topic::Transfers);
    let mut member = Member::default();
    let (mut count, mut began) = (0, None);
    while count < total {
        let Some(batch) = consumer.poll(&mut member, BATCH, shortly()).unwrap() else { continue };
        began.get_or_insert_with(Instant::now);
        count += batch.records.len();
    }
    let numbers = consumer.numbers();
    println!(
        "consume in batches, {partitions} partitions: {}/s in {} batches",
        rate(count, began.unwrap().elapsed()),
        numbers.batches
    );
    let mut producer = cluster.producer();
    let one = [cluster.topics.outgoing(Topic::Transfers, b"k", b"v")];
    producer.send_all(&one, soon()).unwrap();
    consumer.poll(&mut member, BATCH, soon()).unwrap();
    let hops = timed(200, || {
        producer.send_all(&one, soon()).unwrap();
        consumer.poll(&mut member, BATCH, soon()).unwrap().expect("it comes");
    });
    println!("one message sent and polled: median {:?}, 99 of 100 within {:?}", hops[100], hops[197]);
    let mut reader = cluster.reader(Topic::Transfers, &From::Start);
    let began = Instant::now();
    let mut count = 0;
    while !reader.at_end() {
        count += reader.poll(BATCH, shortly()).unwrap().len();
    }
    println!("read without a group, {partitions} partitions: {}/s", rate(count, began.elapsed()));
}

/// How long each of several repeats took, the shortest first.
fn timed(repeats: usize, mut work: impl FnMut()) -> Vec<Duration> {
    let mut once = || {
        let began = Instant::now();
        work();
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..repeats).map(|_| once()).collect();
    times.sort_unstable();
    times
}

fn rate(messages: usize, took: Duration) -> u64 {
    u64::try_from(messages as u128 * 1_000_000 / took.as_micros().max(1)).unwrap()
}

#[test]
#[ignore = "a measurement"]
fn write_and_read_json() {
    use holdfast_domain::command::Prepare;
    use holdfast_domain::ids::{ParticipantId, TransferId};
    use holdfast_domain::money::Amount;
    use holdfast_messages::{Message, TraceId, TransferCommand, TransferMessage};
    const MESSAGES: u128 = 100_000;
    let prepare = |id| Prepare {
        source: ParticipantId(3),
        id: TransferId(id),
        payer: ParticipantId(3),
        payee: ParticipantId(4),
        amount: Amount(125_000),
        expiration: 1_794_787_200_000,
        currency: "USD".parse().unwrap(),
        condition: [7; 32],
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    let messages: Vec<TransferMessage> = (0..MESSAGES)
        .map(|id| TransferMessage {
            trace: TraceId(id),
            command: TransferCommand::Prepare(prepare(id).hashed()),
        })
        .collect();
    let began = Instant::now();
    let written: Vec<(String, Vec<u8>)> =
        messages.iter().map(|message| (message.key(), message.to_json())).collect();
    println!("write JSON of {} bytes: {}/s", written[0].1.len(), rate(messages.len(), began.elapsed()));
    let began = Instant::now();
    for (key, value) in &written {
        TransferMessage::read(key.as_bytes(), value).unwrap();
    }
    println!("read it, hash and key checked: {}/s", rate(messages.len(), began.elapsed()));
}
