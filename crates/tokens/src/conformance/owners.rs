//! Promises about whose tokens are chosen, and which of them.

use std::sync::Arc;

use super::fixture::{START, alice, refused, request, try_select, with_tokens};
use crate::contract::TokenSelector;
use crate::random::Random;
use crate::request::{Owner, Predicate, Scope, SelectRequest};
use crate::token::Token;

fn owned<S: TokenSelector>(make: &dyn Fn() -> S) -> S {
    let selector = make();
    let tokens = vec![
        Token::new("t0", "alice", "EUR", 1).external_id("account").public_key("key-0"),
        Token::new("t1", "alice", "EUR", 2).external_id("account").public_key("key-1"),
        Token::new("t2", "bob", "EUR", 4).external_id("account").public_key("key-1"),
        Token::new("t3", "bob", "EUR", 8),
    ];
    selector.issue(tokens, START).expect("fresh");
    selector
}

fn scopes() -> [(Scope, u64); 5] {
    [
        (Scope::wallet("alice", "EUR"), 3),
        (Scope::wallet("bob", "EUR"), 12),
        (Scope::new(Owner::ExternalId("account".into()), "EUR"), 7),
        (Scope::new(Owner::PublicKey("key-1".into()), "EUR"), 6),
        (Scope::new(Owner::Any, "EUR"), 15),
    ]
}

pub(super) fn each_index_kind<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = owned(make);
    for (scope, total) in scopes() {
        assert_eq!(selector.balance(&scope, START).expect("a balance").total, u128::from(total), "{scope:?}");
        let too_much = SelectRequest::new("s1", scope.clone(), total + 1);
        assert_eq!(refused(try_select(&selector, &too_much, START)), "insufficient-funds");
        let all =
            try_select(&selector, &SelectRequest::new("s1", scope.clone(), total), START).expect("all of it");
        assert_eq!(all.sum, u128::from(total));
        assert_eq!(selector.release("s1", None, START), Ok(all.tokens.len()));
    }
    let stranger = Scope::new(Owner::ExternalId("alice".into()), "EUR");
    let request = SelectRequest::new("s1", stranger, 1);
    assert_eq!(refused(try_select(&selector, &request, START)), "insufficient-funds");
}

pub(super) fn one_lock_under_all_kinds<S: TokenSelector>(make: &dyn Fn() -> S) {
    for (scope, total) in scopes() {
        let selector = owned(make);
        let all = SelectRequest::new("s1", scope, total);
        let mut held = try_select(&selector, &all, START).expect("all of it");
        for (other, other_total) in scopes() {
            let balance = selector.balance(&other, START).expect("a balance");
            assert_eq!(balance.total, u128::from(other_total));
            let shared = held.tokens.iter().filter(|token| other.owns(token));
            let locked: u64 = shared.map(|token| token.quantity).sum();
            assert_eq!(balance.locked, u128::from(locked), "{other:?}");
            if locked > 0 {
                let request = SelectRequest::new("s2", other.clone(), other_total);
                let refusal = try_select(&selector, &request, START).expect_err("a part is locked");
                assert_eq!(refusal.name(), "funds-locked");
                assert_eq!(refusal.funds().expect("numbers").earliest_expiry, Some(held.expires_at));
            }
            let after = selector.balance(&other, held.expires_at).expect("a balance");
            let ended = (u128::from(other_total), 0);
            assert_eq!((after.free, after.locked), ended, "the lease ends for all kinds");
            // The look into the future has ended the lease; lock again for the next scope.
            selector.release("s1", None, START).expect("released or ended");
            let again = try_select(&selector, &all, START).expect("free again");
            assert_eq!(again.sum, held.sum);
            held = again;
        }
    }
}

pub(super) fn type_and_currency<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[5]);
    let others = vec![
        Token::new("usd", "alice", "USD", 6),
        Token::new("bond", "alice", "EUR", 7).of_type("bond"),
        Token::new("plain", "alice", "EUR", 8).of_type(crate::token::DEFAULT_TYPE),
    ];
    selector.issue(others, START).expect("fresh");
    let total = |scope: &Scope| selector.balance(scope, START).expect("a balance").total;
    assert_eq!(total(&alice()), 13);
    assert_eq!(total(&Scope::wallet("alice", "USD")), 6);
    assert_eq!(total(&Scope { token_type: "bond".into(), ..alice() }), 7);
    assert_eq!(refused(try_select(&selector, &request("s1", 14), START)), "insufficient-funds");
}

pub(super) fn issuer_notary_attributes<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = make();
    let token = |id: &str, quantity| Token::new(id, "alice", "EUR", quantity).notary("n");
    let tokens = vec![
        token("t0", 1).issuer("x").attribute("grade", "A").attribute("lot", "1"),
        token("t1", 2).issuer("x").attribute("grade", "B"),
        token("t2", 4).issuer("y").attribute("grade", "A"),
    ];
    selector.issue(tokens, START).expect("fresh");
    let sum = |change: &dyn Fn(&mut SelectRequest)| {
        let mut request = request("s1", 100);
        request.allow_shortfall = true;
        change(&mut request);
        let found = try_select(&selector, &request, START).map(|selection| selection.sum).unwrap_or(0);
        selector.release("s1", None, START).expect("released");
        found
    };
    assert_eq!(sum(&|_| {}), 7);
    assert_eq!(sum(&|request| request.filter.issuer = Some("x".into())), 3);
    assert_eq!(sum(&|request| request.filter.issuer = Some("z".into())), 0);
    assert_eq!(sum(&|request| request.filter.notary = Some("n".into())), 7);
    assert_eq!(sum(&|request| request.filter.notary = Some("m".into())), 0);
    let attribute = |request: &mut SelectRequest, name: &str, value: &str| {
        request.filter.attributes.insert(name.into(), value.into());
    };
    assert_eq!(sum(&|request| attribute(request, "grade", "A")), 5);
    assert_eq!(sum(&|request| attribute(request, "lot", "1")), 1);
    let mut short = request("s1", 6);
    attribute(&mut short, "grade", "A");
    let refusal = try_select(&selector, &short, START).expect_err("5 have grade A");
    assert_eq!((refusal.name(), refusal.funds().expect("numbers").total), ("insufficient-funds", 5));
}

pub(super) fn predicate<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = with_tokens(make, &[1, 2, 3, 4, 5]);
    let odd: Predicate = Arc::new(|token| token.quantity % 2 == 1);
    let select = |spender: &str, amount| {
        selector.select_where(&request(spender, amount), Some(&odd), START, &mut Random::new(1))
    };
    let held = select("s1", 4).expect("1 + 3");
    assert_eq!(held.sum, 4);
    let refusal = select("s2", 6).expect_err("5 odd ones are free");
    let funds = refusal.funds().expect("numbers");
    assert_eq!((refusal.name(), funds.total, funds.free, funds.locked), ("funds-locked", 9, 5, 4));
    assert_eq!(refused(select("s2", 10)), "insufficient-funds");
    assert_eq!(select("s2", 5).expect("5").sum, 5);
}

pub(super) fn notaries_never_mixed<S: TokenSelector>(make: &dyn Fn() -> S) {
    let selector = make();
    let token = |id: &str, notary: &str, quantity| Token::new(id, "alice", "EUR", quantity).notary(notary);
    let tokens = vec![token("a", "n1", 5), token("b", "n1", 6), token("c", "n2", 7), token("d", "n2", 1)];
    selector.issue(tokens, START).expect("fresh");
    for (amount, sum) in [(11, 11), (8, 8), (9, 11)] {
        let found = try_select(&selector, &request("s1", amount), START).expect("one notary covers");
        assert_eq!(found.sum, sum);
        assert!(found.tokens.iter().all(|token| token.kind.notary == found.tokens[0].kind.notary));
        selector.release("s1", None, START).expect("released");
    }
    let refusal = try_select(&selector, &request("s1", 12), START).expect_err("19 in all, but 11 at most");
    let funds = refusal.funds().expect("numbers");
    assert_eq!(
        (refusal.name(), funds.total, funds.notary.as_deref()),
        ("insufficient-funds", 11, Some("n1"))
    );
}
