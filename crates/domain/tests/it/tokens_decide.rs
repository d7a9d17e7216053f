//! Issue, lock, unlock and renew: each answer, and exactly what it does.

use std::sync::Arc;

use holdfast_domain::command::Key;
use holdfast_domain::tokens::TokenOutcome::{Issued, Locked, Released, Renewed};
use holdfast_domain::tokens::TokenRefusal::{
    Consumed, Exists, Invalid, LeaseLost, SpenderInUse, Taken, Unknown,
};

use crate::tokens_world::*;
use crate::world::*;

const OVER: &str = "the lease is over";
const NOTHING: &str = "it holds nothing";
const OTHER_FENCE: &str = "the fence is of another selection";
const OF_TRANSFER: &str = "a transfer or checkout holds it and will end it";

// Issue.

#[test]
fn new_tokens_live_and_are_free() {
    let mut vault = World::empty();
    let tokens = [token("a", 1), token("b", u64::MAX).issuer("bank").attribute("k", "v")];
    vault.gives(issue(&tokens), Issued, vec![produced(&tokens[0]), produced(&tokens[1])]);
    assert_eq!(vault.holder("a"), None);
    vault.gives(issue(&[]), Issued, Vec::new());
}

#[test]
fn a_token_that_exists_is_not_issued_again_and_none_beside_it() {
    let mut vault = World::vault(1);
    for again in [token("t1", 10), token("t1", 11), token("t1", 10).issuer("another")] {
        vault.declines(issue(&[token("new", 1), again]), Exists("t1".into()));
    }
    vault.locked("p", &["t1"]);
    vault.declines(issue(&[token("t1", 10)]), Exists("t1".into()));
}

#[test]
fn a_token_twice_in_one_request_is_none() {
    World::empty().declines(issue(&[token("a", 1), token("b", 1), token("a", 1)]), Exists("a".into()));
}

#[test]
fn what_was_consumed_is_never_issued_again() {
    let mut vault = World::vault(2);
    vault.tokens(vec![update(&["t1", "early"], &[])]);
    for id in ["t1", "early"] {
        vault.declines(issue(&[token("new", 1), token(id, 1)]), Consumed(id.into()));
    }
    vault.locked("p", &["t2"]);
    vault.spent(redeem("p", 20));
    vault.declines(issue(&[token("t2", 20)]), Consumed("t2".into()));
}

#[test]
fn ids_of_transfers_are_reserved() {
    let why = |id| {
        let of = "token ids that begin with hold: are made by transfers and checkouts alone";
        Invalid(format!("{of}; {id} is one"))
    };
    let mut vault = World::empty();
    vault.declines(issue(&[token("a", 1), token("hold:", 1)]), why("hold:"));
    vault.declines(issue(&[token("hold:x.0", 1)]), why("hold:x.0"));
    vault.declines(update(&[], &[token("hold:x.0", 1)]), why("hold:x.0"));
    vault.gives(issue(&[token("hold", 1)]), Issued, vec![produced(&token("hold", 1))]);
    vault.gives(issue(&[token("Hold:x", 1)]), Issued, vec![produced(&token("Hold:x", 1))]);
}

// Lock.

#[test]
fn free_tokens_are_locked_under_a_fence_that_is_the_records_place() {
    let mut vault = World::vault(3);
    let row = lock_row("p", vault.fence(), NOW, &["t3", "t1"]);
    vault.gives(lock("p", &["t3", "t1"]), Locked(Arc::clone(&row)), vec![locked(&row)]);
    assert_eq!((vault.holder("t1"), vault.holder("t2"), vault.holder("t3")), (Some("p"), None, Some("p")));
    let later = vault.locked("q", &["t2"]);
    assert_eq!(later.fence, row.fence + 1);
}

#[test]
fn a_token_under_anothers_live_lock_is_taken_and_none_beside_it() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t2"]);
    vault.now += LEASE - 1;
    vault.declines(lock("q", &["t1", "t2", "t3"]), Taken("t2".into()));
}

#[test]
fn an_expired_holder_gives_way_and_its_whole_lock_ends() {
    let mut vault = World::vault(3);
    let old = vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    let row = lock_row("q", vault.fence(), vault.now, &["t2", "t3"]);
    vault.gives(lock("q", &["t2", "t3"]), Locked(Arc::clone(&row)), vec![unlocked(&old), locked(&row)]);
    assert_eq!((vault.holder("t1"), vault.holder("t2")), (None, Some("q")));
    vault.declines(renew("p", None, LEASE), LeaseLost(NOTHING));
}

#[test]
fn several_expired_holders_end_once_each_in_the_order_of_the_tokens() {
    let mut vault = World::vault(4);
    let (first, second) = (vault.locked("p", &["t1", "t3"]), vault.locked("q", &["t2", "t4"]));
    vault.now += LEASE;
    let row = lock_row("r", vault.fence(), vault.now, &["t2", "t1", "t3", "t4"]);
    let effects = vec![unlocked(&second), unlocked(&first), locked(&row)];
    vault.gives(lock("r", &["t2", "t1", "t3", "t4"]), Locked(row), effects);
}

#[test]
fn an_expired_holder_stays_as_it_is_if_the_lock_is_refused() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1"]);
    vault.now += LEASE;
    vault.locked("q", &["t2"]);
    vault.declines(lock("r", &["t1", "t2"]), Taken("t2".into()));
    vault.declines(lock("p", &["t1", "t2"]), Taken("t2".into()));
    assert_eq!(vault.holder("t1"), Some("p"));
}

#[test]
fn the_spenders_own_expired_lock_is_replaced() {
    let mut vault = World::vault(3);
    let old = vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    let row = lock_row("p", vault.fence(), vault.now, &["t2", "t3"]);
    vault.gives(lock("p", &["t2", "t3"]), Locked(Arc::clone(&row)), vec![unlocked(&old), locked(&row)]);
    assert_eq!((vault.holder("t1"), vault.holder("t2"), vault.holder("t3")), (None, Some("p"), Some("p")));
    assert!(row.fence > old.fence);
    vault.declines(renew("p", Some(old.fence), LEASE), LeaseLost(OTHER_FENCE));
}

#[test]
fn the_same_request_gets_the_same_lock_whatever_was_chosen_for_it() {
    let mut vault = World::vault(3);
    let row = vault.locked("p", &["t1"]);
    vault.now += LEASE - 1;
    for again in [lock("p", &["t1"]), lock("p", &["t2"]), lock("p", &["unknown"])] {
        vault.gives(again, Locked(Arc::clone(&row)), Vec::new());
    }
    let longer = TokenCommand::Lock(LockTokens { lease_ms: 9, amount: 9, ..lock_of("p", &["t1"]) });
    vault.gives(longer, Locked(row), Vec::new());
}

#[test]
fn another_request_of_a_spender_that_holds_is_refused() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1"]);
    let other = LockTokens { body: Fingerprint(8), ..lock_of("p", &["t2"]) };
    let refusal = SpenderInUse("it holds a selection of another request");
    vault.declines(TokenCommand::Lock(other.clone()), refusal.clone());
    vault.held_by_transfer("p");
    vault.declines(lock("p", &["t1"]), refusal);
    // Names differ by case.
    vault.locked("P", &["t2"]);
    let mut vault = World::vault(3);
    vault.locked("p", &["t1"]);
    vault.now += LEASE;
    assert!(matches!(vault.tokens(vec![TokenCommand::Lock(other)]).0[0], Locked(_)));
}

#[test]
fn what_is_not_there_is_unknown_and_what_is_gone_consumed() {
    let mut vault = World::vault(3);
    vault.declines(lock("p", &["t1", "t9"]), Unknown("t9".into()));
    vault.tokens(vec![update(&["t2", "early"], &[])]);
    vault.declines(lock("p", &["t1", "t2"]), Consumed("t2".into()));
    vault.declines(lock("p", &["t1", "early"]), Consumed("early".into()));
    vault.declines(lock("p", &["T1"]), Unknown("T1".into()));
}

#[test]
fn a_lock_that_contradicts_itself_is_invalid() {
    let mut vault = World::vault(3);
    vault.declines(lock("p", &[]), Invalid("a lock without tokens".into()));
    vault.declines(lock("p", &["t1", "t2", "t1"]), Invalid("token t1 is named twice".into()));
}

#[test]
fn tokens_of_two_notaries_do_not_meet_in_one_lock() {
    let mut vault = World::vault(1);
    let others = [token("n1", 1).notary("n"), token("n2", 1).notary("n"), token("m1", 1).notary("m")];
    vault.tokens(vec![issue(&others)]);
    let refusal = Invalid("tokens of two notaries in one selection".into());
    for of in [["n1", "m1"], ["n1", "t1"], ["t1", "n1"]] {
        vault.declines(lock("p", &of), refusal.clone());
    }
    vault.locked("p", &["n1", "n2"]);
}

/// A spend knows only issuers: what is locked together would come out as the currency and type of the first.
#[test]
fn tokens_of_two_currencies_or_types_do_not_meet_in_one_lock() {
    let mut vault = World::vault(1);
    let dollars = Token::new("usd", "alice", "USD", 5);
    vault.tokens(vec![issue(&[dollars, token("bond", 1).of_type("bond"), token("other", 1).issuer("x")])]);
    let refusal = Invalid("tokens of two currencies or types in one selection".into());
    for of in [["t1", "usd"], ["usd", "t1"], ["t1", "bond"], ["bond", "usd"]] {
        vault.declines(lock("p", &of), refusal.clone());
    }
    vault.locked("p", &["t1", "other"]);
}

#[test]
fn a_spender_that_has_spent_locks_no_more() {
    let mut vault = World::vault(2);
    vault.locked("p", &["t1"]);
    vault.spent(redeem("p", 10));
    vault.declines(lock("p", &["t2"]), SpenderInUse("it has spent already"));
}

#[test]
fn a_lease_ends_at_its_last_instant_at_the_latest_one_before_no_end() {
    let mut vault = World::vault(1);
    vault.now = Millis::MAX - 10;
    let row = vault.locked("p", &["t1"]);
    assert_eq!(row.expires_at, NO_END - 1);
    let effect =
        TokenEffect::Renewed(std::sync::Arc::new(LockRow { expires_at: NO_END - 1, ..LockRow::clone(&row) }));
    let outcome = Renewed { fence: row.fence, expires_at: NO_END - 1 };
    vault.gives(renew("p", None, LEASE_MS_MAX), outcome, vec![effect]);
}

// Unlock.

#[test]
fn what_is_given_back_is_free() {
    let mut vault = World::vault(3);
    for fence in [false, true] {
        let row = vault.locked("p", &["t1", "t2"]);
        let command = unlock("p", fence.then_some(row.fence));
        vault.gives(command, Released(2), vec![unlocked(&row)]);
        assert_eq!(vault.holder("t1"), None);
    }
    vault.locked("q", &["t1"]);
}

#[test]
fn nothing_is_given_back_by_who_holds_nothing_or_something_else() {
    let mut vault = World::vault(2);
    vault.gives(unlock("p", None), Released(0), Vec::new());
    let row = vault.locked("p", &["t1"]);
    let other = vault.locked("q", &["t2"]);
    for fence in [0, row.fence - 1, other.fence, u64::MAX] {
        vault.declines(unlock("p", Some(fence)), LeaseLost(OTHER_FENCE));
    }
    assert_eq!(vault.holder("t1"), Some("p"));
}

#[test]
fn a_lease_that_is_over_gives_nothing_back_but_ends() {
    let mut vault = World::vault(2);
    let row = vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    vault.gives(unlock("p", None), Released(0), vec![unlocked(&row)]);
    vault.gives(unlock("p", None), Released(0), Vec::new());
    // Whichever fence is told: it locks nothing any more.
    let row = vault.locked("p", &["t1", "t2"]);
    vault.now += LEASE;
    vault.gives(unlock("p", Some(row.fence + 1)), Released(0), vec![unlocked(&row)]);
}

#[test]
fn what_a_transfer_holds_only_the_transfer_ends() {
    let mut vault = World::vault(1);
    let row = vault.locked("p", &["t1"]);
    vault.held_by_transfer("p");
    vault.now = NO_END - 1;
    vault.declines(unlock("p", None), SpenderInUse(OF_TRANSFER));
    vault.declines(unlock("p", Some(row.fence)), SpenderInUse(OF_TRANSFER));
    vault.declines(unlock("p", Some(row.fence + 1)), LeaseLost(OTHER_FENCE));
    vault.declines(renew("p", None, LEASE), SpenderInUse(OF_TRANSFER));
    vault.declines(spend("p", &[("bob", 1)]), SpenderInUse(OF_TRANSFER));
    vault.declines(lock("q", &["t1"]), Taken("t1".into()));
}

// Renew.

#[test]
fn a_live_lease_moves_its_end_and_keeps_its_fence() {
    let mut vault = World::vault(1);
    let row = vault.locked("p", &["t1"]);
    let fence = row.fence;
    vault.now += LEASE - 1;
    for (told, lease) in [(None, 5), (Some(fence), LEASE_MS_MAX), (None, 1)] {
        let expires_at = vault.now + lease;
        let effect =
            TokenEffect::Renewed(std::sync::Arc::new(LockRow { expires_at, ..LockRow::clone(&row) }));
        vault.gives(renew("p", told, lease), Renewed { fence, expires_at }, vec![effect]);
    }
    vault.declines(lock("q", &["t1"]), Taken("t1".into()));
    // The last renewal was for one millisecond.
    vault.now += 1;
    vault.declines(renew("p", None, LEASE), LeaseLost(OVER));
}

#[test]
fn a_lease_that_is_over_is_not_renewed_even_if_nobody_took_the_token() {
    let mut vault = World::vault(1);
    let row = vault.locked("p", &["t1"]);
    vault.now += LEASE;
    vault.declines(renew("p", None, LEASE), LeaseLost(OVER));
    vault.declines(renew("p", Some(row.fence), LEASE), LeaseLost(OVER));
    vault.declines(renew("p", Some(row.fence + 1), LEASE), LeaseLost(OTHER_FENCE));
    vault.declines(renew("q", None, LEASE), LeaseLost(NOTHING));
    vault.now -= 1;
    vault.declines(renew("p", Some(row.fence - 1), LEASE), LeaseLost(OTHER_FENCE));
}

// What is loaded for a decision.

#[test]
fn a_command_names_every_past_that_its_decision_reads() {
    let keys = |command: TokenCommand| {
        let command: Command = as_command(command);
        let mut keys = Vec::new();
        command.each_key(&mut |key| {
            keys.push(match key {
                Key::Token(id) => format!("token {id}"),
                Key::Spender(spender) => format!("spender {spender}"),
                Key::Transfer(id) => format!("transfer {id}"),
                Key::Order(id) => format!("order {id}"),
                Key::OrderNumbered(number) => format!("order {number}"),
            });
        });
        keys
    };
    assert_eq!(keys(issue(&[token("a", 1), token("b", 1)])), ["token a", "token b"]);
    assert_eq!(keys(lock("p", &["a", "b"])), ["spender p", "token a", "token b"]);
    assert_eq!(keys(spend("p", &[("bob", 1)])), ["spender p"]);
    assert_eq!(keys(update(&["a"], &[token("b", 1)])), ["token a", "token b"]);
    assert!(keys(unlock("p", None)).is_empty() && keys(renew("p", None, 1)).is_empty());
}
