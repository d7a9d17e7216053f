//! Promises about spends and updates.

use super::fixture::{START, alice, refused, request, select, tokens, try_select, with_tokens};
use crate::contract::TokenSelector;
use crate::request::{Output, Scope, SpendRequest};
use crate::token::Token;

fn pay(spender: &str, outputs: &[(&str, u64)]) -> SpendRequest {
    let outputs = outputs.iter().map(|(wallet, quantity)| Output::new(*wallet, *quantity)).collect();
    SpendRequest::new(spender, outputs)
}

fn total<S: TokenSelector>(selector: &S, wallet: &str) -> u128 {
    selector.balance(&Scope::wallet(wallet, "EUR"), START).expect("a balance").total
}

pub(super) fn repeated_spend<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[10]);
    let held = select(&selector, "s1", 4);
    let first = selector.spend(&pay("s1", &[("bob", 4)]), START).expect("live");
    assert_eq!(selector.spend(&pay("s1", &[("bob", 4)]), START), Ok(first.clone()));
    // Also after the lease would have ended.
    assert_eq!(selector.spend(&pay("s1", &[("bob", 4)]), held.expires_at + 1), Ok(first));
    assert_eq!(refused(selector.spend(&pay("s1", &[("eve", 4)]), START)), "spender-in-use");
    assert_eq!(refused(try_select(&selector, &request("s1", 4), START)), "spender-in-use");
    assert_eq!((total(&selector, "alice"), total(&selector, "bob")), (6, 4));
}

pub(super) fn change_and_outputs<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[10, 7]);
    select(&selector, "s1", 17);
    let done = selector.spend(&pay("s1", &[("bob", 4), ("carol", 5)]), START).expect("live");
    assert_eq!((done.consumed.len(), done.produced.len()), (2, 3));
    let produced: Vec<_> =
        done.produced.iter().map(|token| (token.kind.wallet.to_string(), token.quantity)).collect();
    assert_eq!(produced, [("bob".into(), 4), ("carol".into(), 5), ("alice".into(), 8)]);
    assert_eq!((total(&selector, "alice"), total(&selector, "bob"), total(&selector, "carol")), (8, 4, 5));
    assert_eq!(select(&selector, "s2", 8).tokens[0], done.produced[2]);
    // Without a rest there is no change.
    let done = selector.spend(&pay("s2", &[("bob", 8)]), START).expect("live");
    assert_eq!((done.produced.len(), total(&selector, "alice")), (1, 0));
}

pub(super) fn issuers_kept_apart<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = make();
    let of = |id: &str, issuer: &str, quantity| Token::new(id, "alice", "EUR", quantity).issuer(issuer);
    selector.issue(vec![of("x", "bank-x", 10), of("y", "bank-y", 10)], START).expect("fresh");
    select(&selector, "s1", 20);
    let done = selector.spend(&pay("s1", &[("bob", 7), ("bob", 6)]), START).expect("live");
    let mut sums = std::collections::BTreeMap::new();
    for token in &done.produced {
        let issuer = token.kind.issuer.as_deref().expect("kept").to_owned();
        *sums.entry((issuer, token.kind.wallet.to_string())).or_insert(0) += token.quantity;
    }
    let per_issuer =
        |issuer: &str| sums.iter().filter(|((i, _), _)| i == issuer).map(|(_, q)| q).sum::<u64>();
    assert_eq!((per_issuer("bank-x"), per_issuer("bank-y")), (10, 10));
    assert_eq!((total(&selector, "alice"), total(&selector, "bob")), (7, 13));
}

pub(super) fn redeem<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[10]);
    select(&selector, "s1", 4);
    assert_eq!(refused(selector.spend(&SpendRequest::redeem("s1", 11), START)), "invalid");
    let done = selector.spend(&SpendRequest::redeem("s1", 4), START).expect("live");
    assert_eq!((done.produced.len(), done.produced[0].quantity), (1, 6));
    assert_eq!(total(&selector, "alice"), 6);
}

pub(super) fn wrong_spends<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[10]);
    assert_eq!(refused(selector.spend(&pay("s1", &[("bob", 4)]), START)), "lease-lost");
    select(&selector, "s1", 4);
    assert_eq!(refused(selector.spend(&pay("s1", &[("bob", 11)]), START)), "invalid");
    let overflow = pay("s1", &[("bob", u64::MAX), ("bob", u64::MAX)]);
    assert_eq!(refused(selector.spend(&overflow, START)), "invalid");
    assert_eq!(refused(selector.spend(&pay("s1", &[("bob", 0)]), START)), "invalid");
    assert_eq!(refused(selector.spend(&pay("s1", &[]), START)), "invalid");
    assert_eq!(selector.balance(&alice(), START).expect("a balance").locked, 10);
    selector.spend(&pay("s1", &[("bob", 4)]), START).expect("still live");
}

pub(super) fn consume_before_produce<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let late = || Token::new("late", "alice", "EUR", 6);
    assert_eq!(selector.update(&["late".into(), "a0".into()], vec![], START), Ok((1, 0)));
    assert_eq!(selector.update(&[], vec![late()], START), Ok((0, 0)));
    assert_eq!(refused(selector.issue(vec![late()], START)), "token-consumed");
    // Neither does what lived once come back.
    assert_eq!(selector.update(&[], tokens(&[5]), START), Ok((0, 0)));
    assert_eq!(total(&selector, "alice"), 0);
    // Both in one update: dead.
    let both = Token::new("both", "alice", "EUR", 7);
    assert_eq!(selector.update(&["both".into()], vec![both.clone()], START), Ok((0, 0)));
    assert_eq!(selector.update(&[], vec![both], START), Ok((0, 0)));
    // A repeated produce counts once.
    let new = || vec![Token::new("new", "alice", "EUR", 8)];
    assert_eq!(selector.update(&[], new(), START), Ok((0, 1)));
    assert_eq!(selector.update(&[], new(), START), Ok((0, 0)));
    assert_eq!(total(&selector, "alice"), 8);
}

pub(super) fn consumed_token_breaks_its_lock<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5, 6]);
    let held = select(&selector, "s1", 11);
    assert_eq!(selector.update(&["a0".into()], vec![], START), Ok((1, 0)));
    assert_eq!(refused(selector.spend(&pay("s1", &[("bob", 1)]), START)), "lease-lost");
    // The rest of a broken lock is given back by its holder, or was free at once.
    assert!(selector.release("s1", Some(held.fence), START).expect("nothing is refused") <= 1);
    assert_eq!(select(&selector, "s2", 6).sum, 6);
}

pub(super) fn issue_all_or_nothing<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let batch = vec![Token::new("b0", "bob", "EUR", 1), Token::new("a0", "bob", "EUR", 1)];
    assert_eq!(refused(selector.issue(batch, START)), "token-exists");
    let twins = vec![Token::new("c0", "carol", "EUR", 1), Token::new("c0", "carol", "EUR", 1)];
    assert_eq!(refused(selector.issue(twins, START)), "token-exists");
    assert_eq!((total(&selector, "bob"), total(&selector, "carol"), total(&selector, "alice")), (0, 0, 5));
    selector.issue(vec![Token::new("b0", "bob", "EUR", 1)], START).expect("its id stayed free");
}
