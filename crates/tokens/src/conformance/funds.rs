//! Promises about amounts, choices and refusals.

use super::fixture::{Host, START, alice, quantities, refused, request, select, try_select, with_tokens};
use crate::contract::TokenSelector;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{DustSweep, Policy, Scope, SelectRequest};
use crate::token::Token;

/// Tokens in the large wallet.
pub(super) const LARGE_WALLET: u64 = 1_000_000;

pub(super) fn enough_and_not_enough<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6]);
    let selection = select(&selector, "s1", 11);
    assert_eq!((quantities(&selection), selection.sum, selection.change()), (vec![5, 6], 11, 0));
    assert_eq!(refused(try_select(&selector, &request("s2", 12), START)), "insufficient-funds");
    let balance = selector.balance(&alice(), START).expect("a balance");
    assert_eq!((balance.total, balance.free, balance.locked, balance.tokens), (11, 0, 11, 2));
}

pub(super) fn locked_against_insufficient<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6, 7]);
    let held = select(&selector, "holder", 7);
    let locked = try_select(&selector, &request("s1", 12), START).expect_err("7 of 18 are locked");
    assert_eq!(locked.name(), "funds-locked");
    let funds = locked.funds().expect("numbers");
    assert_eq!((funds.amount, funds.total, funds.free, funds.locked), (12, 18, 11, 7));
    assert_eq!(funds.largest_free, Some(6));
    assert_eq!(&*funds.holders[0].spender, "holder");
    assert_eq!(funds.earliest_expiry, Some(held.expires_at));
    let short = try_select(&selector, &request("s1", 19), START).expect_err("there are 18");
    assert_eq!(short.name(), "insufficient-funds");
    let funds = short.funds().expect("numbers");
    assert_eq!((funds.total, funds.free, funds.locked), (18, 11, 7));
    // A refused request holds nothing and keeps no name.
    assert_eq!(select(&selector, "s1", 11).sum, 11);
}

pub(super) fn unknown_wallet<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let nobody = Scope::wallet("nobody", "EUR");
    let refusal =
        try_select(&selector, &SelectRequest::new("s1", nobody.clone(), 1), START).expect_err("nobody");
    assert_eq!(refusal.name(), "insufficient-funds");
    let funds = refusal.funds().expect("numbers");
    assert_eq!((funds.total, funds.free, funds.locked), (0, 0, 0));
    assert_eq!(selector.balance(&nobody, START).expect("a balance").total, 0);
}

pub(super) fn zero_and_absurd_amounts<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    assert_eq!(refused(try_select(&selector, &request("s1", 0), START)), "invalid");
    assert_eq!(refused(try_select(&selector, &request("s1", u64::MAX), START)), "insufficient-funds");
    assert_eq!(refused(try_select(&selector, &request("", 1), START)), "invalid");
    let mut none = request("s1", 1);
    none.max_inputs = Some(0);
    assert_eq!(refused(try_select(&selector, &none, START)), "invalid");
    let mut long = request("s1", 1);
    long.lease_ms = i64::MAX;
    assert_eq!(refused(try_select(&selector, &long, START)), "invalid");
    let nothing = vec![Token::new("zero", "alice", "EUR", 0)];
    assert_eq!(refused(selector.issue(nothing, START)), "invalid");
    assert_eq!(select(&selector, "s1", 1).sum, 5);
}

pub(super) fn largest_numbers<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[u64::MAX, u64::MAX, u64::MAX - 1]);
    let total = selector.balance(&alice(), START).expect("a balance").total;
    assert_eq!(total, u128::from(u64::MAX) * 3 - 1);
    let first = select(&selector, "s1", u64::MAX);
    assert_eq!(quantities(&first), [u64::MAX]);
    let mut all = request("s2", 1);
    all.policy = Policy::Consolidate;
    let both = try_select(&selector, &all, START).expect("two are left");
    assert_eq!(both.sum, u128::from(u64::MAX) * 2 - 1);
    assert_eq!(both.change(), u128::from(u64::MAX) * 2 - 2);
}

pub(super) fn exact_hit<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[1, 2, 3, 50, 51, 52, 1_000]);
    assert_eq!(quantities(&select(&selector, "s1", 51)), [51]);
}

pub(super) fn exact_hit_in_a_large_wallet<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = make();
    let token = |number: u64| Token::new(format!("t{number}"), "alice", "EUR", 2 * number + 2);
    for page in 0..LARGE_WALLET / 10_000 {
        let tokens = (page * 10_000..(page + 1) * 10_000).map(token).collect();
        selector.issue(tokens, START).expect("the bounds allow a million");
    }
    assert_eq!(quantities(&select(&selector, "s1", 777_778)), [777_778]);
    assert_eq!(quantities(&select(&selector, "s2", 2 * LARGE_WALLET)), [2 * LARGE_WALLET]);
    assert_eq!(select(&selector, "s3", 777_779).tokens.len(), 1);
}

pub(super) fn thirty_and_seventy<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[20, 30, 40, 40, 70, 500]);
    assert_eq!(quantities(&select(&selector, "s1", 100)), [30, 70]);
}

pub(super) fn fewest_inputs<S: TokenSelector>(make: &dyn Fn() -> S) {
    // No sum is exact; two tokens suffice, and 31 is the smallest that completes 60.
    let selector = with_tokens(make, &[10, 20, 31, 40, 60]);
    let selection = select(&selector, "s1", 89);
    assert_eq!(quantities(&selection), [31, 60]);
    // The smallest single token that covers.
    let selector = with_tokens(make, &[10, 20, 200, 300]);
    assert_eq!(quantities(&select(&selector, "s1", 99)), [200]);
}

pub(super) fn policies<S: TokenSelector + Host>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[1, 2, 3, 5, 100]);
    let mut exact = request("s1", 104);
    exact.policy = Policy::NoChange;
    assert_eq!(try_select(&selector, &exact, START).expect("100 + 3 + 1").sum, 104);
    selector.release("s1", None, START).expect("released");
    exact.amount = 112;
    assert_eq!(refused(try_select(&selector, &exact, START)), "insufficient-funds");
    exact.filter.notary = None;
    let selector = with_tokens(make, &[2, 4, 6, 100]);
    exact.amount = 7;
    let refusal = try_select(&selector, &exact, START).expect_err("all are even");
    assert_eq!((refusal.name(), refusal.funds().expect("numbers").free), ("no-exact-match", 112));
    let mut many = request("s2", 5);
    many.policy = Policy::Consolidate;
    many.max_inputs = Some(3);
    assert_eq!(quantities(&try_select(&selector, &many, START).expect("enough")), [2, 4, 6]);
    selector.release("s2", None, START).expect("released");
    selector.settle();
    many.amount = 50;
    assert_eq!(quantities(&try_select(&selector, &many, START).expect("enough")), [2, 4, 100]);
    selector.release("s2", None, START).expect("released");
    let mut any = request("s3", 9);
    any.policy = Policy::Random;
    for seed in 0..32 {
        let found = selector.select(&any, START, &mut Random::new(seed)).expect("enough");
        assert!(found.sum >= 9);
        let needless = found.tokens.iter().any(|token| found.sum - u128::from(token.quantity) >= 9);
        assert!(!needless, "{found:?}");
        selector.release("s3", None, START).expect("released");
    }
    selector.settle();
    let mut swept = request("s4", 99);
    swept.sweep = Some(DustSweep { quantity_max: 4, inputs_max: 5 });
    assert_eq!(quantities(&try_select(&selector, &swept, START).expect("enough")), [2, 4, 100]);
}

pub(super) fn too_many_inputs<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[10; 20]);
    let mut few = request("s1", 100);
    few.max_inputs = Some(9);
    match try_select(&selector, &few, START) {
        Err(Refusal::TooManyInputs { funds, max_inputs, best_sum }) => {
            assert_eq!((funds.free, max_inputs, best_sum), (200, 9, 90));
        }
        other => panic!("{other:?}"),
    }
    few.max_inputs = Some(10);
    assert_eq!(try_select(&selector, &few, START).expect("ten suffice").tokens.len(), 10);
}

pub(super) fn shortfall<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6]);
    let mut any = request("s1", 100);
    any.allow_shortfall = true;
    assert_eq!(try_select(&selector, &any, START).expect("what there is").sum, 11);
    any.spender = "s2".into();
    assert_eq!(refused(try_select(&selector, &any, START)), "insufficient-funds");
}

pub(super) fn two_of_four_against_two_threes<S: TokenSelector>(make: &dyn Fn() -> S) {
    for round in 0..16 {
        let selector = with_tokens(make, &[3, 3]);
        let ask = |spender: &str, seed| {
            selector
                .select(&request(spender, 4), START, &mut Random::new(seed))
                .map_err(|refusal| refusal.name())
        };
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| ask("s1", round));
            let two = scope.spawn(|| ask("s2", round + 100));
            (one.join().expect("no panic"), two.join().expect("no panic"))
        });
        let (winner, loser) = if one.is_ok() { (one, two) } else { (two, one) };
        assert_eq!(winner.expect("one wins").sum, 6);
        assert!(matches!(loser, Err("funds-locked" | "contention")), "{loser:?}");
        let locks = selector.locks(None, START).expect("a list");
        assert_eq!(locks.len(), 1, "the loser holds a part");
    }
}
