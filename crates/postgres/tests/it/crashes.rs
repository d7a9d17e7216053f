//! A step happens whole or not at all, and once, whoever dies when.

use std::sync::{Arc, Mutex};

use holdfast_domain::command::Command;
use holdfast_domain::ids::TransferId;
use holdfast_messages::{PositionMessage, Topic, TransferMessage};
use holdfast_postgres::{Batch, Claim, Error, Incoming, Point, Source, Step, Store};

use crate::world::*;

/// Two participants, and three prepares that wait in the topic `transfers`.
fn prepared(world: &World) -> (Cluster, Vec<Incoming<TransferMessage>>) {
    let mut cluster = Cluster::new(world, 1);
    let (payer, _) = cluster.participant("payer", 1_000, 10);
    let (payee, _) = cluster.participant("payee", 0, 10);
    let commands: Vec<Command> = (1..=3).map(|id| prepare(id, payer.0, payee.0, 5, FAR)).collect();
    (cluster, all(0, &commands))
}

fn offset(world: &World, claim: &Claim) -> i64 {
    world.count(&format!("SELECT value FROM segment WHERE segment_id = {}", claim.segment_id))
}

/// The points of a step, those before the commit in one life: what dies there leaves nothing, so the next may die in the same
/// world.
pub fn lives() -> [&'static [Point]; 2] {
    const ALL: &[Point] = &Point::ALL;
    let (committed, before) = ALL.split_last().expect("points");
    assert_eq!(*committed, Point::Committed);
    [before, std::slice::from_ref(committed)]
}

/// A store whose connection is cut when it reaches that point.
pub fn doomed(world: &Arc<World>, at: Point) -> Store {
    let mut store = world.store();
    let backend = store.backend().unwrap();
    let world = Arc::clone(world);
    store.watch(move |point| {
        if point == at {
            world.cut(backend);
        }
    });
    store
}

/// Fails if the offset is committed apart from the effects: at every point, either both are there or neither.
#[test]
fn the_transfers_step_dies_at_every_point() {
    for at in Point::ALL {
        let Some(world) = World::new().map(Arc::new) else { return };
        let (cluster, messages) = prepared(&world);
        let claim = cluster.transfers.claim;
        let outcome = doomed(&world, at).transfers(&claim, &Batch::new(0, &messages));
        let stored = if at == Point::Committed { 3 } else { 0 };
        match outcome {
            Ok(Step::Done(_)) => assert_eq!(at, Point::Committed),
            Err(Error::Unavailable(_)) => assert_ne!(at, Point::Committed),
            other => panic!("{at:?}: {other:?}"),
        }
        assert_eq!(offset(&world, &claim), stored, "{at:?}");
        assert_eq!(world.count("SELECT count(*) FROM transfer"), stored, "{at:?}");
        let mine = format!("FROM outbox WHERE segment_id = {}", claim.segment_id);
        let messages_of_mine = format!("SELECT coalesce(sum(messages), 0)::bigint {mine}");
        assert_eq!(world.count(&messages_of_mine), stored, "{at:?}");

        // Whoever takes over goes on where the stored offset says.
        let mut heir = world.store();
        let claim = heir.claim(&Source::consumer(Topic::Transfers, 0)).unwrap();
        let left = &messages[usize::try_from(claim.offset).unwrap()..];
        let step = heir.transfers(&claim, &Batch::new(claim.offset, left)).unwrap();
        assert_eq!(done(step).messages, left.len());
        assert_eq!(world.count("SELECT count(*) FROM transfer"), 3);
        assert_eq!(world.count(&messages_of_mine), 3);
        world.verify();
    }
}

#[test]
fn the_position_step_dies_at_every_point() {
    for at in Point::ALL {
        let Some(world) = World::new().map(Arc::new) else { return };
        let (mut cluster, messages) = prepared(&world);
        done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(0, &messages)).unwrap());
        cluster.relay();
        let queue = &cluster.positions[0];
        let waiting: Vec<Incoming<PositionMessage>> =
            queue.log[usize::try_from(queue.at).unwrap()..].to_vec();
        assert_eq!(waiting.len(), 3);
        let batch = Batch::new(queue.at, &waiting);
        let outcome = doomed(&world, at).positions(&queue.claim, &batch);
        assert_eq!(outcome.is_ok(), at == Point::Committed, "{at:?}");
        let reserved = if at == Point::Committed { 10 } else { 0 };
        let payer = holdfast_domain::ids::AccountId(1);
        assert_eq!(world.value(payer), reserved, "{at:?}");
        let stored = u64::try_from(offset(&world, &queue.claim)).unwrap();
        assert_eq!(stored, if at == Point::Committed { batch.next } else { batch.from }, "{at:?}");

        let mut heir = world.store();
        let claim = heir.claim(&Source::consumer(Topic::Position, 0)).unwrap();
        let done_before = usize::try_from(claim.offset - batch.from).unwrap();
        heir.positions(&claim, &Batch::new(claim.offset, &waiting[done_before..])).unwrap();
        assert_eq!(world.value(payer), 10, "{at:?}");
        world.verify();
    }
}

/// Every row of a step, the offset among them, was written by one and the same transaction.
#[test]
fn offset_and_effects_share_one_transaction() {
    let Some(world) = World::new() else { return };
    let (mut cluster, messages) = prepared(&world);
    let writers = |sql: &str| -> Vec<String> {
        let rows = world.sql().query(sql, &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let claim = cluster.transfers.claim;
    done(cluster.store.transfers(&claim, &Batch::new(0, &messages)).unwrap());
    let of_guard = |claim: &Claim| {
        writers(&format!("SELECT xmin::text FROM segment WHERE segment_id = {}", claim.segment_id))
    };
    let step = of_guard(&claim);
    for rows in [
        "transfer",
        "transfer_state_change",
        "transfer_timeout",
        "outbox WHERE body LIKE 'position%'",
        &format!("audit WHERE segment_id = {}", claim.segment_id),
    ] {
        assert_eq!(writers(&format!("SELECT DISTINCT xmin::text FROM {rows}")), step, "{rows}");
    }
    cluster.relay();
    let queue = &cluster.positions[0];
    let waiting = queue.log[usize::try_from(queue.at).unwrap()..].to_vec();
    let claim = queue.claim;
    done(cluster.store.positions(&claim, &Batch::new(queue.at, &waiting)).unwrap());
    let step = of_guard(&claim);
    for rows in [
        "transfer",
        "transfer_state_change WHERE transfer_state_id <> 1",
        "participant_position WHERE participant_currency_id = 1",
        "participant_position_change WHERE transfer_no IS NOT NULL",
        "outbox",
    ] {
        assert_eq!(writers(&format!("SELECT DISTINCT xmin::text FROM {rows}")), step, "{rows}");
    }
}

#[test]
fn a_batch_at_an_old_offset_writes_nothing() {
    let Some(world) = World::new() else { return };
    let (mut cluster, messages) = prepared(&world);
    let claim = cluster.transfers.claim;
    done(cluster.store.transfers(&claim, &Batch::new(0, &messages)).unwrap());
    let before = world.picture();
    assert_eq!(cluster.store.transfers(&claim, &Batch::new(0, &messages)).unwrap(), Step::Fenced);
    // Nor one that has left something out.
    let ahead: Vec<_> = all(5, &[prepare(9, 1, 2, 1, FAR)]);
    assert_eq!(cluster.store.transfers(&claim, &Batch::new(5, &ahead)).unwrap(), Step::Fenced);
    assert_eq!(world.picture(), before);
}

#[test]
fn a_zombie_writes_nothing() {
    let Some(world) = World::new() else { return };
    let (mut cluster, messages) = prepared(&world);
    cluster.ask(&[prepare(100, 1, 2, 1, FAR)]);
    let mut heir = world.store();
    let zombie = cluster.transfers.claim;
    let claim = heir.claim(&Source::consumer(Topic::Transfers, 0)).unwrap();
    assert_eq!((claim.epoch, claim.offset), (zombie.epoch + 1, 1));
    for shard in 0..8 {
        heir.claim(&Source::timeout(shard)).unwrap();
    }
    let position = cluster.positions[0].claim;
    heir.claim(&Source::consumer(Topic::Position, 0)).unwrap();
    world.set_clock(FAR + 1);
    let before = world.picture();
    let later = |old: &Incoming<TransferMessage>| Incoming { offset: old.offset + 1, ..old.clone() };
    let messages: Vec<_> = messages.iter().map(later).collect();
    assert_eq!(cluster.store.transfers(&zombie, &Batch::new(1, &messages)).unwrap(), Step::Fenced);
    let at = cluster.positions[0].at;
    assert_eq!(cluster.store.positions(&position, &Batch::new(at, &[])).unwrap(), Step::Fenced);
    for (shard, claim) in (0..).zip(cluster.shards.clone()) {
        assert_eq!(cluster.store.expire(&claim, shard, 10).unwrap(), Step::Fenced);
    }
    assert!(!cluster.store.mark_sent(&zombie, 1).unwrap());
    assert_eq!(world.picture(), before);
}

/// A zombie in the middle of its transaction: the claim waits for it, and tells the offset after it.
#[test]
fn a_claim_waits_for_the_owners_transaction() {
    let Some(world) = World::new().map(Arc::new) else { return };
    let (cluster, messages) = prepared(&world);
    let claim = cluster.transfers.claim;
    let mut owner = world.store();
    let heir: Arc<Mutex<Option<std::thread::JoinHandle<Claim>>>> = Arc::default();
    let (world_in, heir_in) = (Arc::clone(&world), Arc::clone(&heir));
    owner.watch(move |point| {
        if point == Point::Decided {
            let mut store = world_in.store();
            let backend = store.backend().unwrap();
            let thread =
                std::thread::spawn(move || store.claim(&Source::consumer(Topic::Transfers, 0)).unwrap());
            world_in.await_blocked(backend);
            *heir_in.lock().unwrap() = Some(thread);
        }
    });
    done(owner.transfers(&claim, &Batch::new(0, &messages)).unwrap());
    let heir = heir.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!((heir.epoch, heir.offset), (claim.epoch + 1, 3));
    assert_eq!(world.state(TransferId(3)), "RECEIVED_PREPARE");
}

#[test]
fn the_outbox_restarts_at_the_first_unsent_row() {
    let Some(world) = World::new() else { return };
    let (mut cluster, messages) = prepared(&world);
    let claim = cluster.transfers.claim;
    done(cluster.store.transfers(&claim, &Batch::new(0, &messages)).unwrap());
    let numbers = |store: &mut Store, claim: &Claim| -> Vec<u64> {
        store.unsent(claim, 10).unwrap().iter().map(|row| row.number).collect()
    };
    assert_eq!(numbers(&mut cluster.store, &claim), [0, 1, 2]);
    assert!(cluster.store.mark_sent(&claim, 2).unwrap());
    let mut heir = world.store();
    let claim = heir.claim(&Source::consumer(Topic::Transfers, 0)).unwrap();
    assert_eq!(numbers(&mut heir, &claim), [2]);
    assert_eq!(numbers(&mut cluster.store, &cluster.transfers.claim), [0; 0], "the claim was lost");
    assert!(!heir.mark_sent(&claim, 9).unwrap(), "what was never written cannot have been sent");
    let more = all(3, &[prepare(9, 1, 2, 1, FAR)]);
    done(heir.transfers(&claim, &Batch::new(3, &more)).unwrap());
    assert_eq!(numbers(&mut heir, &claim), [2, 3]);
}

/// A step hands out what it has put into the outbox, and lets go of what was sent before it.
#[test]
fn a_step_marks_what_was_sent_and_tells_what_is_to_be() {
    let Some(world) = World::new() else { return };
    let (mut cluster, messages) = prepared(&world);
    let claim = cluster.transfers.claim;
    let first = done(cluster.store.transfers(&claim, &Batch::new(0, &messages)).unwrap());
    assert_eq!(cluster.store.unsent(&claim, 10).unwrap(), first.outbox, "the table tells the same");
    let more = all(3, &[prepare(9, 1, 2, 1, FAR)]);
    let second = done(cluster.store.transfers(&claim, &Batch::new(3, &more).sent(2)).unwrap());
    assert_eq!(second.outbox.iter().map(|row| row.number).collect::<Vec<_>>(), [3]);
    let left = cluster.store.unsent(&claim, 10).unwrap();
    assert_eq!(left, [&first.outbox[2..], &second.outbox[..]].concat(), "two of three were sent");
    let last = all(4, &[prepare(10, 1, 2, 1, FAR)]);
    let third = done(cluster.store.transfers(&claim, &Batch::new(4, &last).sent(4)).unwrap());
    assert_eq!(cluster.store.unsent(&claim, 10).unwrap(), third.outbox);
    let rows = format!("SELECT count(*) FROM outbox WHERE segment_id = {}", claim.segment_id);
    assert_eq!(world.count(&rows), 1, "what was sent whole is gone");
    world.verify();
}
