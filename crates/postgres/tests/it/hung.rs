//! A node that hangs in the middle of a COPY holds its locks, and no timeout of the server's ends it; nor one that folds a log
//! and has told its server to wait.

use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, Instant};

use holdfast_checkout::coordinator::LogBounds;
use holdfast_messages::Topic;
use holdfast_postgres::{Claim, Point, Settings, Source, Store};
use postgres::Client;

use crate::world::World;

const PATIENCE: Duration = Duration::from_millis(200);
/// How long a node with that patience may idle while it folds.
const FOLDING: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(60);
const COPY: &str = "COPY dead_letter (reason) FROM STDIN";

/// A store that waits no longer than a test wants to.
fn impatient(world: &World) -> Store {
    Store::open(&world.url, Settings { idle_timeout: PATIENCE, ..Settings::default() }).unwrap()
}

/// A connection that the server takes for a node's.
fn node(world: &World) -> Client {
    let mut client = world.sql();
    client
        .batch_execute("SET application_name = 'holdfast'; SET idle_in_transaction_session_timeout = 200")
        .unwrap();
    client
}

/// Has it lock a source, in a transaction that goes on.
fn lock(client: &mut Client, of: &Claim) {
    let sql = format!("BEGIN; SELECT 1 FROM segment WHERE segment_id = {} FOR UPDATE", of.segment_id);
    client.batch_execute(&sql).unwrap();
}

#[test]
fn a_partition_is_claimed_from_a_node_that_hangs() {
    let Some(world) = World::new() else { return };
    let (mut store, source) = (impatient(&world), Source::Consumer(Topic::Transfers, 0));
    let before = store.claim(&source).unwrap();
    let mut hanging = node(&world);
    lock(&mut hanging, &before);
    let copy = hanging.copy_in(COPY).unwrap();
    assert_eq!(store.claim(&source).unwrap().epoch, before.epoch + 1);
    assert!(copy.finish().is_err(), "its session was ended");
}

#[test]
fn a_shard_is_taken_from_a_node_that_hangs() {
    let Some(world) = World::new() else { return };
    let (mut store, source) = (impatient(&world), Source::Timeout(0));
    let before = store.lease(source, 1, Duration::ZERO).unwrap().unwrap();
    let mut hanging = node(&world);
    lock(&mut hanging, &before);
    let copy = hanging.copy_in(COPY).unwrap();
    let deadline = Instant::now() + LONG;
    let after = loop {
        if let Some(claim) = store.lease(source, 2, LONG).unwrap() {
            break claim;
        }
        assert!(Instant::now() < deadline, "it is held for ever");
    };
    assert_eq!(after.epoch, before.epoch + 1);
    assert!(copy.finish().is_err(), "its session was ended");
}

/// Claims until it is had, or the time is up.
fn claimed_in_time(store: &mut Store, source: Source) -> Claim {
    let deadline = Instant::now() + LONG;
    loop {
        match store.claim(&source) {
            Ok(claim) => return claim,
            Err(error) => assert!(Instant::now() < deadline, "it is held for ever: {error}"),
        }
    }
}

#[test]
fn a_partition_is_claimed_from_a_node_that_idles_without_end() {
    let Some(world) = World::new() else { return };
    let (mut store, source) = (impatient(&world), Source::Consumer(Topic::Outcomes, 0));
    let before = store.claim(&source).unwrap();
    let mut hanging = node(&world);
    hanging.batch_execute("SET idle_in_transaction_session_timeout = 0").unwrap();
    lock(&mut hanging, &before);
    let began = Instant::now();
    assert_eq!(claimed_in_time(&mut store, source).epoch, before.epoch + 1);
    assert!(began.elapsed() >= FOLDING, "whoever folds a log is left alone for a while");
    assert!(hanging.batch_execute("SELECT 1").is_err(), "its session was ended");
}

/// The node stands still while it folds: nothing is committed, and whoever claims the partition has it in the end.
#[test]
fn a_partition_is_claimed_from_a_node_that_hangs_in_a_rebuild() {
    let Some(world) = World::new() else { return };
    let (mut store, mut hanging) = (impatient(&world), impatient(&world));
    let source = Source::Consumer(Topic::Outcomes, 0);
    let before = hanging.claim(&source).unwrap();
    let ((reached, hangs), (go_on, waits)) = (channel(), channel::<()>());
    hanging.watch(move |point| {
        if point == Point::Loaded {
            reached.send(()).unwrap();
            // Until the other end is dropped.
            let _: Result<(), _> = waits.recv();
        }
    });
    let rebuild = spawn(move || hanging.rebuild_outcomes(&before, LogBounds { start: 0, end: 0 }, &[]));
    hangs.recv().unwrap();
    assert_eq!(claimed_in_time(&mut store, source).epoch, before.epoch + 1);
    drop(go_on);
    assert!(rebuild.join().unwrap().is_err(), "its session was ended");
}

/// Tools copy for minutes, and others hold locks for reasons of their own.
#[test]
fn nobody_else_is_ended() {
    let Some(world) = World::new() else { return };
    let (mut store, source) = (impatient(&world), Source::Consumer(Topic::Transfers, 0));
    let before = store.claim(&source).unwrap();
    let mut tool = world.sql();
    tool.batch_execute("SET application_name = 'holdfast tool'").unwrap();
    lock(&mut tool, &before);
    let copy = tool.copy_in(COPY).unwrap();
    assert!(store.claim(&source).is_err());
    copy.finish().expect("it goes on");
    let began = Instant::now();
    while began.elapsed() < FOLDING + 3 * PATIENCE {
        assert!(store.claim(&source).is_err(), "a tool may idle as long as it likes");
    }
    tool.batch_execute("COMMIT").unwrap();
    assert_eq!(store.claim(&source).unwrap().epoch, before.epoch + 1);
}

/// The row of a shard is locked now and then by the node that holds it: by its scan, by its relay.
#[test]
fn a_lease_goes_on_while_its_own_row_is_locked() {
    let Some(world) = World::new() else { return };
    let (mut store, source) = (world.store(), Source::Timeout(0));
    let held = store.lease(source, 1, LONG).unwrap().unwrap();
    let mut own = world.sql();
    lock(&mut own, &held);
    assert_eq!(store.lease(source, 1, LONG).unwrap(), Some(held));
    assert_eq!(store.lease(source, 2, LONG).unwrap(), None);
}
