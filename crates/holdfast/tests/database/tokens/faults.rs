//! Nodes that die or sleep while they hold locks, a database that goes away, and a ledger elsewhere.

use std::time::{Duration, Instant};

use holdfast_kafka::Topic;
use holdfast_messages::{Message as _, TokenUpdate, TraceId};
use holdfast_services::PATIENCE;
use rustix::process::Signal;
use serde_json::json;

use super::wallet::{Answer, balance, issue, release, select, send_spend, spend, yes};
use super::{API, judge, watched};
use crate::support::wait::wait_for;
use crate::world::World;

/// How long tokens stay with whoever goes away.
const LEASE_MS: u64 = 1_500;

/// The same again and again, until it is a yes.
fn await_yes(mut ask: impl FnMut() -> Result<Answer, String>) -> Answer {
    wait_for("a yes", || match ask() {
        Ok(answer) if answer.is_ok() => Ok(answer),
        last => Err(last),
    })
}

/// kill -9: nobody sweeps, and the tokens are free at the lease's end.
#[test]
fn a_killed_nodes_tokens_are_free_at_the_end_of_their_lease() {
    let Some((mut world, addresses)) = watched(World::beside_others(), 2, &API) else { return };
    issue(addresses[0], "alice", &[10]);
    // The other node knows the wallet, and that the token is free.
    assert_eq!(select(addresses[1], "look", "alice", 99, &json!({})).expect("an answer").status, 409);
    yes(select(addresses[0], "dead", "alice", 10, &json!({"leaseMs": LEASE_MS})));
    world.take_node().kill();
    let began = Instant::now();
    let refused = select(addresses[1], "early", "alice", 10, &json!({})).expect("an answer");
    assert_eq!(refused.refusal(), "funds-locked", "{refused:?}");
    // Whoever waits is woken by the lease's end alone.
    let next = yes(select(addresses[1], "next", "alice", 10, &json!({"waitMs": 30_000})));
    assert!(began.elapsed() < Duration::from_millis(LEASE_MS + 1_000), "{:?}", began.elapsed());
    yes(spend(addresses[1], &next, "shop", 10));
    judge(&world, 10);
}

/// SIGSTOP until the lease is over and the tokens are another's, then SIGCONT: the spend that slept in the node is refused.
#[test]
fn a_stopped_node_has_lost_its_lease() {
    let Some((mut world, addresses)) = watched(World::beside_others(), 2, &API) else { return };
    issue(addresses[0], "alice", &[10]);
    let held = yes(select(addresses[0], "sleeper", "alice", 10, &json!({"leaseMs": LEASE_MS})));
    let node = world.take_node();
    World::signal(&node, Signal::STOP);
    // It lies in the node's socket while the lease is good, and is read when it is not.
    let asleep = send_spend(addresses[0], &held, "thief", 10).expect("a connection");
    let next = yes(select(addresses[1], "next", "alice", 10, &json!({"waitMs": 30_000})));
    World::signal(&node, Signal::CONT);
    let late = asleep.answer().expect("an answer");
    assert_eq!(late.refusal(), "lease-lost", "{late:?}");
    yes(spend(addresses[1], &next, "shop", 10));
    world.put_back(node);
    assert_eq!(balance(addresses[0], "shop"), (10, 10));
    judge(&world, 10);
}

/// All connections are lost, with them what others told: afterwards every node has the right cache again.
#[test]
fn nodes_recover_from_a_restarted_postgresql() {
    let Some((world, addresses)) = watched(World::alone(), 2, &API) else { return };
    issue(addresses[0], "alice", &[5, 7]);
    for (node, address) in addresses.iter().enumerate() {
        let spender = format!("before-{node}");
        yes(select(*address, &spender, "alice", 1, &json!({"leaseMs": 60_000})));
        yes(release(*address, &spender));
    }
    let service = holdfast_services::postgres().expect("World has found it");
    let Some(control) = service.control() else {
        return eprintln!("skipped: this server is not ours to stop");
    };
    control.stop();
    let refused = select(addresses[0], "during", "alice", 1, &json!({})).expect("an answer");
    assert_eq!((refused.status, refused.refusal()), (503, "store-unavailable"), "{refused:?}");
    control.start();
    let bob = await_yes(|| select(addresses[0], "after", "alice", 12, &json!({})));
    yes(spend(addresses[0], &bob, "bob", 12));
    // The other node has seen the old tokens only; that they are gone and bob has a new one, it finds out by itself.
    let short = select(addresses[1], "short", "alice", 1, &json!({})).expect("an answer");
    assert_eq!(short.refusal(), "insufficient-funds", "{short:?}");
    yes(select(addresses[1], "carol", "bob", 12, &json!({})));
    judge(&world, 12);
}

/// What an outside ledger did comes by a topic, in any order and more than once; what happened here goes out by another.
#[test]
fn another_ledger_tells_by_kafka() {
    let Some((world, addresses)) = watched(World::beside_others(), 2, &[]) else { return };
    issue(addresses[0], "alice", &[10]);
    let token = |id: &str, quantity| holdfast_tokens::Token::new(id, "alice", "EUR", quantity);
    let update = |consumed: &[&str], produced: Vec<holdfast_tokens::Token>| TokenUpdate {
        trace: TraceId(7),
        consumed: consumed.iter().map(|id| (*id).into()).collect(),
        produced,
    };
    let updates = [
        update(&["late"], vec![token("fresh", 4)]),
        update(&[], vec![token("late", 100), token("fresh", 4)]),
        update(&["fresh"], vec![token("change", 3)]),
    ];
    let topics = world.topics();
    let mut messages: Vec<Vec<u8>> = updates.iter().map(TokenUpdate::to_json).collect();
    messages.insert(1, b"poison".to_vec());
    messages.extend(updates.iter().map(TokenUpdate::to_json));
    let outgoing: Vec<_> =
        messages.iter().map(|value| topics.outgoing(Topic::TokenUpdates, b"any key", value)).collect();
    world.producer().send_all(&outgoing, Instant::now() + PATIENCE).expect("Kafka takes them");
    world.await_count(
        "SELECT coalesce(sum(value), 0)::bigint FROM segment WHERE table_name = 'token-updates'",
        |read| read == 7,
    );
    assert_eq!(balance(addresses[1], "alice"), (13, 13));
    let all = await_yes(|| select(addresses[1], "all", "alice", 13, &json!({})));
    yes(spend(addresses[0], &all, "shop", 13));
    world.await_count(
        "SELECT count(*) FROM dead_letter JOIN segment USING (segment_id) WHERE table_name = 'token-updates'",
        |dead| dead == 1,
    );
    // Everything that happened is told, the spend last.
    let unsent = "SELECT count(*) FROM token_change c, token_progress p
                  WHERE (c.xid, c.change_no) > (p.sent_xid, p.sent_no)";
    world.await_count(unsent, |unsent| unsent == 0);
    let events = world.read_topic(Topic::TokenEvents);
    let kinds: Vec<String> = events
        .iter()
        .map(|event| {
            let said: serde_json::Value = serde_json::from_slice(event).expect("JSON");
            said["type"].as_str().expect("a type").to_owned()
        })
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("issued"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("spent"), "{kinds:?}");
    judge(&world, 13);
}
