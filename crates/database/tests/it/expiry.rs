//! Holds end on time, whichever node lives.

use holdfast_database::{Node, NodeSettings};
use holdfast_domain::transfers::TransferState;

use crate::losing::Losing;
use crate::world::{World, all_to, decide, participants, prepare};

#[test]
fn what_runs_out_is_ended_and_the_position_given_back() {
    let Some(world) = World::new() else { return };
    let node = world.node(1);
    let [(payer, account), (payee, _)] = participants(&node.handle(), 1_000_000);
    let prepares = (1..=20).map(|id| prepare(id, payer, payee, 10_000, world.in_ms(1_500))).collect();
    all_to(&node.handle(), TransferState::Reserved, prepares);
    world.await_count("SELECT count(*) FROM transfer WHERE current_state = 11", 20);
    assert_eq!(world.position(account), 0);
    assert_eq!(world.count("SELECT count(*) FROM transfer_timeout"), 0);
    node.stop();
    world.check();
}

/// A hold that is RESERVED_TIMEOUT is no longer due, so no later scan would come by its messages.
#[test]
fn a_scan_whose_commit_was_never_answered_is_sent_on() {
    let Some(world) = World::new() else { return };
    let others = world.node_with(1, "api,transfers,position");
    let losing = Losing::before(&world.settings(2).store_url);
    let (roles, store_url) = ("expiry".parse().unwrap(), losing.url.clone());
    let scans = Node::start(NodeSettings { roles, store_url, ..world.settings(2) }).unwrap();
    world.await_count("SELECT count(*) FROM segment WHERE lease_node = 2", 8);
    let [(payer, _), (payee, _)] = participants(&others.handle(), 1_000_000);
    decide(&others.handle(), vec![prepare(1, payer, payee, 10_000, world.in_ms(1_500))]).unwrap();
    world.await_count("SELECT count(*) FROM transfer WHERE current_state = 11", 1);
    assert!(losing.has_lost());
    assert_eq!(
        world.count("SELECT max(epoch) FROM segment WHERE segment_type = 'timeout'"),
        1,
        "by the same claim"
    );
    drop((scans, others));
    world.check();
}

/// What cannot be ended in one shard keeps nobody else's holds, and is ended when it can be.
#[test]
fn a_shard_that_fails_keeps_no_other() {
    let Some(world) = World::new() else { return };
    let node = world.node(1);
    let [(payer, _), (payee, _)] = participants(&node.handle(), 1_000_000);
    let prepares = (1..=40).map(|id| prepare(id, payer, payee, 10_000, world.in_ms(2_000))).collect();
    decide(&node.handle(), prepares).unwrap();
    let mut sql = world.database.sql();
    sql.batch_execute(
        "CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'it stays'; END $$;
         CREATE TRIGGER stays BEFORE DELETE ON transfer_timeout FOR EACH ROW
         WHEN (OLD.shard = 0) EXECUTE FUNCTION stays()",
    )
    .unwrap();
    assert_eq!(
        world.count("SELECT min(shard)::bigint FROM transfer_timeout"),
        0,
        "the first of all shards has some"
    );
    world.await_count("SELECT count(*) FROM transfer_timeout WHERE shard <> 0", 0);
    assert!(world.count("SELECT count(*) FROM transfer_timeout") > 0, "the others wait for nobody");
    sql.batch_execute("DROP TRIGGER stays ON transfer_timeout").unwrap();
    world.await_count("SELECT count(*) FROM transfer WHERE current_state = 11", 40);
    node.stop();
    world.check();
}

/// Shards are shared among the nodes, and those of one that ends go to the others at once.
#[test]
fn shards_are_shared_and_handed_over() {
    let Some(world) = World::new() else { return };
    let of = |node: i64| {
        format!("SELECT count(*) FROM segment WHERE segment_type = 'timeout' AND lease_node = {node}")
    };
    let one = world.node(1);
    world.await_count(&of(1), 8);
    let two = world.node(2);
    world.await_count(&of(2), 4);
    world.await_count(&of(1), 4);
    one.stop();
    world.await_count(&of(2), 8);
    two.stop();
    assert_eq!(world.count("SELECT count(*) FROM segment WHERE lease_node IS NOT NULL"), 0);
}
