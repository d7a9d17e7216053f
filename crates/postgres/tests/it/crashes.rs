//! A step happens whole or not at all, and once, whoever dies when.

use std::sync::{Arc, Mutex};

use holdfast_domain::command::Command;
use holdfast_domain::ids::TransferId;
use holdfast_messages::{Topic, TransferMessage};
use holdfast_postgres::{Batch, Claim, Incoming, Point, Source, Step, Store};

use crate::world::*;

/// Two participants, and three prepares that wait in the topic `transfers`.
fn prepared() -> Option<(World, Node)> {
    let (world, mut node) = payer_and_payee(1_000, 10)?;
    let commands: Vec<Command> = (1..=3).map(|id| prepare(id, 1, 2, 5, FAR)).collect();
    node.transfers.log = all(0, &commands);
    Some((world, node))
}

/// The points of a step, those before the commit in one life: what dies there leaves nothing, so the next may die in the same
/// world.
pub fn lives() -> [&'static [Point]; 2] {
    const ALL: &[Point] = &Point::ALL;
    let (committed, before) = ALL.split_last().expect("points");
    assert_eq!(*committed, Point::Committed);
    [before, std::slice::from_ref(committed)]
}

/// Fails if the offset is committed apart from the effects: at every point, either both are there or neither.
#[test]
fn the_transfers_step_dies_at_every_point() {
    for at in Point::ALL {
        let Some((world, Node { mut transfers, .. })) = prepared() else { return };
        let claim = transfers.claim;
        died(world.doomed(at).transfers(&claim, &transfers.batch()), at);
        let stored = if at == Point::Committed { 3 } else { 0 };
        assert_eq!(world.offset(&claim), stored, "{at:?}");
        assert_eq!(world.rows("transfer"), stored, "{at:?}");
        assert_eq!(world.unsent(&claim), stored, "{at:?}");

        // Whoever takes over goes on where the stored offset says.
        let mut heir = world.store();
        transfers.taken_over(&mut heir);
        let left = transfers.pending().len();
        let step = heir.transfers(&transfers.claim, &transfers.batch()).unwrap();
        assert_eq!(done(step).messages, left);
        assert_eq!(world.rows("transfer"), 3);
        assert_eq!(world.unsent(&claim), 3);
        world.verify();
    }
}

#[test]
fn the_position_step_dies_at_every_point() {
    for at in Point::ALL {
        let Some((world, mut node)) = prepared() else { return };
        node.drain_transfers();
        node.relay();
        let queue = &mut node.positions[0];
        assert_eq!(queue.pending().len(), 3);
        let batch = queue.batch();
        died(world.doomed(at).positions(&queue.claim, &batch), at);
        let reserved = if at == Point::Committed { 10 } else { 0 };
        assert_eq!(world.value(PAYER_ACCOUNT), reserved, "{at:?}");
        let stored = u64::try_from(world.offset(&queue.claim)).unwrap();
        assert_eq!(stored, if at == Point::Committed { batch.next } else { batch.from }, "{at:?}");

        let mut heir = world.store();
        queue.taken_over(&mut heir);
        heir.positions(&queue.claim, &queue.batch()).unwrap();
        assert_eq!(world.value(PAYER_ACCOUNT), 10, "{at:?}");
        world.verify();
    }
}

/// Every row of a step, the offset among them, was written by one and the same transaction.
#[test]
fn offset_and_effects_share_one_transaction() {
    let Some((world, mut node)) = prepared() else { return };
    node.drain_transfers();
    let claim = node.transfers.claim;
    let audit = format!("audit WHERE segment_id = {}", claim.segment_id);
    let sent = "outbox WHERE body LIKE 'position%'";
    world.share_a_transaction(
        &claim,
        &["transfer", "transfer_state_change", "transfer_timeout", sent, &audit],
    );
    node.relay();
    node.drain_positions();
    world.share_a_transaction(
        &node.positions[0].claim,
        &[
            "transfer",
            "transfer_state_change WHERE transfer_state_id <> 1",
            "participant_position WHERE participant_currency_id = 1",
            "participant_position_change WHERE transfer_no IS NOT NULL",
            "outbox",
        ],
    );
}

#[test]
fn a_batch_at_an_old_offset_writes_nothing() {
    let Some((world, mut node)) = prepared() else { return };
    node.drain_transfers();
    let Queue { claim, log, .. } = &node.transfers;
    let before = world.snapshot();
    assert_eq!(node.store.transfers(claim, &Batch::new(0, log)).unwrap(), Step::Fenced);
    // Nor one that has left something out.
    let ahead: Vec<_> = all(5, &[prepare(9, 1, 2, 1, FAR)]);
    assert_eq!(node.store.transfers(claim, &Batch::new(5, &ahead)).unwrap(), Step::Fenced);
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_zombie_writes_nothing() {
    let Some((world, mut node)) = prepared() else { return };
    let messages = std::mem::take(&mut node.transfers.log);
    node.ask(&[prepare(100, 1, 2, 1, FAR)]);
    let mut heir = world.store();
    let zombie = node.transfers.claim;
    let claim = heir.claim(&Source::Consumer(Topic::Transfers, 0)).unwrap();
    assert_eq!((claim.epoch, claim.offset), (zombie.epoch + 1, 1));
    for shard in 0..8 {
        heir.claim(&Source::Timeout(shard)).unwrap();
    }
    let position = node.positions[0].claim;
    heir.claim(&Source::Consumer(Topic::Position, 0)).unwrap();
    world.set_clock(FAR + 1);
    let before = world.snapshot();
    let later = |old: &Incoming<TransferMessage>| Incoming { offset: old.offset + 1, ..old.clone() };
    let messages: Vec<_> = messages.iter().map(later).collect();
    assert_eq!(node.store.transfers(&zombie, &Batch::new(1, &messages)).unwrap(), Step::Fenced);
    let at = node.positions[0].at;
    assert_eq!(node.store.positions(&position, &Batch::new(at, &[])).unwrap(), Step::Fenced);
    for (shard, claim) in (0..).zip(node.shards.clone()) {
        assert_eq!(node.store.expire(&claim, shard, 10).unwrap(), Step::Fenced);
    }
    assert!(!node.store.mark_sent(&zombie, 1).unwrap());
    assert_eq!(world.snapshot(), before);
}

/// A zombie in the middle of its transaction: the claim waits for it, and tells the offset after it.
#[test]
fn a_claim_waits_for_the_owners_transaction() {
    let Some((world, Node { transfers, .. })) = prepared() else { return };
    let (world, claim) = (Arc::new(world), transfers.claim);
    let mut owner = world.store();
    let heir: Arc<Mutex<Option<std::thread::JoinHandle<Claim>>>> = Arc::default();
    let (world_in, heir_in) = (Arc::clone(&world), Arc::clone(&heir));
    owner.watch(move |point| {
        if point == Point::Decided {
            let mut store = world_in.store();
            let backend = store.backend().unwrap();
            let thread =
                std::thread::spawn(move || store.claim(&Source::Consumer(Topic::Transfers, 0)).unwrap());
            world_in.await_blocked(backend);
            *heir_in.lock().unwrap() = Some(thread);
        }
    });
    done(owner.transfers(&claim, &transfers.batch()).unwrap());
    let heir = heir.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!((heir.epoch, heir.offset), (claim.epoch + 1, 3));
    assert_eq!(world.state(TransferId(3)), "RECEIVED_PREPARE");
}

#[test]
fn the_outbox_restarts_at_the_first_unsent_row() {
    let Some((world, mut node)) = prepared() else { return };
    node.drain_transfers();
    let claim = node.transfers.claim;
    let numbers = |store: &mut Store, claim: &Claim| -> Vec<u64> {
        store.unsent(claim, 10).unwrap().iter().map(|row| row.number).collect()
    };
    assert_eq!(numbers(&mut node.store, &claim), [0, 1, 2]);
    assert!(node.store.mark_sent(&claim, 2).unwrap());
    let mut heir = world.store();
    let claim = heir.claim(&Source::Consumer(Topic::Transfers, 0)).unwrap();
    assert_eq!(numbers(&mut heir, &claim), [2]);
    assert_eq!(numbers(&mut node.store, &node.transfers.claim), [0; 0], "the claim was lost");
    assert!(!heir.mark_sent(&claim, 9).unwrap(), "what was never written cannot have been sent");
    let more = all(3, &[prepare(9, 1, 2, 1, FAR)]);
    done(heir.transfers(&claim, &Batch::new(3, &more)).unwrap());
    assert_eq!(numbers(&mut heir, &claim), [2, 3]);
}

/// A step hands out what it has put into the outbox, and lets go of what was sent before it.
#[test]
fn a_step_marks_what_was_sent_and_tells_what_is_to_be() {
    let Some((world, mut node)) = prepared() else { return };
    let claim = node.transfers.claim;
    let first = node.drain_transfers().unwrap();
    assert_eq!(node.store.unsent(&claim, 10).unwrap(), first.outbox, "the table tells the same");
    let more = all(3, &[prepare(9, 1, 2, 1, FAR)]);
    let second = done(node.store.transfers(&claim, &Batch::new(3, &more).sent(2)).unwrap());
    assert_eq!(second.outbox.iter().map(|row| row.number).collect::<Vec<_>>(), [3]);
    let left = node.store.unsent(&claim, 10).unwrap();
    assert_eq!(left, [&first.outbox[2..], &second.outbox[..]].concat(), "two of three were sent");
    let last = all(4, &[prepare(10, 1, 2, 1, FAR)]);
    let third = done(node.store.transfers(&claim, &Batch::new(4, &last).sent(4)).unwrap());
    assert_eq!(node.store.unsent(&claim, 10).unwrap(), third.outbox);
    let rows = format!("SELECT count(*) FROM outbox WHERE segment_id = {}", claim.segment_id);
    assert_eq!(world.count(&rows), 1, "what was sent whole is gone");
    world.verify();
}
