//! News of an outside ledger, in any order: it is right, and what is gone stays gone.

use holdfast_domain::tokens::TokenOutcome::{Refused, Updated};
use holdfast_domain::tokens::TokenRefusal::{Consumed, Exists, Invalid, LeaseLost};

use crate::tokens_world::*;
use crate::world::*;

/// Only what lived is counted as gone: an id that never came leaves nothing but its tombstone.
const fn came_and_went(produced: usize, consumed: usize) -> TokenOutcome {
    Updated { produced, consumed }
}

#[test]
fn what_came_lives_and_what_went_is_gone() {
    let mut vault = World::vault(2);
    let new = [token("a", 1), token("b", 2)];
    let effects = vec![consumed("t1"), produced(&new[0]), produced(&new[1])];
    vault.gives(update(&["t1"], &new), came_and_went(2, 1), effects);
    vault.locked("p", &["a", "b", "t2"]);
    vault.gives(update(&[], &[]), came_and_went(0, 0), Vec::new());
}

#[test]
fn consumed_before_it_was_produced_it_never_lives() {
    let mut vault = World::empty();
    vault.gives(update(&["a"], &[]), came_and_went(0, 0), vec![consumed("a")]);
    vault.gives(update(&[], &[token("a", 1)]), came_and_went(0, 0), Vec::new());
    vault.gives(
        update(&[], &[token("a", 1), token("b", 1)]),
        came_and_went(1, 0),
        vec![produced(&token("b", 1))],
    );
    vault.declines(lock("p", &["a"]), Consumed("a".into()));
    vault.declines(issue(&[token("a", 1)]), Consumed("a".into()));
}

#[test]
fn produced_again_after_it_was_consumed_it_stays_dead() {
    let mut vault = World::vault(1);
    vault.gives(update(&["t1"], &[]), came_and_went(0, 1), vec![consumed("t1")]);
    vault.gives(update(&["t1"], &[token("t1", 10)]), came_and_went(0, 0), Vec::new());
    vault.gives(update(&[], &[token("t1", 99)]), came_and_went(0, 0), Vec::new());
}

#[test]
fn consumed_and_produced_in_one_request_it_is_dead_whatever_stood_before() {
    let mut vault = World::vault(1);
    vault.gives(update(&["new"], &[token("new", 1)]), came_and_went(0, 0), vec![consumed("new")]);
    vault.gives(update(&["t1"], &[token("t1", 10)]), came_and_went(0, 1), vec![consumed("t1")]);
    assert!(vault.memory.tokens.is_empty());
    vault.gives(
        update(&["x", "x"], &[token("x", 1), token("x", 1)]),
        came_and_went(0, 0),
        vec![consumed("x")],
    );
}

#[test]
fn a_repeat_is_no_news() {
    let mut vault = World::vault(2);
    let news = || update(&["t1"], &[token("a", 1)]);
    vault.gives(news(), came_and_went(1, 1), vec![consumed("t1"), produced(&token("a", 1))]);
    vault.gives(news(), came_and_went(0, 0), Vec::new());
    // Locked or not.
    vault.locked("p", &["a"]);
    vault.gives(news(), came_and_went(0, 0), Vec::new());
    assert_eq!(vault.holder("a"), Some("p"));
}

#[test]
fn another_token_of_the_same_id_is_refused_with_all_beside_it() {
    let mut vault = World::vault(2);
    for other in [token("t2", 21), token("t2", 20).issuer("x"), token("t2", 20).attribute("k", "v")] {
        vault.declines(update(&["t1"], &[token("new", 1), other]), Exists("t2".into()));
    }
    vault.declines(update(&[], &[token("a", 1), token("a", 2)]), Exists("a".into()));
}

#[test]
fn consumed_while_it_is_locked_it_breaks_that_lock_only() {
    let mut vault = World::vault(4);
    let (row, other) = (vault.locked("p", &["t1", "t2"]), vault.locked("q", &["t3"]));
    vault.gives(update(&["t1"], &[]), came_and_went(0, 1), vec![unlocked(&row), consumed("t1")]);
    assert_eq!((vault.holder("t2"), vault.holder("t3")), (None, Some("q")));
    vault.declines(fenced(spend_of("p", &[("bob", 1)]), row.fence), LeaseLost("it holds nothing"));
    vault.spent(fenced(spend_of("q", &[("bob", 1)]), other.fence));
    // The name is not used up: it can select anew.
    vault.locked("p", &["t2"]);
}

#[test]
fn a_lock_that_loses_several_tokens_ends_once() {
    let mut vault = World::vault(4);
    let (row, other) = (vault.locked("p", &["t1", "t2"]), vault.locked("q", &["t3"]));
    let effects =
        vec![unlocked(&row), consumed("t2"), unlocked(&other), consumed("t3"), consumed("t1"), consumed("x")];
    vault.gives(update(&["t2", "t3", "t1", "x"], &[]), came_and_went(0, 3), effects);
    assert!(vault.memory.locks.is_empty());
}

#[test]
fn a_lock_whose_lease_is_over_ends_with_its_token() {
    let mut vault = World::vault(2);
    let row = vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    vault.gives(update(&["t1"], &[]), came_and_went(0, 1), vec![unlocked(&row), consumed("t1")]);
}

#[test]
fn a_refused_update_breaks_no_lock() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1"]);
    vault.declines(update(&["t1"], &[token("t2", 99)]), Exists("t2".into()));
    assert_eq!(vault.holder("t1"), Some("p"));
}

#[test]
fn what_a_transfer_holds_is_not_consumed_under_it() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1", "t2"]);
    vault.held_by_transfer("p");
    let why = "token t2 is held by transfer or checkout p; end that first".to_owned();
    vault.declines(update(&["t3", "t2"], &[]), Invalid(why));
}

/// A tombstone under an id that a fulfil is going to make would bring a dead token to life there.
#[test]
fn an_id_of_a_transfer_that_does_not_live_is_not_consumed_beforehand() {
    let mut vault = World::empty();
    let answer = &vault.tokens(vec![update(&["hold:p.0"], &[])]).0[0];
    assert!(matches!(answer, Refused(Invalid(_))), "{answer:?}");
    assert!(vault.memory.consumed.is_empty());
    // One that lives may well go, and what is said of it again is no news.
    let row = holdfast_domain::tokens::TokenRow { token: token("hold:p.0", 1), holder: None };
    vault.memory.tokens.insert("hold:p.0".into(), row);
    vault.gives(
        update(&["hold:p.0"], &[]),
        came_and_went(0, 1),
        vec![TokenEffect::Consumed("hold:p.0".into())],
    );
    vault.gives(update(&["hold:p.0"], &[]), came_and_went(0, 0), Vec::new());
}
