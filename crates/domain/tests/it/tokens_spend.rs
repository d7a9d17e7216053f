//! A spend: who may, what it takes and makes, and that it happens once.

use std::sync::Arc;

use holdfast_domain::tokens::TokenOutcome::{Issued, Locked, Spent};
use holdfast_domain::tokens::TokenRefusal::{Consumed, Exists, Invalid, LeaseLost, SpenderInUse};

use crate::tokens_world::*;
use crate::world::*;

/// A token that a spend of `alice`'s made.
fn change(n: usize, quantity: u64) -> Token {
    token(&made(n), quantity)
}

fn paid(n: usize, wallet: &str, quantity: u64) -> Token {
    Token::new(made(n), wallet, "EUR", quantity)
}

/// With another transaction's number, so that its outputs have other ids.
fn numbered(spend: SpendTokens, transaction: u128) -> TokenCommand {
    TokenCommand::Spend(SpendTokens { transaction, ..spend })
}

/// The quantities that a spend of these inputs to these outputs makes, with wallets.
fn made_of(inputs: &[Token], request: SpendRequest) -> Vec<(String, Option<String>, u64)> {
    let mut vault = World::empty();
    vault.tokens(vec![issue(inputs)]);
    let ids: Vec<&str> = inputs.iter().map(|token| token.id.as_str()).collect();
    vault.locked("p", &ids);
    let body = request.fingerprint();
    let row = vault.spent(TokenCommand::Spend(SpendTokens { request, body, transaction: 0xabc }));
    let kept = |token: &Token| {
        let issuer = token.kind.issuer.as_ref().map(ToString::to_string);
        (token.kind.wallet.to_string(), issuer, token.quantity)
    };
    row.transaction.produced.iter().map(kept).collect()
}

#[test]
fn inputs_go_outputs_and_change_come_and_the_spend_is_remembered() {
    let mut vault = World::vault(3);
    let row = vault.locked("p", &["t3", "t1"]);
    let command = spend_of("p", &[("bob", 25), ("carol", 5)]);
    let tokens = [paid(0, "bob", 25), paid(1, "carol", 5), change(2, 10)];
    let spent = spend_row(&command, &["t3", "t1"], &tokens);
    let mut effects = vec![unlocked(&row), consumed("t3"), consumed("t1")];
    effects.extend(tokens.iter().map(produced));
    effects.push(TokenEffect::Spent(Arc::clone(&spent)));
    vault.gives(TokenCommand::Spend(command), Spent(Arc::clone(&spent)), effects);
    assert_eq!(vault.memory.spends["p"], spent);
    assert!(vault.memory.locks.is_empty());
    vault.declines(lock("q", &["t1"]), Consumed("t1".into()));
    // What came can be selected at once.
    vault.locked("q", &[&made(2), "t2"]);
}

#[test]
fn the_fence_must_be_the_locks_if_it_is_told() {
    let other = LeaseLost("the fence is of another selection");
    let mut vault = World::vault(3);
    let old = vault.locked("p", &["t1"]);
    vault.tokens(vec![unlock("p", None)]);
    let row = vault.locked("p", &["t1"]);
    let foreign = vault.locked("q", &["t2"]);
    for fence in [0, old.fence, foreign.fence, row.fence + 1, u64::MAX] {
        vault.declines(fenced(spend_of("p", &[("bob", 10)]), fence), other.clone());
    }
    let mut second = vault.clone();
    second.spent(spend("p", &[("bob", 10)]));
    vault.spent(fenced(spend_of("p", &[("bob", 10)]), row.fence));
}

#[test]
fn from_the_instant_that_the_lease_ends_there_is_no_spend() {
    for (after, in_time) in [(LEASE - 1, true), (LEASE, false), (LEASE + 1, false)] {
        let mut vault = World::vault(1);
        let row = vault.locked("p", &["t1"]);
        vault.now += after;
        if in_time {
            vault.spent(fenced(spend_of("p", &[("bob", 10)]), row.fence));
        } else {
            vault.declines(spend("p", &[("bob", 10)]), LeaseLost("the lease is over"));
            vault.declines(fenced(spend_of("p", &[("bob", 10)]), row.fence), LeaseLost("the lease is over"));
        }
    }
}

#[test]
fn who_holds_nothing_spends_nothing() {
    let mut vault = World::vault(2);
    vault.declines(spend("p", &[("bob", 1)]), LeaseLost("it holds nothing"));
    let row = vault.locked("p", &["t1"]);
    vault.tokens(vec![unlock("p", None)]);
    vault.declines(fenced(spend_of("p", &[("bob", 1)]), row.fence), LeaseLost("it holds nothing"));
}

#[test]
fn a_repeat_gets_the_stored_transaction_for_ever() {
    let mut vault = World::vault(2);
    let row = vault.locked("p", &["t1"]);
    let spent = vault.spent(spend("p", &[("bob", 4)]));
    vault.now += 1_000 * LEASE;
    // Drawn anew, with the right fence or a wrong one: the content is the same.
    vault.gives(numbered(spend_of("p", &[("bob", 4)]), 0xdef), Spent(Arc::clone(&spent)), Vec::new());
    for fence in [row.fence, row.fence + 9] {
        vault.gives(fenced(spend_of("p", &[("bob", 4)]), fence), Spent(Arc::clone(&spent)), Vec::new());
    }
    // Also when its outputs were spent on.
    vault.locked("q", &[&made(0)]);
    vault.spent(numbered(spend_of("q", &[("carol", 4)]), 0xdef));
    vault.gives(spend("p", &[("bob", 4)]), Spent(spent), Vec::new());
}

#[test]
fn another_spend_under_the_same_spender_is_refused() {
    let mut vault = World::vault(2);
    vault.locked("p", &["t1"]);
    vault.spent(spend("p", &[("bob", 4)]));
    let refusal = SpenderInUse("it has spent to other outputs");
    for other in [spend("p", &[("bob", 5)]), spend("p", &[("carol", 4)]), redeem("p", 4)] {
        vault.declines(other, refusal.clone());
    }
    let forged = SpendTokens { body: Fingerprint(0), ..spend_of("p", &[("bob", 4)]) };
    vault.declines(TokenCommand::Spend(forged), refusal);
}

#[test]
fn outputs_may_not_be_more_than_inputs_and_the_lock_stays() {
    let mut vault = World::vault(2);
    vault.locked("p", &["t1", "t2"]);
    let refusal = |vault: &mut World, command| match &vault.tokens(vec![command]).0[0] {
        TokenOutcome::Refused(Invalid(why)) => why.clone(),
        other => panic!("{other:?}"),
    };
    for (command, asked) in [
        (spend("p", &[("bob", 31)]), 31),
        (spend("p", &[("bob", 30), ("carol", 1)]), 31),
        (redeem("p", 31), 31),
        (spend("p", &[("bob", u64::MAX), ("carol", u64::MAX)]), 2 * u128::from(u64::MAX)),
    ] {
        let before = vault.memory.clone();
        let why = refusal(&mut vault, command);
        assert!(why.contains(&format!("the outputs come to {asked}, the inputs to 30")), "{why}");
        assert_eq!(vault.memory, before);
    }
    vault.spent(spend("p", &[("bob", 30)]));
}

#[test]
fn change_is_one_token_per_issuer_to_its_first_owner() {
    let inputs = [
        token("a", 10).issuer("x"),
        token("b", 10).issuer("y"),
        Token::new("c", "dave", "EUR", 10).issuer("x"),
        token("d", 10),
    ];
    let made =
        made_of(&inputs, SpendRequest::new("p", vec![Output::new("bob", 5), Output::new("carol", 17)]));
    let of = |wallet: &str, issuer: Option<&str>, quantity| {
        (wallet.to_owned(), issuer.map(str::to_owned), quantity)
    };
    assert_eq!(
        made,
        [
            of("bob", Some("x"), 5),
            of("carol", Some("x"), 15),
            of("carol", Some("y"), 2),
            of("alice", Some("y"), 8),
            of("alice", None, 10),
        ]
    );
}

#[test]
fn what_is_redeemed_is_gone_and_the_rest_comes_back() {
    let mut vault = World::vault(3);
    vault.locked("p", &["t1", "t2"]);
    let row = vault.spent(redeem("p", 25));
    assert_eq!(row.transaction.produced, [change(0, 5)]);
    let inputs = [token("a", 10).issuer("x"), token("b", 10).issuer("y")];
    let request = SpendRequest { redeem: 4, ..SpendRequest::new("p", vec![Output::new("bob", 9)]) };
    let quantities: Vec<u64> = made_of(&inputs, request).iter().map(|(.., quantity)| *quantity).collect();
    assert_eq!(quantities, [6, 3, 7]);
    assert_eq!(made_of(&inputs, SpendRequest::redeem("p", 20)), []);
}

#[test]
fn outputs_have_the_names_and_attributes_they_ask_for_and_change_those_of_the_input() {
    let input =
        token("a", 10).of_type("bond").external_id("e").public_key("k").notary("n").attribute("old", "1");
    let mut vault = World::empty();
    vault.tokens(vec![issue(std::slice::from_ref(&input))]);
    vault.locked("p", &["a"]);
    let mut output = Output::new("bob", 4);
    output.external_id = Some("bobs".into());
    output.attributes.insert("new".into(), "2".into());
    let request = SpendRequest::new("p", vec![output]);
    let body = request.fingerprint();
    let row = vault.spent(TokenCommand::Spend(SpendTokens { request, body, transaction: 0xabc }));
    let bobs = paid(0, "bob", 4).of_type("bond").external_id("bobs").notary("n").attribute("new", "2");
    let back = Token { id: made(1).into(), quantity: 6, ..input };
    assert_eq!(row.transaction.produced, [bobs, back]);
}

#[test]
fn quantities_up_to_the_greatest_and_sums_beyond() {
    let inputs = [token("a", u64::MAX), token("b", u64::MAX), token("c", u64::MAX)];
    let quantities =
        |request| made_of(&inputs, request).iter().map(|(.., quantity)| *quantity).collect::<Vec<_>>();
    assert_eq!(
        quantities(SpendRequest::new("p", vec![Output::new("bob", 1)])),
        [1, u64::MAX, u64::MAX, u64::MAX - 1]
    );
    assert_eq!(quantities(SpendRequest::new("p", vec![Output::new("bob", u64::MAX); 3])), [u64::MAX; 3]);
    assert_eq!(quantities(SpendRequest::redeem("p", u64::MAX)), [u64::MAX; 2]);
    let both =
        SpendRequest { redeem: u64::MAX, ..SpendRequest::new("p", vec![Output::new("bob", u64::MAX); 2]) };
    assert_eq!(quantities(both), [u64::MAX; 2]);
    let mut vault = World::empty();
    vault.tokens(vec![issue(&inputs)]);
    vault.locked("p", &["a", "b", "c"]);
    let outputs = [("bob", u64::MAX), ("bob", u64::MAX), ("bob", u64::MAX), ("bob", 1)];
    let answer = &vault.tokens(vec![spend("p", &outputs)]).0[0];
    assert!(matches!(answer, TokenOutcome::Refused(Invalid(_))), "{answer:?}");
}

#[test]
fn a_number_drawn_twice_makes_no_token_twice() {
    let mut vault = World::vault(2);
    vault.locked("p", &["t1"]);
    vault.spent(spend("p", &[("bob", 10)]));
    vault.locked("q", &["t2"]);
    vault.declines(spend("q", &[("carol", 20)]), Exists(made(0).as_str().into()));
    vault.spent(numbered(spend_of("q", &[("carol", 20)]), 0xdef));
}

#[test]
fn a_spend_of_nothing_changes_money() {
    // The edge refuses it; here it is a spend that gives all back.
    let mut vault = World::vault(1);
    vault.locked("p", &["t1"]);
    let row = vault.spent(spend("p", &[]));
    assert_eq!(row.transaction.produced, [change(0, 10)]);
}

#[test]
fn a_spender_name_of_another_is_not_used_up() {
    let mut vault = World::vault(2);
    vault.locked("p", &["t1"]);
    vault.spent(spend("p", &[("bob", 10)]));
    assert!(matches!(vault.tokens(vec![lock("q", &["t2"])]).0[0], Locked(_)));
    vault.gives(issue(&[token("t3", 1)]), Issued, vec![produced(&token("t3", 1))]);
}
