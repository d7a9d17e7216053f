//! Many at once on the hub's vault: nobody polls, nobody is lost, nothing leaks.

use std::sync::Arc;
use std::time::Duration;

use holdfast_engine::clock::SystemClock;
use holdfast_engine::{TokenError, Wallets as _};
use holdfast_hub::Hub;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::{HubVault, TokenOptions};
use holdfast_log::SimFs;
use holdfast_tokens::{ConsolidationRequest, Output, Refusal, Scope, SelectRequest, SpendRequest, Token};
use tokio::task::JoinSet;

use crate::support::{in_time, runtime, start, start_now};

/// A running hub and its vault.
fn running(seed: u64) -> (Hub, HubVault) {
    let hub = start_now(&SimFs::new(seed));
    let vault = hub.handle().tokens().clone();
    (hub, vault)
}

fn tokens(numbers: std::ops::Range<usize>, quantity: u64) -> Vec<Token> {
    numbers.map(|number| Token::new(format!("t{number}"), "alice", "EUR", quantity)).collect()
}

fn alice() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn request(spender: &str, amount: u64) -> SelectRequest {
    SelectRequest::new(spender, alice(), amount)
}

async fn pay(vault: HubVault, number: usize) -> Result<(), TokenError> {
    let spender = format!("payment-{number}");
    let selection = vault.select(request(&spender, 1), 60_000).await?;
    let mut spend = SpendRequest::new(spender, vec![Output::new("bob", 1)]);
    spend.fence = Some(selection.fence);
    vault.spend(spend).await.map(drop)
}

#[test]
fn one_token_of_100_serves_100_payments_of_1() {
    let (_hub, vault) = running(1);
    in_time(async {
        vault.issue(vec![Token::new("hundred", "alice", "EUR", 100)]).await.unwrap();
        let mut payments = JoinSet::new();
        (0..100).for_each(|number| drop(payments.spawn(pay(vault.clone(), number))));
        payments.join_all().await.into_iter().for_each(|paid| paid.unwrap());
    });
    assert_eq!(vault.balance(&alice()).unwrap().total, 0);
    assert_eq!(vault.balance(&Scope::wallet("bob", "EUR")).unwrap().tokens, 100);
    let waits = vault.counters().waits;
    assert!(waits >= 50, "only {waits} of 99 had to wait");
}

#[test]
fn a_waiter_is_woken_by_the_end_of_a_lease_without_any_other_event() {
    let (_hub, vault) = running(2);
    runtime().block_on(async {
        vault.issue(vec![Token::new("one", "alice", "EUR", 1)]).await.unwrap();
        let mut short = request("gone", 1);
        short.lease_ms = 200;
        let held = vault.select(short, 0).await.unwrap();
        let next = vault.select(request("waits", 1), 30_000).await.unwrap();
        assert!(next.fence > held.fence);
        let late = SpendRequest::new("gone", vec![Output::new("bob", 1)]);
        assert!(matches!(vault.spend(late).await, Err(TokenError::Refused(Refusal::LeaseLost { .. }))));
    });
}

#[test]
fn whoever_hangs_up_leaves_nothing_behind() {
    let (_hub, vault) = running(3);
    runtime().block_on(async {
        vault.issue(tokens(0..50, 1)).await.unwrap();
        let mut calls = JoinSet::new();
        for number in 0..400_u64 {
            let vault = vault.clone();
            calls.spawn(async move {
                let mut request = request(&format!("s{number}"), 1 + number % 3);
                request.lease_ms = 50;
                // Some get their answer, some go away before, at any moment of the way.
                let patience = Duration::from_micros(number * 37 % 5_000);
                tokio::time::timeout(patience, vault.select(request, 20_000)).await.is_ok()
            });
        }
        calls.join_all().await;
        // What was decided for somebody who had gone ends with its lease; nothing else may be held.
        let all = vault.select(request("all", 50), 30_000).await.unwrap();
        assert_eq!(all.sum, 50);
    });
    let locked = vault.locks(None).unwrap();
    assert_eq!(locked.len(), 1, "{locked:?}");
}

#[test]
fn the_same_select_twice_at_once_gets_one_lock() {
    let (_hub, vault) = running(4);
    runtime().block_on(async {
        vault
            .issue(vec![Token::new("a", "alice", "EUR", 5), Token::new("b", "alice", "EUR", 5)])
            .await
            .unwrap();
        for round in 0..50 {
            let spender = format!("s{round}");
            let (first, second) =
                tokio::join!(vault.select(request(&spender, 5), 0), vault.select(request(&spender, 5), 0));
            assert_eq!(first.unwrap().fence, second.unwrap().fence);
            assert_eq!(vault.release(spender.into(), None).await.unwrap(), 1);
        }
    });
}

#[test]
fn the_vault_refuses_at_its_bound_and_says_so() {
    let bounded = TokenOptions { max: 10, ..TokenOptions::default() };
    let options = HubOptions { tokens: bounded, ..HubOptions::default() };
    let hub = start(&SimFs::new(5), Arc::new(SystemClock::new()), options);
    let vault = hub.handle().tokens().clone();
    runtime().block_on(async {
        vault.issue(tokens(0..10, 1)).await.unwrap();
        let refused = vault.issue(tokens(10..11, 1)).await;
        assert!(matches!(refused, Err(TokenError::Refused(Refusal::Full { limit: 10, .. }))), "{refused:?}");
        assert_eq!(vault.balance(&alice()).unwrap().tokens, 10);
        // What leaves no more tokens than before is taken, and so are repeats.
        vault.select(request("three", 3), 0).await.unwrap();
        let spend = || SpendRequest::new("three", vec![Output::new("bob", 3)]);
        let first = vault.spend(spend()).await.unwrap();
        vault.issue(tokens(20..22, 1)).await.unwrap();
        assert_eq!(vault.spend(spend()).await.unwrap(), first);
        vault.select(request("cash", 2), 0).await.unwrap();
        vault.spend(SpendRequest::redeem("cash", 2)).await.unwrap();
        vault.consolidate(ConsolidationRequest::new("tidy", alice(), 1)).await.unwrap().expect("fewer");
    });
}

#[test]
fn consolidation_is_one_step_and_survives_a_restart() {
    let fs = SimFs::new(6);
    let hub = start_now(&fs);
    let vault = hub.handle().tokens().clone();
    let transaction = runtime().block_on(async {
        vault.issue(tokens(0..40, 3)).await.unwrap();
        let request = ConsolidationRequest::new("tidy", alice(), 4);
        let first = vault.consolidate(request.clone()).await.unwrap().expect("forty become four");
        assert_eq!(
            vault.consolidate(request).await.unwrap(),
            Some(first.clone()),
            "a repeat gets what is stored"
        );
        first
    });
    assert_eq!((transaction.consumed.len(), transaction.produced.len()), (40, 4));
    drop(vault);
    hub.stop();
    let hub = start_now(&fs);
    let balance = hub.handle().tokens().balance(&alice()).unwrap();
    assert_eq!((balance.total, balance.tokens, balance.locked), (120, 4, 0));
}

#[test]
fn the_index_follows_frames_and_spends_of_any_size() {
    let (_hub, vault) = running(7);
    runtime().block_on(async {
        let page = |page: usize| {
            (0..5_000).map(|n| Token::new(format!("p{page}-{n}"), "alice", "EUR", 1)).collect::<Vec<_>>()
        };
        let mut issues = JoinSet::new();
        for number in 0..6 {
            let (vault, tokens) = (vault.clone(), page(number));
            issues.spawn(async move { vault.issue(tokens).await });
        }
        issues.join_all().await.into_iter().for_each(|issued| issued.unwrap());
        assert_eq!(vault.balance(&alice()).unwrap().free, 30_000);
        let mut all = request("many", 10_000);
        all.max_inputs = Some(10_000);
        assert_eq!(vault.select(all, 0).await.unwrap().tokens.len(), 10_000);
        vault.spend(SpendRequest::new("many", vec![Output::new("bob", 10_000)])).await.unwrap();
    });
    let balance = vault.balance(&alice()).unwrap();
    assert_eq!((balance.total, balance.free), (20_000, 20_000));
    assert_eq!(vault.balance(&Scope::wallet("bob", "EUR")).unwrap().total, 10_000);
}

#[test]
fn who_waits_is_answered_when_the_hub_ends() {
    let (hub, vault) = running(8);
    let runtime = runtime();
    runtime.block_on(async {
        vault.issue(vec![Token::new("one", "alice", "EUR", 1)]).await.unwrap();
        vault.select(request("holds", 1), 0).await.unwrap();
    });
    let waiter = runtime.spawn({
        let vault = vault.clone();
        async move { vault.select(request("waits", 1), 60_000).await }
    });
    while vault.counters().waiting == 0 {
        std::thread::yield_now();
    }
    hub.stop();
    let answer = runtime.block_on(waiter).unwrap();
    assert!(matches!(answer, Err(TokenError::Refused(Refusal::StoreUnavailable(_)))), "{answer:?}");
}
