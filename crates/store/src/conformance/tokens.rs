//! Tokens in every store: what lives, what is locked, what is gone for ever.

use std::sync::Arc;

use holdfast_domain::command::{Command, Expire, Key};
use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{
    Fingerprint, LockTokens, Output, SpendRequest, SpendRow, SpendTokens, Token, TokenCommand, TokenId,
    TokenOutcome, TokenRefusal,
};

use super::frame;
use crate::Store;

pub(super) fn run_all<S: Store>(empty: impl Fn() -> S) {
    an_empty_store_has_no_tokens(&empty());
    a_token_lives_from_its_issue(&mut empty());
    a_lock_holds_its_tokens_until_it_ends(&mut empty());
    leases_come_in_the_order_they_end(&mut empty());
    a_hold_and_a_lease_both_wake_the_writer(&mut empty());
    a_spend_is_remembered_and_its_inputs_never_come_back(&mut empty());
    what_is_consumed_before_it_came_never_comes(&mut empty());
    a_spend_of_thousands_comes_back_whole(&mut empty());
    everything_is_shown(&mut empty());
}

fn tell<S: Store>(store: &mut S, time: Millis, command: TokenCommand) -> TokenOutcome {
    let effects = frame(store, time, &[Command::Token(Box::new(command))]);
    let outcome = effects.outcome(0).token.as_deref();
    outcome.expect("a token command has a token answer").clone()
}

fn id(number: usize) -> TokenId {
    TokenId::from(format!("token-{number:05}"))
}

fn issue<S: Store>(store: &mut S, numbers: std::ops::Range<usize>) {
    let token = |number| Token::new(id(number), format!("wallet-{}", number % 3), "USD", 100);
    let outcome = tell(store, 1, TokenCommand::Issue { tokens: numbers.map(token).collect() });
    assert_eq!(outcome, TokenOutcome::Issued);
}

fn lock(spender: &str, numbers: impl Iterator<Item = usize>, lease_ms: i64) -> TokenCommand {
    let body = Fingerprint(7);
    let ids = numbers.map(id).collect();
    TokenCommand::Lock(LockTokens { spender: spender.into(), ids, amount: 100, lease_ms, body })
}

fn spend(spender: &str, quantity: u64, transaction: u128) -> TokenCommand {
    let request = SpendRequest::new(spender, vec![Output::new("receiver", quantity)]);
    TokenCommand::Spend(SpendTokens { request, body: Fingerprint(9), transaction })
}

fn is_consumed<S: Store>(store: &mut S, id: &TokenId) -> bool {
    store.load(&mut std::iter::once(Key::Token(id))).expect("nothing is wrong with the disk");
    store.is_consumed(id)
}

fn remembered<S: Store>(store: &mut S, spender: &str) -> Option<Arc<SpendRow>> {
    store.load(&mut std::iter::once(Key::Spender(spender))).expect("nothing is wrong with the disk");
    store.spend(spender).cloned()
}

fn holder<S: Store>(store: &S, number: usize) -> Option<String> {
    store.token(&id(number)).expect("it lives").holder.map(|holder| holder.to_string())
}

fn an_empty_store_has_no_tokens(store: &impl Store) {
    assert!(store.token(&id(1)).is_none() && !store.is_consumed(&id(1)));
    assert!(store.lock("nobody").is_none() && store.spend("nobody").is_none());
    assert!(store.due_leases(Millis::MAX, 10).is_empty());
    assert_eq!((store.token_count(), store.open_leases(), store.next_expiration()), (0, 0, None));
}

fn a_token_lives_from_its_issue(store: &mut impl Store) {
    issue(store, 0..5);
    let row = store.token(&id(4)).expect("it lives");
    assert_eq!((row.token.quantity, &*row.token.kind.wallet, &row.holder), (100, "wallet-1", &None));
    assert_eq!((store.token_count(), store.token(&id(5)).is_none()), (5, true));
    assert!(!is_consumed(store, &id(4)) && !is_consumed(store, &id(5)));
}

fn a_lock_holds_its_tokens_until_it_ends(store: &mut impl Store) {
    issue(store, 0..9);
    let TokenOutcome::Locked(row) = tell(store, 10, lock("ann", [0, 3].into_iter(), 50)) else {
        panic!("nobody holds them")
    };
    assert_eq!((row.expires_at, store.lock("ann")), (60, Some(&row)));
    assert_eq!((holder(store, 0), holder(store, 3)), (Some("ann".into()), Some("ann".into())));
    assert_eq!(holder(store, 6), None);
    let renew = TokenCommand::Renew { spender: "ann".into(), fence: Some(row.fence), lease_ms: 100 };
    assert_eq!(tell(store, 20, renew), TokenOutcome::Renewed { fence: row.fence, expires_at: 120 });
    assert_eq!(store.lock("ann").map(|row| row.expires_at), Some(120));
    let unlock = TokenCommand::Unlock { spender: "ann".into(), fence: None };
    assert_eq!(tell(store, 30, unlock), TokenOutcome::Released(2));
    assert!(store.lock("ann").is_none() && holder(store, 0).is_none() && holder(store, 3).is_none());
    assert_eq!((store.open_leases(), store.next_expiration()), (0, None));
    // Whoever comes after the end of a lease takes over.
    tell(store, 40, lock("ann", [0, 3].into_iter(), 10));
    tell(store, 50, lock("bob", [3].into_iter(), 10));
    assert!(store.lock("ann").is_none());
    assert_eq!((holder(store, 0), holder(store, 3)), (None, Some("bob".into())));
}

fn leases_come_in_the_order_they_end(store: &mut impl Store) {
    issue(store, 0..10);
    for ((number, later), lease_ms) in (0..).zip(0_i64..).zip([500, 20, 500, 300, 20]) {
        tell(store, 10 + later, lock(&format!("s{number}"), std::iter::once(number), lease_ms - later));
    }
    let due = |now, max| {
        let spenders = store.due_leases(now, max);
        spenders.iter().map(|row| row.spender.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(due(1_000, 10), ["s1", "s4", "s3", "s0", "s2"]);
    assert_eq!(due(1_000, 3), ["s1", "s4", "s3"]);
    assert_eq!(due(29, 10), Vec::<String>::new());
    assert_eq!(due(30, 10), ["s1", "s4"], "a lease is over at its end");
    assert_eq!((store.open_leases(), store.next_expiration()), (5, Some(29)));
    frame(store, 310, &[Command::Expire(Expire { holds_max: 10 })]);
    assert_eq!((store.open_leases(), store.next_expiration()), (2, Some(509)));
    assert_eq!(holder(store, 3), None);
}

fn a_hold_and_a_lease_both_wake_the_writer(store: &mut impl Store) {
    super::open_for_business(store);
    issue(store, 0..1);
    frame(store, 10, &[super::prepare(1, 5, 700)]);
    tell(store, 20, lock("ann", 0..1, 100));
    store.sort_due(100_000);
    assert_eq!(store.next_expiration(), Some(119));
    tell(store, 30, TokenCommand::Renew { spender: "ann".into(), fence: None, lease_ms: 5_000 });
    assert_eq!(store.next_expiration(), Some(700));
}

fn a_spend_is_remembered_and_its_inputs_never_come_back(store: &mut impl Store) {
    issue(store, 0..6);
    tell(store, 10, lock("ann", [0, 3].into_iter(), 50));
    let TokenOutcome::Spent(row) = tell(store, 20, spend("ann", 150, 0xabc)) else { panic!("they are hers") };
    assert_eq!(row.transaction.consumed, [id(0), id(3)]);
    assert_eq!(row.transaction.produced.iter().map(|token| token.quantity).sum::<u64>(), 200);
    for token in &row.transaction.produced {
        assert_eq!(store.token(&token.id).map(|row| row.token), Some(token));
    }
    assert!(store.token(&id(0)).is_none() && store.lock("ann").is_none());
    assert!(is_consumed(store, &id(0)) && is_consumed(store, &id(3)) && !is_consumed(store, &id(1)));
    assert_eq!(remembered(store, "ann").as_ref(), Some(&row));
    assert_eq!(remembered(store, "bob"), None);
    // Years later.
    frame(store, 1_000_000, &[]);
    assert_eq!(tell(store, 1_000_001, spend("ann", 150, 0xdef)), TokenOutcome::Spent(row));
    let again = TokenCommand::Issue { tokens: vec![Token::new(id(3), "wallet", "USD", 1)] };
    assert_eq!(tell(store, 1_000_002, again), TokenOutcome::Refused(TokenRefusal::Consumed(id(3))));
    assert_eq!(store.token_count(), 6);
}

fn what_is_consumed_before_it_came_never_comes(store: &mut impl Store) {
    let update = |produced| TokenCommand::Update { consumed: vec![id(1), id(1)], produced };
    tell(store, 10, update(Vec::new()));
    assert!(is_consumed(store, &id(1)));
    let late = tell(store, 20, update(vec![Token::new(id(1), "wallet", "USD", 1)]));
    assert!(matches!(late, TokenOutcome::Updated { produced: 0, .. }), "{late:?}");
    assert!(is_consumed(store, &id(1)) && store.token_count() == 0);
}

fn a_spend_of_thousands_comes_back_whole(store: &mut impl Store) {
    issue(store, 0..6_000);
    tell(store, 10, lock("ann", (0..6_000).step_by(3), 50));
    let TokenOutcome::Spent(row) = tell(store, 20, spend("ann", 1, 0xabc)) else { panic!("they are hers") };
    assert_eq!(row.transaction.consumed.len(), 2_000);
    frame(store, 30, &[]);
    assert_eq!(remembered(store, "ann"), Some(row));
    assert!((0..6_000).all(|number| is_consumed(store, &id(number)) == (number % 3 == 0)));
}

fn everything_is_shown(store: &mut impl Store) {
    issue(store, 0..300);
    tell(store, 10, lock("ann", [0, 3].into_iter(), 50));
    tell(store, 11, lock("bob", [1, 4].into_iter(), 50));
    tell(store, 20, TokenCommand::Update { consumed: (100..200).map(id).collect(), produced: Vec::new() });
    let (mut tokens, mut locks) = (Vec::new(), Vec::new());
    store.tokens(&mut |row| tokens.push(row.clone()));
    store.locks(&mut |row| locks.push(row.spender.to_string()));
    tokens.sort_by(|one, other| one.token.id.cmp(&other.token.id));
    locks.sort();
    let left: Vec<TokenId> = (0..100).chain(200..300).map(id).collect();
    assert_eq!(tokens.iter().map(|row| row.token.id.clone()).collect::<Vec<_>>(), left);
    assert_eq!(tokens.iter().filter(|row| row.holder.is_some()).count(), 4);
    assert_eq!(locks, ["ann", "bob"]);
    assert_eq!(store.token_count(), 200);
}
