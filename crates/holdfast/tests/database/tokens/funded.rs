//! Tokens pay for transfers: held, paid out with change, or given back, whichever node is asked.

use holdfast_domain::money::Amount;
use holdfast_services::PATIENCE;
use serde_json::json;

use super::{judge, watched};
use crate::support::fspiop::{Payment, wait_for_state};
use crate::support::funding::{ask, funded, funded_until, is_told, issue, pay_twice_at_once, told, wallet};
use crate::support::server::{Server, set};
use crate::support::world::{now, participants};
use crate::world::World;

/// Nodes, two participants with no room at all on their positions, and alice with tokens of 60 and 40.
fn world(nodes: usize, arguments: &[&str]) -> Option<World> {
    let (world, _) = watched(World::beside_others(), nodes, arguments)?;
    participants(world.node(0), 2, Amount(1), Amount(1));
    issue(world.node(1), &[("a60", "alice", 60), ("a40", "alice", 40)]);
    Some(world)
}

/// What alice and bob have, and what of it is locked, as every node sees it.
fn wallets(world: &World) -> [(u64, u64); 2] {
    let seen = |node: &Server| [wallet(node, "alice"), wallet(node, "bob")];
    let first = seen(world.node(0));
    for at in 1..world.node_count() {
        assert_eq!(seen(world.node(at)), first);
    }
    first
}

#[test]
fn tokens_pay_for_transfers_through_any_node() {
    let Some(world) = world(3, &[]) else { return };
    let nodes = [world.node(0), world.node(1), world.node(2)];
    let payment = funded(1, "70");
    is_told(nodes[0], payment.post(), "RESERVED", "");
    assert_eq!(wallets(&world), [(100, 100), (0, 0)]);
    // Nobody but the transfer ends its hold.
    let lock = format!("/tokens/locks/{}", payment.id);
    assert_eq!(ask(nodes[1], "DELETE", &lock, &json!({})).status, 409);
    is_told(nodes[1], payment.put("COMMITTED"), "COMMITTED", "");
    assert_eq!(wallets(&world), [(30, 0), (70, 0)]);
    for (again, node) in [payment.post(), payment.put("COMMITTED"), payment.get()].iter().zip(nodes) {
        is_told(node, again.clone(), "COMMITTED", "");
    }
    let aborted = funded(2, "30");
    is_told(nodes[2], aborted.post(), "RESERVED", "");
    is_told(nodes[1], funded(3, "1").post(), "ABORTED_REJECTED", "4001");
    is_told(nodes[0], aborted.put_error("5104"), "ABORTED_ERROR", "5104");
    let expiring = funded_until(4, "30", now() + 2_000);
    is_told(nodes[1], expiring.post(), "RESERVED", "");
    wait_for_state(nodes[2], &expiring, "EXPIRED_RESERVED");
    for (number, amount, state, code) in
        [(5, "0.5", "INVALID", "3100"), (6, "31", "ABORTED_REJECTED", "4001")]
    {
        is_told(nodes[0], funded(number, amount).post(), state, code);
    }
    assert_eq!(wallets(&world), [(30, 0), (70, 0)]);
    many_at_once(&world);
    judge(&world, 200);
}

/// 130 in tens and a thirty: 25 payments of 10 want more than there are tokens. Each is sent twice at once, to two nodes.
fn many_at_once(world: &World) {
    let ids: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
    let tokens: Vec<(&str, &str, u64)> = ids.iter().map(|id| (id.as_str(), "alice", 10)).collect();
    issue(world.node(0), &tokens);
    let reserved = pay_twice_at_once(100, |caller| world.node(caller));
    assert_eq!(
        (reserved.len(), wallets(world)[0]),
        (11, (130, 130)),
        "each token pays for one: {reserved:?}"
    );
    for (at, number) in reserved.iter().enumerate() {
        is_told(world.node(at), funded(*number, "10").put_error("5104"), "ABORTED_ERROR", "5104");
    }
    assert_eq!(wallets(world)[0], (130, 0), "no lock is left behind");
}

#[test]
fn a_hold_survives_the_node_that_made_it() {
    let Some(mut world) = world(3, &[]) else { return };
    let (committed, aborted) = (funded(1, "55"), funded(2, "40"));
    for payment in [&committed, &aborted] {
        is_told(world.node(0), payment.post(), "RESERVED", "");
    }
    world.take_node().kill();
    assert_eq!(wallets(&world)[0], (100, 100));
    let until = std::time::Instant::now() + PATIENCE;
    // Its partitions come to the others when they miss it; whoever asks meanwhile is told to ask again.
    let ended = |message: &dyn Fn() -> crate::support::fspiop::Message, state: &str| loop {
        let answer = message().waiting().send(world.node(1));
        match answer.status {
            200 if told(&answer).0 == state => return,
            200 | 202 | 503 | 504 => assert!(std::time::Instant::now() < until, "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
    };
    ended(&|| committed.put("COMMITTED"), "COMMITTED");
    ended(&|| aborted.put_error("5104"), "ABORTED_ERROR");
    assert_eq!(wallets(&world), [(45, 0), (55, 0)]);
    judge(&world, 100);
}

#[test]
fn shattered_wallets_are_brought_together() {
    let settings = ["tokens.consolidate_every=1", "tokens.consolidate_from=20", "tokens.consolidate_into=4"];
    let Some(world) = world(2, &set(&settings)) else { return };
    let ids: Vec<String> = (0..50).map(|number| format!("dust{number}")).collect();
    let tokens: Vec<(&str, &str, u64)> = ids.iter().map(|id| (id.as_str(), "carol", 3)).collect();
    issue(world.node(0), &tokens);
    let pieces = "SELECT count(*) FROM token t JOIN token_lock l USING (token_id)
                  WHERE t.wallet = 'carol' AND NOT l.spent";
    // As long as there are so many that it counts as shattered.
    world.await_count(pieces, |pieces| pieces < 20);
    assert_eq!(wallet(world.node(1), "carol"), (150, 0));
    // Both wallets with few tokens are left alone.
    assert_eq!(wallets(&world), [(100, 0), (0, 0)]);
    let alices = "SELECT count(*) FROM token WHERE token_id IN ('a60', 'a40')";
    assert_eq!(world.count(alices), 2);
    // The node that pays next sees them as they are now.
    let payment = Payment::new(9, "150").with(
        "extensionList",
        json!({"extension": [
            {"key": "holdfast.payerWallet", "value": "carol"},
            {"key": "holdfast.payeeWallet", "value": "bob"},
        ]}),
    );
    is_told(world.node(0), payment.post(), "RESERVED", "");
    is_told(world.node(1), payment.put("COMMITTED"), "COMMITTED", "");
    judge(&world, 250);
}
