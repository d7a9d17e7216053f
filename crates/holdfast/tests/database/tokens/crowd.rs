//! Twenty nodes, a thousand requests of all kinds.

use std::net::SocketAddr;
use std::sync::Mutex;

use holdfast_domain::series;
use serde_json::json;

use super::wallet::{balance, issue, number, release, select, spend, yes};
use super::{API, judge, watched};
use crate::world::World;

const NODES: usize = 20;
const WORKERS: u64 = 25;
const REQUESTS: u64 = 40;

/// The same seed makes the same requests.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        series::next(&mut self.0) % bound
    }

    fn one(&mut self, addresses: &[SocketAddr]) -> SocketAddr {
        addresses[usize::try_from(self.below(addresses.len() as u64)).expect("an index")]
    }
}

#[derive(Default)]
struct Tally {
    spent: u64,
    released: u64,
    left: u64,
    refused: Vec<String>,
}

#[test]
fn twenty_nodes_and_a_thousand_requests() {
    let Some((world, addresses)) = watched(World::alone(), NODES, &API) else { return };
    // Some of each size; hot ones among them.
    let quantities: Vec<u64> = (0..1_400).map(|place| [1, 2, 5, 10, 20, 50, 100][place % 7]).collect();
    let issued: u64 = quantities.iter().sum();
    quantities.chunks(100).enumerate().for_each(|(node, page)| issue(addresses[node], "alice", page));
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (addresses, tally) = (&addresses, &tally);
            scope.spawn(move || {
                let mut draw = Draw(worker + 1);
                for request in 0..REQUESTS {
                    one_request(addresses, &mut draw, &format!("w{worker}-{request}"), tally);
                }
            });
        }
    });
    let tally = tally.into_inner().expect("whole");
    eprintln!(
        "{} spent, {} released, {} left to their lease, {} refused",
        tally.spent,
        tally.released,
        tally.left,
        tally.refused.len()
    );
    assert_eq!(
        tally.spent + tally.released + tally.left + tally.refused.len() as u64,
        WORKERS * REQUESTS,
        "each request has one end"
    );
    let names = tally.refused.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
    let locks = format!(
        "SELECT count(*) FROM token_lock WHERE NOT spent AND spender_tx_id IN ({names}) AND expires_at > clock_timestamp()"
    );
    assert_eq!(world.count(&locks), 0, "a refused request holds something");
    judge(&world, issued);
    // What was left locked is free at the end of its lease; then all that there is can be spent, down to nothing.
    world.await_count(
        "SELECT count(*) FROM token_lock WHERE NOT spent AND expires_at > clock_timestamp()",
        |locked| locked == 0,
    );
    let (total, free) = balance(addresses[3], "alice");
    assert_eq!(total, free);
    if total > 0 {
        let all = yes(select(addresses[7], "the-rest", "alice", total, &json!({"maxInputs": 10_000})));
        yes(spend(addresses[11], &all, "shop", total));
    }
    assert_eq!(balance(addresses[13], "alice"), (0, 0));
    assert_eq!(balance(addresses[17], "shop").0, issued);
    judge(&world, issued);
}

/// Selects at one node, and goes on at another.
fn one_request(addresses: &[SocketAddr], draw: &mut Draw, spender: &str, tally: &Mutex<Tally>) {
    let (amount, kind) = (draw.below(60) + 1, draw.below(20));
    let (amount, lease) = match kind {
        0 => (1_000_000, 10_000),
        1..=2 => (amount, 300),
        _ => (amount, 20_000),
    };
    let more = json!({"waitMs": 10_000, "leaseMs": lease, "policy": if kind == 3 { "random" } else { "fewest-inputs" }});
    let selected = select(draw.one(addresses), spender, "alice", amount, &more).expect("an answer");
    if !selected.is_ok() {
        // Once much is spent there is not enough; and now and then everything is locked.
        let known = ["insufficient-funds", "funds-locked", "contention", "too-many-inputs"];
        assert!(known.contains(&selected.refusal()), "{selected:?}");
        tally.lock().expect("whole").refused.push(spender.to_owned());
        return;
    }
    let tokens = selected.body["tokens"].as_array().expect("tokens");
    let sum: u64 = tokens.iter().map(|token| number(&token["quantity"])).sum();
    assert_eq!((sum, sum >= amount), (number(&selected.body["sum"]), true), "{selected:?}");
    let elsewhere = draw.one(addresses);
    match kind {
        1..=2 => tally.lock().expect("whole").left += 1,
        4..=6 => {
            yes(release(elsewhere, spender));
            tally.lock().expect("whole").released += 1;
        }
        _ => {
            let spent = yes(spend(elsewhere, &selected, "shop", amount));
            let out: u64 = spent.body["produced"]
                .as_array()
                .expect("outputs")
                .iter()
                .map(|token| number(&token["quantity"]))
                .sum();
            assert_eq!(out, sum, "{spent:?}");
            // A repeat, at yet another node, is the same.
            let again = spend(draw.one(addresses), &selected, "shop", amount).expect("an answer");
            assert_eq!(again.body, spent.body);
            tally.lock().expect("whole").spent += 1;
        }
    }
}
