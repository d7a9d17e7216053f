//! Many at once on the hub's vault: nobody polls, nobody is lost, nothing leaks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_engine::clock::SystemClock;
use holdfast_engine::{TokenError, Wallets as _};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::tokens::{HubVault, TokenOptions};
use holdfast_hub::{Hub, Opened};
use holdfast_log::SimFs;
use holdfast_tokens::{ConsolidationRequest, Output, Refusal, Scope, SelectRequest, SpendRequest, Token};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::support::{LOG_ID, small_segments};

fn start(fs: &SimFs, options: HubOptions) -> Hub {
    let opened = Opened::open(Arc::new(fs.clone()), Path::new("/data"), small_segments(), LOG_ID).unwrap();
    Hub::start(opened, Arc::new(SystemClock::new()), options).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

fn alice() -> Scope {
    Scope::wallet("alice", "EUR")
}

fn request(spender: &str, amount: u64) -> SelectRequest {
    SelectRequest::new(spender, alice(), amount)
}

async fn pay(desk: HubVault, number: usize) -> Result<(), TokenError> {
    let spender = format!("payment-{number}");
    let selection = desk.select(request(&spender, 1), 60_000).await?;
    let mut spend = SpendRequest::new(spender, vec![Output::new("bob", 1)]);
    spend.fence = Some(selection.fence);
    desk.spend(spend).await.map(drop)
}

#[test]
fn one_token_of_100_serves_100_payments_of_1() {
    let hub = start(&SimFs::new(1), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    let work = async {
        desk.issue(vec![Token::new("hundred", "alice", "EUR", 100)]).await.unwrap();
        let mut payments = JoinSet::new();
        (0..100).for_each(|number| drop(payments.spawn(pay(desk.clone(), number))));
        while let Some(paid) = payments.join_next().await {
            paid.unwrap().unwrap();
        }
    };
    let runtime = runtime();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await.expect("nobody hangs") });
    assert_eq!(desk.balance(&alice()).unwrap().total, 0);
    assert_eq!(desk.balance(&Scope::wallet("bob", "EUR")).unwrap().tokens, 100);
    let waits = desk.counters().waits;
    assert!(waits >= 50, "only {waits} of 99 had to wait");
}

#[test]
fn a_waiter_is_woken_by_the_end_of_a_lease_without_any_other_event() {
    let hub = start(&SimFs::new(2), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    runtime().block_on(async {
        desk.issue(vec![Token::new("one", "alice", "EUR", 1)]).await.unwrap();
        let mut short = request("gone", 1);
        short.lease_ms = 200;
        let held = desk.select(short, 0).await.unwrap();
        let next = desk.select(request("waits", 1), 30_000).await.unwrap();
        assert!(next.fence > held.fence);
        let late = SpendRequest::new("gone", vec![Output::new("bob", 1)]);
        assert!(matches!(desk.spend(late).await, Err(TokenError::Refused(Refusal::LeaseLost { .. }))));
    });
}

#[test]
fn whoever_hangs_up_leaves_nothing_behind() {
    let hub = start(&SimFs::new(3), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    let runtime = runtime();
    runtime.block_on(async {
        let tokens = (0..50).map(|number| Token::new(format!("t{number}"), "alice", "EUR", 1)).collect();
        desk.issue(tokens).await.unwrap();
        let mut calls = JoinSet::new();
        for number in 0..400_u64 {
            let desk = desk.clone();
            calls.spawn(async move {
                let mut request = request(&format!("s{number}"), 1 + number % 3);
                request.lease_ms = 50;
                // Some get their answer, some go away before, at any moment of the way.
                let patience = Duration::from_micros(number * 37 % 5_000);
                tokio::time::timeout(patience, desk.select(request, 20_000)).await.is_ok()
            });
        }
        while let Some(done) = calls.join_next().await {
            done.unwrap();
        }
        // What was decided for somebody who had gone ends with its lease; nothing else may be held.
        let all = desk.select(request("all", 50), 30_000).await.unwrap();
        assert_eq!(all.sum, 50);
    });
    let locked = desk.locks(None).unwrap();
    assert_eq!(locked.len(), 1, "{locked:?}");
}

#[test]
fn the_same_select_twice_at_once_gets_one_lock() {
    let hub = start(&SimFs::new(4), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    runtime().block_on(async {
        desk.issue(vec![Token::new("a", "alice", "EUR", 5), Token::new("b", "alice", "EUR", 5)])
            .await
            .unwrap();
        for round in 0..50 {
            let spender = format!("s{round}");
            let (first, second) =
                tokio::join!(desk.select(request(&spender, 5), 0), desk.select(request(&spender, 5), 0));
            assert_eq!(first.unwrap().fence, second.unwrap().fence);
            assert_eq!(desk.release(spender.into(), None).await.unwrap(), 1);
        }
    });
}

#[test]
fn the_vault_refuses_at_its_bound_and_says_so() {
    let tokens = TokenOptions { max: 10, ..TokenOptions::default() };
    let hub = start(&SimFs::new(5), HubOptions { tokens, ..HubOptions::default() });
    let desk = hub.handle().tokens().clone();
    runtime().block_on(async {
        let some = |from: usize, to: usize| {
            (from..to).map(|n| Token::new(format!("t{n}"), "alice", "EUR", 1)).collect::<Vec<_>>()
        };
        desk.issue(some(0, 10)).await.unwrap();
        let refused = desk.issue(some(10, 11)).await;
        assert!(matches!(refused, Err(TokenError::Refused(Refusal::Full { limit: 10, .. }))), "{refused:?}");
        assert_eq!(desk.balance(&alice()).unwrap().tokens, 10);
        // What leaves no more tokens than before is taken, and so are repeats.
        desk.select(request("three", 3), 0).await.unwrap();
        let spend = || SpendRequest::new("three", vec![Output::new("bob", 3)]);
        let first = desk.spend(spend()).await.unwrap();
        desk.issue(some(20, 22)).await.unwrap();
        assert_eq!(desk.spend(spend()).await.unwrap(), first);
        desk.select(request("cash", 2), 0).await.unwrap();
        desk.spend(SpendRequest::redeem("cash", 2)).await.unwrap();
        desk.consolidate(ConsolidationRequest::new("tidy", alice(), 1)).await.unwrap().expect("fewer");
    });
}

#[test]
fn consolidation_is_one_step_and_survives_a_restart() {
    let fs = SimFs::new(6);
    let hub = start(&fs, HubOptions::default());
    let runtime = runtime();
    let desk = hub.handle().tokens().clone();
    let transaction = runtime.block_on(async {
        let tokens = (0..40).map(|number| Token::new(format!("t{number}"), "alice", "EUR", 3)).collect();
        desk.issue(tokens).await.unwrap();
        let request = ConsolidationRequest::new("tidy", alice(), 4);
        let first = desk.consolidate(request.clone()).await.unwrap().expect("forty become four");
        assert_eq!(
            desk.consolidate(request).await.unwrap(),
            Some(first.clone()),
            "a repeat gets what is stored"
        );
        first
    });
    assert_eq!((transaction.consumed.len(), transaction.produced.len()), (40, 4));
    drop(desk);
    hub.stop();
    let hub = start(&fs, HubOptions::default());
    let balance = hub.handle().tokens().balance(&alice()).unwrap();
    assert_eq!((balance.total, balance.tokens, balance.locked), (120, 4, 0));
}

#[test]
fn the_index_follows_frames_and_spends_of_any_size() {
    let hub = start(&SimFs::new(7), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    runtime().block_on(async {
        let page = |page: usize| {
            (0..5_000).map(|n| Token::new(format!("p{page}-{n}"), "alice", "EUR", 1)).collect::<Vec<_>>()
        };
        let mut issues = JoinSet::new();
        for number in 0..6 {
            let (desk, tokens) = (desk.clone(), page(number));
            issues.spawn(async move { desk.issue(tokens).await });
        }
        while let Some(issued) = issues.join_next().await {
            issued.unwrap().unwrap();
        }
        assert_eq!(desk.balance(&alice()).unwrap().free, 30_000);
        let mut all = request("many", 10_000);
        all.max_inputs = Some(10_000);
        assert_eq!(desk.select(all, 0).await.unwrap().tokens.len(), 10_000);
        desk.spend(SpendRequest::new("many", vec![Output::new("bob", 10_000)])).await.unwrap();
    });
    let balance = desk.balance(&alice()).unwrap();
    assert_eq!((balance.total, balance.free), (20_000, 20_000));
    assert_eq!(desk.balance(&Scope::wallet("bob", "EUR")).unwrap().total, 10_000);
}

#[test]
fn who_waits_is_answered_when_the_hub_ends() {
    let hub = start(&SimFs::new(8), HubOptions::default());
    let desk = hub.handle().tokens().clone();
    let runtime = runtime();
    runtime.block_on(async {
        desk.issue(vec![Token::new("one", "alice", "EUR", 1)]).await.unwrap();
        desk.select(request("holds", 1), 0).await.unwrap();
    });
    let waiter = runtime.spawn({
        let desk = desk.clone();
        async move { desk.select(request("waits", 1), 60_000).await }
    });
    while desk.counters().waiting == 0 {
        std::thread::yield_now();
    }
    hub.stop();
    let answer = runtime.block_on(waiter).unwrap();
    assert!(matches!(answer, Err(TokenError::Refused(Refusal::StoreUnavailable(_)))), "{answer:?}");
}
