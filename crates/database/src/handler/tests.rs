//! Handlers with hops that fail on purpose.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use holdfast_engine::Monitor;
use holdfast_kafka::{Producer, ProducerSettings};
use holdfast_postgres::{Done, Source};
use holdfast_services::{Database, PATIENCE};

use holdfast_messages::{Topic, TransferMessage};

use super::*;
use crate::health::Part;
use crate::node::Starting;
use crate::outboxes::Outboxes;
use crate::scene::servers;
use crate::settings::NodeSettings;

/// One handler over two partitions, with its workers and its relay as a node has them. It takes message by message.
struct Scene {
    settings: Arc<NodeSettings>,
    producer: Producer,
    threads: Arc<Part>,
    part: Arc<Part>,
    stop: Arc<Stop>,
    outboxes: Vec<Arc<Outboxes>>,
    workers: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    /// Gone when all that use it have ended.
    _database: Database,
}

impl Scene {
    fn new(
        step: impl Fn(&mut Store, &Claim, &Batch<'_, TransferMessage>) -> Result<Step, Error>
        + Send
        + Sync
        + 'static,
    ) -> Option<Scene> {
        let (database, settings) = servers("handler", 2)?;
        let settings = Arc::new(NodeSettings { batch_messages: 1, ..settings });
        let mut starting = Starting::new(&settings);
        starting.handler(Hop::new(step), "handler", "relay").unwrap();
        let part = |name| {
            let mut parts = starting.health.parts().iter();
            Arc::clone(parts.find(|part| part.name() == name).expect("there is such a part"))
        };
        let (threads, part) = (part("threads"), part("handler"));
        let Starting { stop, outboxes, workers, others, .. } = starting;
        let producer = ProducerSettings::new(settings.brokers.clone(), settings.topics.clone());
        let producer = Producer::new(producer).unwrap();
        Some(Scene {
            settings,
            producer,
            threads,
            part,
            stop,
            outboxes,
            workers,
            others,
            _database: database,
        })
    }

    /// Puts so many messages into a partition.
    fn say(&mut self, partition: u32, messages: usize) {
        let topics = &self.settings.topics;
        let key = (0..).map(|number: u32| number.to_string());
        let key = key.into_iter().find(|key| topics.partition(Topic::Transfers, key.as_bytes()) == partition);
        let key = key.expect("some key belongs there");
        let all = vec![topics.outgoing(Topic::Transfers, key.as_bytes(), b"{}"); messages];
        self.producer.send_all(&all, Instant::now() + PATIENCE).unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.set();
        // Some have panicked on purpose.
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
        self.outboxes.iter().for_each(|outboxes| outboxes.end());
        self.others.drain(..).for_each(|other| drop(other.join()));
    }
}

fn await_that(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn all_done(batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
    Ok(Step::Done(Done { messages: batch.messages.len(), ..Done::default() }))
}

/// What the hop of a test was asked, and what it has decided.
struct Book(Monitor<Vec<Entry>>);

#[derive(Clone, Copy)]
struct Entry {
    partition: u32,
    offset: u64,
    decided: bool,
}

impl Book {
    const fn new() -> Book {
        Book(Monitor::new(Vec::new()))
    }

    fn write(&self, claim: &Claim, batch: &Batch<'_, TransferMessage>, decided: bool) {
        let entry = Entry { partition: partition(claim), offset: batch.from, decided };
        self.0.lock().push(entry);
    }

    fn offsets(&self, partition: u32, decided: bool) -> Vec<u64> {
        let entries = self.0.lock();
        let wanted = |entry: &&Entry| entry.partition == partition && entry.decided == decided;
        entries.iter().filter(wanted).map(|entry| entry.offset).collect()
    }

    fn decided(&self, partition: u32) -> Vec<u64> {
        self.offsets(partition, true)
    }

    fn failures(&self, partition: u32) -> usize {
        self.offsets(partition, false).len()
    }
}

fn partition(claim: &Claim) -> u32 {
    match claim.source {
        Source::Consumer(_, partition) => partition,
        other => panic!("{other:?} is no partition"),
    }
}

/// The other worker would go on, and nobody would notice that a partition stands still.
#[test]
fn a_worker_that_panics_ends_its_handler() {
    let Some(mut scene) = Scene::new(|_, _, _| panic!("on purpose")) else { return };
    scene.say(0, 1);
    await_that("the handler ends", || scene.workers.iter().all(JoinHandle::is_finished));
    let trouble = scene.part.trouble().expect("it does not work");
    assert!(trouble.contains("has panicked; restart the node"), "{trouble}");
    assert!(scene.threads.trouble().is_some_and(|why| why.contains("'handler' panicked")));
}

static HALF_BROKEN: Book = Book::new();
static MENDED: AtomicBool = AtomicBool::new(false);

/// Decides nothing of partition 0 before it is mended.
fn half_broken(_: &mut Store, claim: &Claim, batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
    let decided = partition(claim) != 0 || MENDED.load(Ordering::Acquire);
    HALF_BROKEN.write(claim, batch, decided);
    // Each failure can be told from the one before.
    let what = format!("on purpose, {} times", HALF_BROKEN.failures(0));
    if decided { all_done(batch) } else { Err(Error::Corrupt { table: "none", what }) }
}

fn fails_on_purpose(scene: &Scene) -> bool {
    scene.part.trouble().is_some_and(|why| why.contains("on purpose"))
}

#[test]
fn a_partition_that_fails_waits_alone_and_loses_nothing() {
    let Some(mut scene) = Scene::new(half_broken) else { return };
    scene.say(0, 3);
    // A slow machine may need a few rounds to show it.
    let rounds = (1..=50).find(|round| {
        let told = scene.part.trouble();
        let failed_again = || scene.part.trouble() != told && fails_on_purpose(&scene);
        await_that("partition 0 is tried again", failed_again);
        let failed_at = Instant::now();
        scene.say(1, 1);
        await_that("partition 1 goes on", || HALF_BROKEN.decided(1).len() == *round);
        failed_at.elapsed() < TROUBLE_PAUSE / 2
    });
    let rounds = rounds.expect("partition 1 does not wait with partition 0");
    assert!(fails_on_purpose(&scene), "the one that goes on does not hide the other");

    MENDED.store(true, Ordering::Release);
    await_that("partition 0 goes on", || HALF_BROKEN.decided(0).len() == 3);
    await_that("all is well", || scene.part.trouble().is_none());
    assert_eq!(HALF_BROKEN.decided(0), [0, 1, 2]);
    assert_eq!(HALF_BROKEN.decided(1), (0..rounds as u64).collect::<Vec<_>>());
}

static SLOW: Book = Book::new();
static AT_WORK: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
static WAS_WITH_TWO: AtomicBool = AtomicBool::new(false);
const MEANWHILE: usize = 20;

/// Fails at first in partition 0. When that is tried again, it takes as long as it takes partition 1 to decide its messages.
fn slow(_: &mut Store, claim: &Claim, batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
    let partition = partition(claim);
    if !AT_WORK.lock().unwrap().insert(partition) {
        WAS_WITH_TWO.store(true, Ordering::Release);
    }
    let is_first = partition == 0 && SLOW.failures(0) == 0;
    if partition == 0 && !is_first && batch.from == 0 {
        await_that("partition 1 goes on", || SLOW.decided(1).len() == MEANWHILE);
    }
    AT_WORK.lock().unwrap().remove(&partition);
    SLOW.write(claim, batch, !is_first);
    if is_first { Err(Error::DataSet("on purpose")) } else { all_done(batch) }
}

#[test]
fn a_partition_that_is_tried_again_is_with_one_worker_only() {
    let Some(mut scene) = Scene::new(slow) else { return };
    scene.say(0, 3);
    let is_tried_again = || SLOW.failures(0) == 1 && AT_WORK.lock().unwrap().contains(&0);
    await_that("partition 0 is tried again", is_tried_again);
    scene.say(1, MEANWHILE);
    await_that("all is decided", || SLOW.decided(0).len() == 3 && SLOW.decided(1).len() == MEANWHILE);
    assert_eq!(SLOW.decided(0), [0, 1, 2], "nothing has overtaken it");
    assert!(!WAS_WITH_TWO.load(Ordering::Acquire));
}

#[test]
fn a_partition_rests_longer_where_that_makes_batches_worth_their_cost() {
    let ms = Duration::from_millis;
    assert_eq!(rest_after(1, ms(3), false), ms(3), "nobody waits where there is no load");
    assert_eq!(rest_after(WORTH_GATHERING.start, ms(3), false), REST_MAX);
    assert_eq!(rest_after(WORTH_GATHERING.end, ms(3), false), ms(3), "it is large enough");
    assert_eq!(rest_after(500, ms(300), false), REST_MAX);
    assert_eq!(rest_after(1, ms(3), true), QUIET_REST);
}
