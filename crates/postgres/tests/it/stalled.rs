//! Transfers that stand half-way are found, each once, and forgotten when they move on.

use std::time::Duration;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::transfers::TransferState;
use holdfast_postgres::stalled::STALLED_MAX;
use holdfast_postgres::{DataSet, Stalled};

use crate::world::*;

const NOW: Millis = 1_800_000_000_000;
const AFTER: Duration = Duration::from_secs(60);

/// A node at that time, whose patrol has looked at all that was before.
fn node() -> Option<(World, Node)> {
    let (world, node) = payer_and_payee(1_000, 1_000)?;
    world.set_clock(NOW);
    world.run("UPDATE patrol SET looked_until = hub_clock()");
    Some((world, node))
}

#[test]
fn what_stands_half_way_for_long_is_told_until_it_moves() {
    let Some((world, mut node)) = node() else { return };
    node.ask(&[prepare(1, 1, 2, 1, FAR), prepare(2, 1, 2, 1, FAR), prepare(3, 1, 2, 1, NOW + 10)]);
    node.ask(&[fulfil(2, 2)]);
    world.set_clock(NOW + 20);
    assert_eq!(node.expire_only(), 1);
    node.first_hop(&[prepare(4, 1, 2, 1, FAR), fulfil(1, 2)]);
    world.set_clock(NOW + 60_020);
    assert_eq!(node.store.stalled(AFTER).unwrap(), Stalled::default(), "not yet");
    world.set_clock(NOW + 60_021);
    let stalled = node.store.stalled(AFTER).unwrap();
    assert_eq!(stalled.counts, [1, 1, 0, 1], "the payment that went through is not among them");
    let since = NOW + 20;
    let mut examples = stalled.examples.clone();
    examples.sort_by_key(|(id, ..)| *id);
    assert_eq!(
        examples,
        [
            (TransferId(1), TransferState::ReceivedFulfil, since),
            (TransferId(3), TransferState::ReservedTimeout, since),
            (TransferId(4), TransferState::ReceivedPrepare, since),
        ]
    );
    let mut other = world.store();
    assert_eq!(other.stalled(AFTER).unwrap(), stalled, "every node is told the same");
    node.drain();
    assert_eq!(other.stalled(AFTER).unwrap(), Stalled::default(), "what has moved on is not told");
    world.set_clock(NOW + 200_000);
    assert_eq!(node.store.stalled(AFTER).unwrap(), Stalled::default());
    assert_eq!(world.rows("stalled_transfer"), 0, "and is forgotten");
}

/// A node that was away for a day looks through all of it, and more than can be kept stops nothing.
#[test]
fn nothing_is_passed_over() {
    let Some((world, mut node)) = node() else { return };
    let many: Vec<_> = (1..=1_100).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    node.first_hop(&many);
    world.set_clock(NOW + 3_600_000);
    let later: Vec<_> = (2_001..=2_010).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    node.first_hop(&later);
    world.set_clock(NOW + 7_200_000);
    assert_eq!(node.store.stalled(AFTER).unwrap().total(), 1_000, "bounded");
    // All but the last ones move on.
    let late = "UPDATE transfer SET current_state = 3 WHERE current_state = 1 AND prepared_date < hub_clock() - interval '90 min'";
    world.run(late);
    for _ in 0..3 {
        node.store.stalled(AFTER).unwrap();
    }
    assert_eq!(node.store.stalled(AFTER).unwrap().total(), 10, "those that came later are found too");
}

/// More than can be kept stood still within one look. As places become free, all the others are told.
#[test]
fn what_there_was_no_place_for_is_told_later() {
    let Some((world, mut node)) = node() else { return };
    let over = 5;
    let many: Vec<_> = (1..=STALLED_MAX as u128 + over).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    node.first_hop(&many);
    world.set_clock(NOW + 600_000);
    let told = "SELECT transfer_no FROM stalled_transfer";
    assert_eq!(node.store.stalled(AFTER).unwrap().total(), STALLED_MAX as u64);
    assert_eq!(node.store.stalled(AFTER).unwrap().total(), STALLED_MAX as u64, "still");
    // Those that are told move on.
    world
        .sql()
        .execute(&format!("UPDATE transfer SET current_state = 3 WHERE transfer_no IN ({told})"), &[])
        .unwrap();
    let left = node.store.stalled(AFTER).unwrap();
    assert_eq!((u128::from(left.total()), left.examples.len()), (over, 5));
    let standing =
        format!("SELECT count(*) FROM transfer WHERE current_state = 1 AND transfer_no NOT IN ({told})");
    assert_eq!(world.count(&standing), 0, "nobody is forgotten");
}

/// A database of the first release is brought up to date with what stood half-way in it.
#[test]
fn an_upgrade_knows_what_stood_still_before_it() {
    let Some((world, mut node)) = node() else { return };
    node.ask(&[prepare(1, 1, 2, 1, FAR)]);
    node.first_hop(&[prepare(2, 1, 2, 1, FAR)]);
    drop(node);
    let back =
        "DROP TABLE IF EXISTS stalled_transfer, patrol, operator_message, token, token_lock, token_selection,
                    token_change, token_progress, users, items, orders, pay_transaction, stock_transaction,
                    idempotency_key, outcome_offset, shop_charging, checkout_charge, checkout_outcome, pay_again;
                DROP SEQUENCE token_fence;
                DROP FUNCTION token_race;
                DROP INDEX transfer_state_change_created;
                ALTER TABLE audit DROP COLUMN rows_hash;
                DROP TABLE outbox;
                CREATE TABLE outbox (segment_id int NOT NULL, outbox_no bigint NOT NULL, topic text NOT NULL,
                    key text NOT NULL, body text NOT NULL, PRIMARY KEY (segment_id, outbox_no));
                DELETE FROM schema_version WHERE version > 1";
    world.run(back);
    let stalled = world.store().stalled(AFTER).unwrap();
    assert_eq!((stalled.total(), stalled.examples[0].0), (1, TransferId(2)));
    world.verify();
}

/// A look reads the rows of its time and not the whole history.
#[test]
fn a_look_is_bounded_by_its_index() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let data = DataSet { total: 30_000, expired: 0, ..DataSet::default() };
    store.generate(&data, |_| ()).unwrap();
    let mut sql = world.sql();
    sql.batch_execute("SELECT brin_summarize_new_values('transfer_state_change_created'); ANALYZE; SET enable_seqscan = off")
        .unwrap();
    let plan = sql
        .query(
            "EXPLAIN SELECT 1 FROM transfer_state_change c
             JOIN transfer t ON t.transfer_no = c.transfer_no AND t.current_state = c.transfer_state_id
             WHERE c.created_date >= now() - interval '60 s' AND c.created_date < now()
                 AND c.transfer_state_id IN (1, 4, 6, 9) LIMIT 1000",
            &[],
        )
        .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains("transfer_state_change_created")), "{plan:#?}");
}
