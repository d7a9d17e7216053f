//! What these tests share: topics of their own, and a store in memory that fences as the database does.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_kafka::{
    Batch, Brokers, Claim, ConsumerSettings, Fault, From, GroupConsumer, Outgoing, Owner, Producer,
    ProducerSettings, Reader, Record, Release, Topic, TopicSettings,
};
use holdfast_services::Service;

/// How long any one step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// A short while, for polls in a loop with a deadline of its own.
pub(crate) fn shortly() -> Instant {
    Instant::now() + Duration::from_millis(200)
}

/// Topics that only this test uses.
pub(crate) struct Cluster {
    pub(crate) brokers: Brokers,
    pub(crate) topics: TopicSettings,
}

impl Cluster {
    /// `None` where the tests have no Kafka.
    pub(crate) fn new(purpose: &str, partitions: u32) -> Option<Cluster> {
        let kafka = holdfast_services::kafka()?;
        Some(Cluster::at(&kafka, purpose, partitions))
    }

    pub(crate) fn at(kafka: &Service, purpose: &str, partitions: u32) -> Cluster {
        let cluster = Cluster::named(kafka, &format!("kafka-{purpose}-{}-", process::id()), partitions);
        cluster.topics.ensure(&cluster.brokers, soon()).expect("Kafka makes topics");
        cluster
    }

    pub(crate) fn named(kafka: &Service, prefix: &str, partitions: u32) -> Cluster {
        let topics = TopicSettings::of(prefix, partitions);
        Cluster { brokers: kafka.url().parse().expect("an address"), topics }
    }

    pub(crate) fn producer(&self) -> Producer {
        Producer::new(ProducerSettings::new(self.brokers.clone(), self.topics.clone())).expect("a producer")
    }

    pub(crate) fn consumer(&self, topic: Topic) -> GroupConsumer {
        GroupConsumer::join(self.settings(topic)).expect("a consumer")
    }

    pub(crate) fn settings(&self, topic: Topic) -> ConsumerSettings {
        let name = self.topics.name(topic);
        ConsumerSettings::new(self.brokers.clone(), format!("{name}-handlers"), name)
    }

    pub(crate) fn reader(&self, topic: Topic, from: &From) -> Reader {
        Reader::open(&self.brokers, &self.topics.name(topic), from, soon()).expect("a reader")
    }

    /// All that lies in a topic.
    pub(crate) fn all(&self, topic: Topic) -> Vec<Record> {
        let mut reader = self.reader(topic, &From::Start);
        let deadline = soon();
        let mut records = Vec::new();
        while !reader.at_end() {
            assert!(Instant::now() < deadline, "only {} came", records.len());
            records.extend(reader.poll(10_000, shortly()).expect("a reader"));
        }
        records
    }

    /// Numbered messages for the partitions in turn, each a key and a value; the value is the number.
    pub(crate) fn numbered(&self, topic: Topic, numbers: Range<u64>) -> Vec<(String, String)> {
        let keys = self.keys(topic);
        let key = |number| keys[usize::try_from(number).unwrap() % keys.len()].clone();
        numbers.map(|number| (key(number), number.to_string())).collect()
    }

    /// Messages, each a key and a value, on their way.
    pub(crate) fn batch<'a, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        topic: Topic,
        messages: &'a [(K, V)],
    ) -> Vec<Outgoing<'a>> {
        let outgoing = messages.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        outgoing.map(|(key, value)| self.topics.outgoing(topic, key, value)).collect()
    }

    /// Writes numbered messages.
    pub(crate) fn write(&self, producer: &mut Producer, topic: Topic, numbers: Range<u64>) {
        let messages = self.numbered(topic, numbers);
        producer.send_all(&self.batch(topic, &messages), soon()).expect("Kafka writes");
    }

    /// One key for each partition, so that numbered messages are spread evenly.
    pub(crate) fn keys(&self, topic: Topic) -> Vec<String> {
        let mut keys = BTreeMap::new();
        for key in (0_u32..).map(|number| number.to_string()) {
            if keys.len() == self.topics.partitions(topic) as usize {
                break;
            }
            keys.entry(self.topics.partition(topic, key.as_bytes())).or_insert(key);
        }
        keys.into_values().collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What cannot be removed lies there until `services clear`.
        let _ = self.topics.remove(&self.brokers, soon());
    }
}

/// The next batch, of any partition.
pub(crate) fn next_batch(consumer: &mut GroupConsumer, owner: &mut dyn Owner, messages_max: usize) -> Batch {
    let deadline = soon();
    loop {
        assert!(Instant::now() < deadline, "{:?}", consumer.numbers());
        if let Some(batch) = consumer.poll(owner, messages_max, shortly()).expect("a consumer") {
            return batch;
        }
    }
}

/// The next messages, so many at least.
pub(crate) fn next_records(reader: &mut Reader, count: usize) -> Vec<Record> {
    let (deadline, mut records) = (soon(), Vec::new());
    while records.len() < count {
        assert!(Instant::now() < deadline, "only {} came", records.len());
        records.extend(reader.poll(40, shortly()).expect("a reader"));
    }
    records
}

/// Stands for the database: epochs, next offsets and what was stored, all changed together.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<Rows>>);

#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) guards: BTreeMap<u32, (i64, u64)>,
    /// Partition, offset and value, in the order of storing.
    pub(crate) stored: Vec<(u32, u64, String)>,
    pub(crate) fenced: u64,
}

impl Store {
    pub(crate) fn rows(&self) -> std::sync::MutexGuard<'_, Rows> {
        self.0.lock().expect("nobody panicked")
    }

    pub(crate) fn claim(&self, partition: u32) -> Claim {
        let mut rows = self.rows();
        let (epoch, next_offset) = rows.guards.entry(partition).or_default();
        *epoch += 1;
        Claim { epoch: *epoch, next_offset: *next_offset }
    }

    /// Stores a batch, if it is its claimer's and follows on what is there. Gives back the next offset.
    pub(crate) fn store(&self, batch: &Batch) -> Option<u64> {
        let mut rows = self.rows();
        let guard = rows.guards.get(&batch.partition).copied();
        if guard != Some((batch.epoch, batch.from)) {
            rows.fenced += 1;
            return None;
        }
        for record in &batch.records {
            let value = String::from_utf8_lossy(&record.value).into_owned();
            rows.stored.push((batch.partition, record.offset, value));
        }
        rows.guards.insert(batch.partition, (batch.epoch, batch.next_offset()));
        Some(batch.next_offset())
    }

    pub(crate) fn count(&self) -> usize {
        self.rows().stored.len()
    }

    /// The values of each partition in the order of storing; the offsets must be 0, 1, 2, …
    pub(crate) fn by_partition(&self) -> BTreeMap<u32, Vec<String>> {
        let mut values: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (partition, offset, value) in &self.rows().stored {
            let of_partition = values.entry(*partition).or_default();
            assert_eq!(*offset, of_partition.len() as u64, "partition {partition}");
            of_partition.push(value.clone());
        }
        values
    }

    /// Each of so many numbered messages is stored once, in the order of its partition, whoever stored it.
    pub(crate) fn assert_holds(&self, messages: u64, partitions: usize) {
        for (partition, values) in self.by_partition() {
            let expected = (u64::from(partition)..messages).step_by(partitions);
            assert_eq!(values, expected.map(|number| number.to_string()).collect::<Vec<_>>());
        }
    }
}

/// A handler's side: claims from the store and remembers what it was told.
#[derive(Clone, Default)]
pub(crate) struct Member {
    pub(crate) store: Store,
    pub(crate) told: Arc<Mutex<Vec<Told>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Claimed(u32),
    Released(u32, Release),
    Faulted(u32, Fault),
}

impl Member {
    pub(crate) fn of(store: &Store) -> Member {
        Member { store: store.clone(), told: Arc::default() }
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().expect("nobody panicked").clone()
    }

    fn tell(&self, told: Told) {
        self.told.lock().expect("nobody panicked").push(told);
    }

    /// Takes batches and stores them until the condition holds.
    pub(crate) fn handle_until(
        &mut self,
        consumer: &mut GroupConsumer,
        mut done: impl FnMut(&Member) -> bool,
    ) {
        let deadline = Instant::now() + 2 * PATIENCE;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "{} stored, told {:?}, {:?}",
                self.store.count(),
                self.told(),
                consumer.numbers()
            );
            let batch = consumer.poll(&mut self.clone(), 100, shortly()).expect("a consumer");
            let Some(batch) = batch else { continue };
            if let Some(next) = self.store.store(&batch) {
                consumer.done(batch.partition, next);
            }
        }
    }
}

impl Owner for Member {
    fn claim(&mut self, partition: u32) -> Result<Claim, Box<dyn std::error::Error + Send + Sync>> {
        self.tell(Told::Claimed(partition));
        Ok(self.store.claim(partition))
    }

    fn released(&mut self, partition: u32, why: Release) {
        self.tell(Told::Released(partition, why));
    }

    fn faulted(&mut self, partition: u32, fault: Fault) {
        self.tell(Told::Faulted(partition, fault));
    }
}
