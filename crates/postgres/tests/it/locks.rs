//! Lock, then load: what others commit while a step waits for its locks, the step sees.

use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_messages::PositionMessage;
use holdfast_postgres::{Batch, Incoming, Step, Store};
use postgres::Client;

use crate::world::*;

/// Runs `step` on another thread, blocked by `holder`'s open transaction, which then does `meanwhile` and commits.
fn blocked_by<T: Send + 'static>(
    world: &World,
    holder: &mut Client,
    mut store: Store,
    meanwhile: &str,
    step: impl FnOnce(&mut Store) -> T + Send + 'static,
) -> T {
    let backend = store.backend().unwrap();
    let thread = std::thread::spawn(move || step(&mut store));
    world.await_blocked(backend);
    holder.batch_execute(meanwhile).unwrap();
    holder.batch_execute("COMMIT").unwrap();
    thread.join().unwrap()
}

/// A prepare of 5 at a cap of 10 that waits for the position step.
fn waiting(world: &World) -> (Node, Vec<Incoming<PositionMessage>>) {
    let mut node = Node::of_two(world, 1_000, 10);
    node.first_hop(&[prepare(1, 1, 2, 5, FAR)]);
    node.relay();
    let messages = node.positions[0].pending().to_vec();
    (node, messages)
}

fn position_step(world: &World, lock: &str, meanwhile: &str) -> String {
    let (node, messages) = waiting(world);
    let (claim, at) = (node.positions[0].claim, node.positions[0].at);
    let mut holder = world.sql();
    holder.batch_execute(&format!("BEGIN; {lock}")).unwrap();
    let step = blocked_by(world, &mut holder, world.store(), meanwhile, move |store| {
        store.positions(&claim, &Batch::new(at, &messages)).unwrap()
    });
    assert!(matches!(step, Step::Done(_)));
    world.state(TransferId(1))
}

const PAYERS: &str = "participant_currency_id = 1";
const LOCK: &str = "SELECT 1 FROM participant_position WHERE participant_currency_id = 1 FOR UPDATE";
const FULLER: &str = "UPDATE participant_position SET value = 6 WHERE participant_currency_id = 1";
const LOWER_CAP: &str = "UPDATE participant_limit SET value = 4 WHERE participant_currency_id = 1";

/// Only the limit changes meanwhile: its row is locked by nobody, so a step that had loaded already would not notice.
#[test]
fn nothing_is_loaded_before_the_guard_is_locked() {
    let Some(world) = World::new() else { return };
    let lock = "SELECT 1 FROM segment WHERE table_name = 'position' FOR UPDATE";
    assert_eq!(position_step(&world, lock, LOWER_CAP), "ABORTED_REJECTED");
}

#[test]
fn a_position_is_loaded_after_its_lock() {
    let Some(world) = World::new() else { return };
    assert_eq!(position_step(&world, LOCK, FULLER), "ABORTED_REJECTED");
}

/// The limit lies in another table than the row that is locked.
#[test]
fn a_limit_is_loaded_after_the_accounts_lock() {
    let Some(world) = World::new() else { return };
    let meanwhile = format!("{LOWER_CAP}; UPDATE participant_position SET reserved_value = 0 WHERE {PAYERS}");
    assert_eq!(position_step(&world, LOCK, &meanwhile), "ABORTED_REJECTED");
}

/// Without interference the same prepare passes; so the tests above can fail.
#[test]
fn undisturbed_it_is_reserved() {
    let Some(world) = World::new() else { return };
    assert_eq!(position_step(&world, LOCK, "SELECT 1"), "RESERVED");
    world.verify();
}

/// The clock is read after the locks: a fulfil that waited beyond the expiration is too late.
#[test]
fn the_clock_is_read_after_the_locks() {
    let Some((world, mut node)) = payer_and_payee(1_000, 10) else { return };
    world.set_clock(1_000_000);
    node.ask(&[prepare(1, 1, 2, 5, 2_000_000)]);
    let mut holder = world.sql();
    holder.batch_execute("BEGIN; SELECT 1 FROM transfer FOR UPDATE").unwrap();
    let claim = node.transfers.claim;
    let messages = all(1, &[fulfil(1, 2)]);
    let late = "UPDATE test_clock SET at = to_timestamp(2000)";
    blocked_by(&world, &mut holder, world.store(), late, move |store| {
        done(store.transfers(&claim, &Batch::new(1, &messages)).unwrap())
    });
    node.relay();
    assert_eq!(node.last().code.unwrap().number(), 3303);
    assert_eq!(world.state(TransferId(1)), "RESERVED");
}

/// Somebody who takes the accounts in another order: the server breaks the circle, the handler tries again.
#[test]
fn a_deadlock_is_tried_again() {
    let Some(world) = World::new() else { return };
    let (node, messages) = waiting(&world);
    let (claim, at) = (node.positions[0].claim, node.positions[0].at);
    let mut other = world.sql();
    other.batch_execute("SET deadlock_timeout = '1h'; BEGIN").unwrap();
    // The settlement account is the handler's second lock.
    other
        .batch_execute("SELECT 1 FROM participant_position WHERE participant_currency_id = 2 FOR UPDATE")
        .unwrap();
    let step = blocked_by(&world, &mut other, world.store(), LOCK, move |store| {
        store.positions(&claim, &Batch::new(at, &messages)).unwrap()
    });
    let step = done(step);
    // More than one, where the new attempt was at the row before the one that waited for it.
    assert!(step.messages == 1 && step.retries >= 1, "the attempt that was in vain is told: {step:?}");
    assert_eq!(world.state(TransferId(1)), "RESERVED");
    assert_eq!(world.value(AccountId(1)), 5);
    world.verify();
}
