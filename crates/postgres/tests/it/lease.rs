//! Shards are held by lease: one node at a time, and a higher epoch for the next.

use std::time::Duration;

use holdfast_postgres::Source;

use crate::world::World;

const LONG: Duration = Duration::from_secs(60);
const OVER: Duration = Duration::ZERO;
const SCANS: Source = Source::Timeout(0);

#[test]
fn a_lease_has_one_holder_and_changes_hands_with_a_new_epoch() {
    let Some(world) = World::new() else { return };
    let (mut store, shard) = (world.store(), Source::Timeout(3));
    world.set_clock(1_000_000);
    let first = store.lease(shard, 1, LONG).unwrap().expect("nobody had it");
    assert_eq!(store.lease(shard, 2, LONG).unwrap(), None);
    assert_eq!(store.lease(shard, 1, LONG).unwrap(), Some(first), "renewed");
    store.lease(shard, 1, OVER).unwrap();
    world.set_clock(1_000_001);
    let second = store.lease(shard, 2, LONG).unwrap().expect("the lease has ended");
    assert_eq!((second.segment_id, second.epoch), (first.segment_id, first.epoch + 1));
    assert_eq!(store.lease(shard, 1, LONG).unwrap(), None, "it came back too late");
    store.give_up(&first).unwrap();
    assert_eq!(store.lease(shard, 1, LONG).unwrap(), None, "only the last claim can be given up");
    store.give_up(&second).unwrap();
    assert_eq!(store.lease(shard, 1, LONG).unwrap().expect("given up").epoch, second.epoch + 1);
}

/// A node that hangs in the middle of a transaction must not make others hang with it.
#[test]
fn nobody_waits_for_a_shard_that_is_locked() {
    let Some(world) = World::new() else { return };
    let (mut store, shard) = (world.store(), Source::Timeout(0));
    let held = store.lease(shard, 1, OVER).unwrap().expect("nobody had it");
    let mut hanging = world.sql();
    let mut tx = hanging.transaction().unwrap();
    tx.query_one("SELECT 1 FROM segment WHERE segment_id = $1 FOR UPDATE", &[&held.segment_id]).unwrap();
    assert_eq!(store.lease(shard, 2, LONG).unwrap(), None);
    tx.rollback().unwrap();
    assert!(store.lease(shard, 2, LONG).unwrap().is_some());
}

#[test]
fn nodes_that_live_are_counted() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    world.set_clock(1_000_000);
    assert_eq!(store.count_nodes(SCANS, 1, LONG).unwrap(), 1);
    assert_eq!(store.count_nodes(SCANS, 2, Duration::from_secs(5)).unwrap(), 2);
    world.set_clock(1_010_000);
    assert_eq!(store.count_nodes(SCANS, 1, LONG).unwrap(), 1, "node 2 said nothing for too long");
    assert_eq!(store.count_nodes(SCANS, 2, LONG).unwrap(), 2);
    assert_eq!(store.among_nodes(SCANS, 2, LONG).unwrap(), (1, 2), "one of two comes before it");
    assert_eq!(store.among_nodes(SCANS, 1, LONG).unwrap(), (0, 2));
    assert_eq!(
        store.count_nodes(Source::Callback(0), 3, LONG).unwrap(),
        1,
        "who does something else has no share"
    );
}
