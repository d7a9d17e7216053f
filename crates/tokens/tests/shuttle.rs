//! The shards and the waiters under shuttle's schedules: the same rooms, compiled with shuttle's locks and atomics.
//!
//! `sync` is the only module that differs from the library's.

#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    reason = "the library's rooms, of which only a part is used here"
)]

#[path = "../src/answer.rs"]
mod answer;
#[path = "../src/choose/mod.rs"]
mod choose;
#[path = "../src/contract.rs"]
mod contract;
#[path = "../src/fingerprint.rs"]
mod fingerprint;
#[path = "../src/limits.rs"]
mod limits;
#[path = "../src/memory/mod.rs"]
mod memory;
#[path = "../src/random.rs"]
mod random;
#[path = "../src/refusal.rs"]
mod refusal;
#[path = "../src/request.rs"]
mod request;
#[path = "../src/token.rs"]
mod token;

mod sync {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering,
    };
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
}

use std::sync::Arc;

use answer::{LockRecord, Selection, Transaction};
use contract::TokenSelector;
use fingerprint::Fingerprint;
use limits::Config;
use memory::{Claim, Claimed, MemorySelector};
use random::Random;
use refusal::Refusal;
use request::{Output, Owner, OwnerKind, Scope, SelectRequest, SpendRequest};
use shuttle::thread;
use token::Token;

const NOW: i64 = 1_700_000_000_000;
/// Schedules per test.
const SCHEDULES: usize = 2_000;

/// Random schedules, and schedules with few but well-placed preemptions.
fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

fn wallet(name: &str) -> Scope {
    Scope::wallet(name, "EUR")
}

fn account() -> Scope {
    Scope::new(Owner::ExternalId("account".into()), "EUR")
}

/// Tokens (wallet, quantity), all under one external id.
fn selector(tokens: &[(&str, u64)], indexes: &[OwnerKind]) -> Arc<MemorySelector> {
    let config = Config { stripes: 4, hash_seed: Some(7), indexes: indexes.to_vec(), ..Config::default() };
    let selector = MemorySelector::new(config);
    let token = |(number, (wallet, quantity)): (usize, &(&str, u64))| {
        Token::new(format!("t{number}"), *wallet, "EUR", *quantity).external_id("account")
    };
    selector.issue(tokens.iter().enumerate().map(token).collect(), NOW).expect("fresh");
    Arc::new(selector)
}

fn select(selector: &MemorySelector, spender: &str, scope: Scope, amount: u64) -> Result<Selection, Refusal> {
    selector.select(&SelectRequest::new(spender, scope, amount), NOW, &mut Random::new(3))
}

/// Selects, or waits until it can; `served` is told then.
fn ask(
    selector: &MemorySelector,
    spender: &str,
    scope: Scope,
    amount: u64,
    served: impl FnOnce(Selection) + Send + 'static,
) {
    let answer =
        Box::new(|outcome: Result<Selection, Refusal>| served(outcome.expect("it comes in the end")));
    let request = SelectRequest::new(spender, scope, amount);
    let _ = selector.select_or_wait(request, None, NOW + 1_000, NOW, Random::new(1), answer);
}

/// Does something with the selector on a thread of its own.
fn beside<T: Send + 'static>(
    selector: &Arc<MemorySelector>,
    work: impl FnOnce(&MemorySelector) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let selector = Arc::clone(selector);
    thread::spawn(move || work(&selector))
}

/// Wallet and account must tell the same story once everything is quiet.
fn assert_mirror_follows(selector: &MemorySelector, wallets: &[&str]) {
    let balances = wallets.iter().map(|name| selector.balance(&wallet(name), NOW).expect("a balance"));
    let (free, locked) = balances.fold((0, 0), |sum, one| (sum.0 + one.free, sum.1 + one.locked));
    let mirror = selector.balance(&account(), NOW).expect("a balance");
    assert_eq!((mirror.free, mirror.locked), (free, locked));
}

#[test]
fn two_of_four_against_two_threes_over_two_index_kinds() {
    explore(|| {
        let selector = selector(&[("alice", 3), ("bob", 3)], &[OwnerKind::ExternalId]);
        let threads = ["s1", "s2"]
            .map(|spender| beside(&selector, move |selector| select(selector, spender, account(), 4)));
        let single = beside(&selector, |selector| {
            let held = select(selector, "s3", wallet("alice"), 3);
            if held.is_ok() {
                selector.release("s3", None, NOW).expect("held");
            }
        });
        let outcomes = threads.map(|thread| thread.join().expect("no panic"));
        single.join().expect("no panic");
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(won <= 1, "two hold 6 of 6");
        for refusal in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
            assert_eq!(refusal.name(), "funds-locked");
        }
        let locked = selector.balance(&account(), NOW).expect("a balance").locked;
        assert_eq!(locked, if won == 1 { 6 } else { 0 }, "a part is held");
        assert_mirror_follows(&selector, &["alice", "bob"]);
    });
}

#[test]
fn no_wakeup_is_lost() {
    explore(|| {
        let selector = selector(&[("alice", 3)], &[OwnerKind::ExternalId]);
        select(&selector, "holder", wallet("alice"), 3).expect("free");
        let (sender, receiver) = shuttle::sync::mpsc::channel();
        let waiters = [("w1", wallet("alice")), ("w2", account())].map(|(spender, scope)| {
            let (inner, sender) = (selector.clone(), sender.clone());
            beside(&selector, move |selector| {
                ask(selector, spender, scope, 3, move |held| {
                    assert_eq!(held.sum, 3);
                    inner.release(spender, None, NOW).expect("held");
                    sender.send(spender).expect("the test listens");
                });
            })
        });
        let releaser = beside(&selector, |selector| selector.release("holder", None, NOW).expect("held"));
        releaser.join().expect("no panic");
        waiters.into_iter().for_each(|waiter| waiter.join().expect("no panic"));
        // Shuttle calls it a deadlock if an answer never comes: nobody ticks here.
        let mut served = [receiver.recv().expect("served"), receiver.recv().expect("served")];
        served.sort_unstable();
        assert_eq!(served, ["w1", "w2"]);
        assert_eq!(selector.counters().waiting, 0);
        assert_mirror_follows(&selector, &["alice"]);
    });
}

#[test]
fn change_goes_from_waiter_to_waiter() {
    explore(|| {
        let selector = selector(&[("alice", 3)], &[OwnerKind::Wallet]);
        let (sender, receiver) = shuttle::sync::mpsc::channel();
        let threads = ["s1", "s2", "s3"].map(|spender| {
            let (inner, sender) = (selector.clone(), sender.clone());
            beside(&selector, move |selector| {
                ask(selector, spender, wallet("alice"), 1, move |_| {
                    let pay = SpendRequest::new(spender, vec![Output::new("bob", 1)]);
                    inner.spend(&pay, NOW).expect("live");
                    sender.send(()).expect("the test listens");
                });
            })
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        (0..3).for_each(|_| receiver.recv().expect("all are served"));
        assert_eq!(selector.balance(&wallet("bob"), NOW).expect("a balance").free, 3);
        assert_eq!(selector.balance(&wallet("alice"), NOW).expect("a balance").total, 0);
    });
}

#[test]
fn renew_against_lease_end() {
    explore(|| {
        let selector = selector(&[("alice", 3), ("bob", 3)], &[OwnerKind::ExternalId]);
        let held = select(&selector, "old", account(), 6).expect("free");
        let (fence, end) = (Some(held.fence), held.expires_at);
        let renewer =
            beside(&selector, move |selector| selector.renew("old", fence, 60_000, end - 1).is_ok());
        let taker = beside(&selector, move |selector| {
            let request = SelectRequest::new("new", wallet("bob"), 3);
            selector.select(&request, end, &mut Random::new(1)).is_ok()
        });
        let (renewed, taken) = (renewer.join().expect("no panic"), taker.join().expect("no panic"));
        assert!(renewed != taken, "renewed {renewed}, taken {taken}: exactly one holds it");
        let pay = SpendRequest::new("old", vec![Output::new("carol", 6)]);
        assert_eq!(selector.spend(&pay, held.expires_at).is_ok(), renewed);
        let pay = SpendRequest::new("new", vec![Output::new("carol", 3)]);
        assert_eq!(selector.spend(&pay, held.expires_at).is_ok(), taken);
    });
}

#[test]
fn payments_in_circles_do_not_lock_up() {
    explore(|| {
        let selector = selector(&[("alice", 5), ("bob", 5), ("carol", 5)], &[OwnerKind::ExternalId]);
        let threads = [("alice", "bob"), ("bob", "carol"), ("carol", "alice")].map(|(from, to)| {
            beside(&selector, move |selector| {
                select(selector, from, wallet(from), 2).expect("5 are there");
                selector.spend(&SpendRequest::new(from, vec![Output::new(to, 2)]), NOW).expect("live");
            })
        });
        let reader = beside(&selector, |selector| {
            // Whoever looks in between sees all the money, or more while it is on its way; never less.
            let refusal = select(selector, "reader", Scope::new(Owner::Any, "EUR"), 100);
            let total = refusal.expect_err("15 in all").funds().expect("numbers").total;
            assert!(total >= 15, "{total}");
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        reader.join().expect("no panic");
        assert_eq!(selector.balance(&Scope::new(Owner::Any, "EUR"), NOW).expect("a balance").total, 15);
    });
}

#[test]
fn an_index_built_on_first_use_misses_nothing() {
    explore(|| {
        let selector = selector(&[("alice", 3), ("bob", 4)], &[OwnerKind::Wallet]);
        let locker = beside(&selector, |selector| {
            select(selector, "s1", wallet("alice"), 3).expect("free");
            selector.spend(&SpendRequest::new("s1", vec![Output::new("bob", 1)]), NOW).expect("live");
        });
        let issuer = beside(&selector, |selector| {
            let token = Token::new("new", "bob", "EUR", 5).external_id("account");
            selector.issue(vec![token], NOW).expect("fresh");
        });
        let total = selector.balance(&account(), NOW).expect("a balance").total;
        // 7 at first; 5 may have come, and 1 may have gone to bob under no external id.
        assert!((6..=15).contains(&total), "{total}");
        locker.join().expect("no panic");
        issuer.join().expect("no panic");
        // The output to bob carries no external id.
        assert_eq!(selector.balance(&account(), NOW).expect("a balance").total, 11);
    });
}

#[test]
fn an_issue_wakes_who_waits_under_another_index_kind() {
    explore(|| {
        let selector = selector(&[("alice", 3)], &[OwnerKind::ExternalId]);
        select(&selector, "holder", wallet("alice"), 3).expect("free");
        let (sender, receiver) = shuttle::sync::mpsc::channel();
        let waiter = beside(&selector, move |selector| {
            ask(selector, "waiter", account(), 3, move |held| {
                sender.send(held.sum).expect("the test listens");
            });
        });
        let token = Token::new("new", "bob", "EUR", 3).external_id("account");
        selector.issue(vec![token], NOW).expect("fresh");
        waiter.join().expect("no panic");
        assert_eq!(receiver.recv().expect("served"), 3);
    });
}

fn claim(selector: &MemorySelector, spender: &str, scope: Scope, amount: u64) -> Claim {
    let request = SelectRequest::new(spender, scope, amount);
    match selector.claim(&request, None, NOW, &mut Random::new(3)).expect("enough") {
        Claimed::New(claim) => claim,
        Claimed::Held(selection) => panic!("{selection:?} is held already"),
    }
}

fn record(spender: &str, fence: u64, ids: &[&str]) -> LockRecord {
    LockRecord {
        spender: spender.into(),
        fence,
        since: NOW,
        expires_at: NOW + 1_000,
        amount: 1,
        body: Fingerprint(7),
        ids: ids.iter().map(|id| token::TokenId::from(*id)).collect(),
    }
}

#[test]
fn a_record_against_the_end_of_its_claim() {
    explore(|| {
        let selector = selector(&[("alice", 3), ("bob", 3)], &[OwnerKind::ExternalId]);
        let claim = claim(&selector, "s1", account(), 6);
        let ids: Vec<&str> = claim.tokens.iter().map(|token| token.id.as_str()).collect();
        let record = record("s1", 40, &ids);
        // The caller went away while the record became durable; another wants the tokens.
        let undone = claim.clone();
        let undoer = beside(&selector, move |selector| selector.undo(&undone, NOW));
        let other = beside(&selector, |selector| {
            let request = SelectRequest::new("s2", wallet("bob"), 3);
            selector.claim(&request, None, NOW, &mut Random::new(1)).ok()
        });
        selector.apply_lock(&record, NOW).expect("the log is right");
        undoer.join().expect("no panic");
        if let Some(Claimed::New(claim)) = other.join().expect("no panic") {
            assert!(selector.confirm(&claim, 50, NOW + 1_000).is_err(), "the record took its token");
            assert!(selector.undo(&claim, NOW));
        }
        let balance = selector.balance(&account(), NOW).expect("a balance");
        assert_eq!((balance.free, balance.locked), (0, 6));
        assert_mirror_follows(&selector, &["alice", "bob"]);
        let pay = SpendRequest::new("s1", vec![Output::new("carol", 6)]);
        selector.spend(&pay, NOW).expect("the record's lock is whole");
    });
}

#[test]
fn the_log_against_claims_and_their_confirm() {
    explore(|| {
        let selector = selector(&[("alice", 3), ("alice", 4), ("bob", 5)], &[OwnerKind::ExternalId]);
        let old = claim(&selector, "s1", wallet("alice"), 7);
        let confirmed = old.clone();
        let confirmer =
            beside(&selector, move |selector| selector.confirm(&confirmed, 50, NOW + 1_000).is_ok());
        let spender = beside(&selector, |selector| {
            let consumed = vec!["t0".into()];
            let (id, spender) = ("tx".into(), "s2".into());
            let done = Transaction { id, spender, consumed, produced: vec![] };
            selector.apply_spend(&done, Fingerprint(1), NOW).expect("claims give way");
        });
        let other = claim(&selector, "s3", wallet("bob"), 5);
        // Its own claim is on another token: the record wins, unless t1 was locked for good before.
        let applied = selector.apply_lock(&record("s3", 41, &["t1"]), NOW).is_ok();
        let confirmed = confirmer.join().expect("no panic");
        spender.join().expect("no panic");
        assert!(applied != confirmed, "applied {applied}, confirmed {confirmed}: t1 has one holder");
        assert!(!selector.undo(&other, NOW), "it gave way either way");
        assert_eq!(selector.undo(&old, NOW), !confirmed);
        let total = |name: &str| selector.balance(&wallet(name), NOW).expect("a balance");
        assert_eq!((total("alice").total, total("alice").locked, total("bob").free), (4, 4, 5));
        assert_mirror_follows(&selector, &["alice", "bob"]);
    });
}
