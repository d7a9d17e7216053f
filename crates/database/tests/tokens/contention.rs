//! Tokens and rows that another has in hand: others are chosen, or it is waited for; nobody is told that there is too little.

use std::time::{Duration, Instant};

use holdfast_database::tokens::alone::Alone;
use holdfast_database::tokens::limits::{CLAIM_ATTEMPTS, ROW_WAIT};
use holdfast_engine::Wallets as _;
use holdfast_services::PATIENCE;
use holdfast_tokens::{Output, Scope, SelectRequest, Share, SpendRequest, Token};

use crate::world::{World, runtime};

fn scope() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn world(name: &str, tokens: &[(&str, u64)]) -> Option<World> {
    let world = World::start(name, 1, None)?;
    let tokens = tokens.iter().map(|(id, quantity)| Token::new(*id, "alice", "EUR", *quantity)).collect();
    runtime().block_on(world.nodes[0].vault().issue(tokens)).unwrap();
    Some(world)
}

/// A token that another node has just claimed and not committed looks free: it is not tried again and again while there are
/// others.
#[test]
fn another_token_is_chosen_in_place_of_one_in_hand() {
    let Some(world) = world("tokens_in_hand", &[("exact", 10), ("more", 30)]) else { return };
    let mut sql = world.database.sql();
    let mut other = sql.transaction().unwrap();
    other.batch_execute("SELECT FROM token_lock WHERE token_id = 'exact' FOR UPDATE").unwrap();
    let vault = world.nodes[0].vault();
    let selected = runtime().block_on(vault.select(SelectRequest::new("s", scope(), 10), 0)).unwrap();
    assert_eq!(selected.tokens[0].id.as_str(), "more");
    drop(other);
}

/// Whoever may wait waits for the one token there is, however long another has it in hand.
#[test]
fn the_only_token_is_waited_for_while_it_is_in_hand() {
    let Some(world) = world("tokens_only_one", &[("only", 10)]) else { return };
    let mut sql = world.database.sql();
    let mut other = sql.transaction().unwrap();
    other.batch_execute("SELECT FROM token_lock WHERE token_id = 'only' FOR UPDATE").unwrap();
    let (runtime, vault) = (runtime(), world.nodes[0].vault().clone());
    let waiting = runtime.spawn({
        let vault = vault.clone();
        async move { vault.select(SelectRequest::new("patient", scope(), 10), 30_000).await }
    });
    // Who may not wait hears that others were faster, and that as often as he may try.
    let refused = runtime.block_on(vault.select(SelectRequest::new("hasty", scope(), 10), 0)).unwrap_err();
    assert!(["contention", "funds-locked"].contains(&refused.name()), "{refused}");
    // So long a select that tries without a pause would have used up its attempts many times over.
    std::thread::park_timeout(Duration::from_millis(20) * u32::try_from(CLAIM_ATTEMPTS).unwrap());
    assert!(!waiting.is_finished(), "{:?}", runtime.block_on(waiting));
    drop(other);
    let selected = runtime.block_on(waiting).unwrap().unwrap();
    assert_eq!(selected.tokens[0].id.as_str(), "only");
}

/// One row that somebody has in hand costs its own spender a repeat, and the others in the same statement a moment.
#[test]
fn a_row_in_hand_does_not_hold_up_the_node() {
    let many: Vec<(String, u64)> = (0..40).map(|number| (format!("t-{number}"), 1)).collect();
    let many: Vec<(&str, u64)> = many.iter().map(|(id, quantity)| (id.as_str(), *quantity)).collect();
    let Some(world) = world("tokens_row_in_hand", &many) else { return };
    let (runtime, vault) = (runtime(), world.nodes[0].vault().clone());
    let spend = |number: usize| SpendRequest::new(format!("s-{number}"), vec![Output::new("bob", 1)]);
    runtime.block_on(async {
        for number in 0..40 {
            vault.select(SelectRequest::new(format!("s-{number}"), scope(), 1), 0).await.unwrap();
        }
    });
    let mut sql = world.database.sql();
    let mut other = sql.transaction().unwrap();
    other.batch_execute("SELECT FROM token_selection WHERE spender_tx_id = 's-7' FOR UPDATE").unwrap();
    let began = Instant::now();
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let (vault, spend) = (vault.clone(), spend(number));
            runtime.spawn(async move { vault.spend(spend).await })
        })
        .collect();
    let mut refused = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        if let Err(refusal) = runtime.block_on(task).unwrap() {
            refused.push((number, refusal.name()));
        }
    }
    let took = began.elapsed();
    eprintln!("40 spends, one of them held up: {took:?}");
    assert_eq!(refused, [(7, "contention")]);
    assert!(took < 20 * ROW_WAIT, "{took:?}");
    drop(other);
    runtime.block_on(vault.spend(spend(7))).unwrap();
}

/// Nodes that select from the same wallet begin in different parts of its equal tokens, and go on into the other's part when
/// their own is used up. A node that has ended leaves its part to the others.
#[test]
fn nodes_begin_in_different_parts_of_equal_tokens() {
    const TOKENS: usize = 300;
    const EACH: usize = 30;
    let Some(mut world) = World::start("tokens_shares", 2, None) else { return };
    let await_shares = |world: &World, wanted: &[Share]| {
        let (shares, until) = (|| world.nodes.iter().map(Alone::share), Instant::now() + PATIENCE);
        while !shares().eq(wanted.iter().copied()) {
            assert!(Instant::now() < until, "{:?}", shares().collect::<Vec<_>>());
            std::thread::park_timeout(Duration::from_millis(10));
        }
    };
    await_shares(&world, &[Share::new(0, 2), Share::new(1, 2)]);
    let runtime = runtime();
    let tokens = (0..TOKENS).map(|number| Token::new(format!("t-{number:03}"), "alice", "EUR", 1)).collect();
    runtime.block_on(world.nodes[0].vault().issue(tokens)).unwrap();
    let select = |world: &World, node: usize, count: usize| -> Vec<usize> {
        let vault = world.nodes[node].vault().clone();
        let one = |number: usize| {
            let request = SelectRequest::new(format!("{node}-{count}-{number}"), scope(), 1);
            let selected = runtime.block_on(vault.select(request, 0)).unwrap();
            selected.tokens[0].id.as_str()[2..].parse().unwrap()
        };
        (0..count).map(one).collect()
    };
    let (first, second) = (select(&world, 0, EACH), select(&world, 1, EACH));
    // Half of them, and as much again as the halves move while tokens go.
    assert!(first.iter().all(|number| *number < TOKENS / 2 + EACH), "{first:?}");
    assert!(second.iter().all(|number| *number >= TOKENS / 2 - EACH), "{second:?}");
    select(&world, 0, TOKENS - 2 * EACH);
    drop(world.nodes.pop());
    await_shares(&world, &[Share::ALL]);
}
