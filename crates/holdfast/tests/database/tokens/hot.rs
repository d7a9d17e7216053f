//! Everybody wants the same token.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::wallet::{balance, issue, release, select, spend, yes};
use super::{API, judge, watched};
use crate::world::World;

const NODES: usize = 3;
const REQUESTS: usize = 100;

/// Three nodes, a hundred requests of 1 at each, four tokens of 1 and one of 296: all but four must wait for change.
#[test]
fn one_hot_token_serves_everybody() {
    let Some((world, addresses)) = watched(World::alone(), NODES, &API) else { return };
    issue(addresses[0], "alice", &[1, 1, 1, 1, 296]);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (node, address) in addresses.iter().enumerate() {
            for request in 0..REQUESTS {
                scope.spawn(move || pay_one(*address, &format!("hot-{node}-{request}")));
            }
        }
    });
    eprintln!("{} payments from one hot token in {:?}", NODES * REQUESTS, began.elapsed());
    assert_eq!(balance(addresses[1], "alice"), (0, 0));
    assert_eq!(balance(addresses[2], "shop"), (300, 300));
    judge(&world, 300);
}

fn pay_one(address: SocketAddr, spender: &str) {
    let selected = yes(select(address, spender, "alice", 1, &json!({"waitMs": 50_000})));
    yes(spend(address, &selected, "shop", 1));
}

/// Neither must hold one of them and wait for the other.
#[test]
fn two_nodes_want_four_of_two_threes() {
    let Some((world, addresses)) = watched(World::alone(), 2, &API) else { return };
    issue(addresses[0], "alice", &[3, 3]);
    for round in 0..20 {
        let began = Instant::now();
        let ask = |node: usize| {
            select(addresses[node], &format!("s{round}-{node}"), "alice", 4, &json!({})).expect("an answer")
        };
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| ask(0));
            let two = scope.spawn(|| ask(1));
            (one.join().expect("no panic"), two.join().expect("no panic"))
        });
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!((winner.status, winner.tokens().len()), (200, 2), "{winner:?}");
        assert!(matches!(loser.refusal(), "funds-locked" | "contention"), "{loser:?}");
        let spender = winner.body["spender"].as_str().expect("a spender");
        yes(release(addresses[round % 2], spender));
    }
    judge(&world, 6);
}
