//! Many threads on one selector: no token twice, nobody lost, nobody polling.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holdfast_tokens::{
    Config, MemorySelector, Output, Owner, OwnerKind, Random, Refusal, Scope, SelectRequest, SpendRequest,
    Token, TokenSelector, Vault,
};

const NOW: i64 = 1_700_000_000_000;

#[test]
fn one_token_of_100_serves_100_requests_of_1() {
    let vault = Vault::default();
    vault.issue(vec![Token::new("big", "alice", "EUR", 100)]).expect("fresh");
    std::thread::scope(|scope| {
        for number in 0..100 {
            let vault = &vault;
            scope.spawn(move || {
                let spender = format!("s{number}");
                let request = SelectRequest::new(spender.as_str(), Scope::wallet("alice", "EUR"), 1);
                let selection =
                    vault.select_within(&request, Duration::from_secs(60)).expect("its turn comes");
                let pay = SpendRequest {
                    fence: Some(selection.fence),
                    ..SpendRequest::new(spender, vec![Output::new("bob", 1)])
                };
                vault.spend(&pay).expect("live");
            });
        }
    });
    assert_eq!(vault.balance(&Scope::wallet("bob", "EUR")).expect("a balance").free, 100);
    let counters = vault.selector().counters();
    assert_eq!((counters.selections, counters.waiting), (100, 0));
    // Each spend wakes the first in line, whose claim leaves nothing to the second: at most two looks per request, plus
    // the first. Polling would show as many more.
    assert!(counters.refused <= 300, "{counters:?}");
}

/// The shape of the reference's own load test: six spenders with 10,000 selections each, two inserters beside them.
#[test]
fn sixty_thousand_selections_never_share_a_token() {
    let indexes = vec![OwnerKind::Wallet, OwnerKind::ExternalId];
    let selector = MemorySelector::new(Config { indexes, stripes: 8, ..Config::default() });
    let held: Mutex<HashSet<String>> = Mutex::default();
    let (taken, inserted, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let issue = |from: u64, count: u64| {
        let token = |number: u64| {
            let wallet = format!("w{}", number % 3);
            Token::new(format!("t{number}"), wallet, "EUR", 1 + number % 50).external_id("account")
        };
        selector.issue((from..from + count).map(token).collect(), NOW).expect("fresh");
        inserted.fetch_add((from..from + count).map(|number| 1 + number % 50).sum(), Ordering::Relaxed);
    };
    issue(0, 1_000);
    let spend = |thread: u64| {
        let mut random = Random::new(thread);
        let owner = if thread < 4 {
            Owner::Wallet(format!("w{}", thread % 3).into())
        } else {
            Owner::ExternalId("account".into())
        };
        let scope = Scope::new(owner, "EUR");
        let mut successes = 0;
        while successes < 10_000 {
            let spender = format!("s{thread}-{successes}");
            let request = SelectRequest::new(spender.as_str(), scope.clone(), 1 + random.below(60));
            let selection = match selector.select(&request, NOW, &mut random) {
                Ok(selection) => selection,
                Err(Refusal::FundsLocked(_) | Refusal::Contention { .. } | Refusal::InsufficientFunds(_)) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(refusal) => panic!("{refusal}"),
            };
            successes += 1;
            assert!(selection.sum >= u128::from(request.amount));
            {
                let mut held = held.lock().expect("no panic");
                for token in selection.tokens.iter() {
                    assert!(held.insert(token.id.to_string()), "{} was selected twice", token.id);
                }
            }
            let back = || {
                let mut held = held.lock().expect("no panic");
                selection.tokens.iter().for_each(|token| assert!(held.remove(token.id.as_str())));
            };
            // One in four is spent for good; what was selected is never selected again.
            if successes % 4 == 0 {
                let quantity = u64::try_from(selection.sum).expect("small");
                selector.spend(&SpendRequest::redeem(spender.as_str(), quantity), NOW).expect("live");
                taken.fetch_add(quantity, Ordering::Relaxed);
            } else {
                back();
                assert_eq!(
                    selector.release(&spender, Some(selection.fence), NOW),
                    Ok(selection.tokens.len())
                );
            }
        }
    };
    std::thread::scope(|scope| {
        let spenders: Vec<_> = (0..6).map(|thread| scope.spawn(move || spend(thread))).collect();
        for inserter in 0..2_u64 {
            let (issue, done) = (&issue, &done);
            scope.spawn(move || {
                let mut from = 1_000_000 * (inserter + 1);
                while !done.load(Ordering::Relaxed) && from < 1_000_000 * (inserter + 1) + 200_000 {
                    issue(from, 20);
                    from += 20;
                    std::thread::yield_now();
                }
            });
        }
        for spender in spenders {
            spender.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
    });
    let any = Scope::new(Owner::Any, "EUR");
    let balance = selector.balance(&any, NOW).expect("a balance");
    let left = inserted.load(Ordering::Relaxed) - taken.load(Ordering::Relaxed);
    assert_eq!((balance.total, balance.locked), (u128::from(left), 0));
    let account = Scope::new(Owner::ExternalId("account".into()), "EUR");
    assert_eq!(selector.balance(&account, NOW).expect("a balance"), balance);
    assert_eq!(selector.counters().selections, 60_000);
}
