//! Requests as large as are allowed: they cost what they hold, not its square.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_postgres::tokens::{ClaimVerdict, SpendVerdict, WantedClaim, WantedSpend};
use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;
use holdfast_tokens::{Fingerprint, Token, Transaction};

/// How long it takes to lock so many tokens in one selection, and to spend them.
fn select_and_spend(store: &mut Store, inputs: usize) -> (Duration, Duration) {
    let name = format!("s-{inputs}");
    let tokens: Vec<Token> =
        (0..inputs).map(|n| Token::new(format!("t-{inputs}-{n}"), "alice", "EUR", 1)).collect();
    assert!(store.issue_tokens(&tokens, None).unwrap().is_ok());
    let (spender, body, amount) = (name.as_str().into(), Fingerprint(1), inputs as u64);
    let consumed = tokens.iter().map(|token| token.id.clone()).collect();
    let claim = WantedClaim { spender, body, amount, lease_ms: 600_000, tokens: Arc::from(tokens) };
    let began = Instant::now();
    let verdicts = store.claim_tokens(&[claim], None).unwrap();
    let claimed = began.elapsed();
    let ClaimVerdict::Locked { fence, .. } = verdicts[0] else { panic!("{verdicts:?}") };
    let produced = vec![Token::new(format!("p-{inputs}"), "bob", "EUR", amount)];
    let transaction =
        Transaction { id: name.as_str().into(), spender: name.as_str().into(), consumed, produced };
    let began = Instant::now();
    let spent =
        store.spend_tokens(&[WantedSpend { fence, body: Fingerprint(2), transaction }], None).unwrap();
    assert_eq!(spent, [Some(SpendVerdict::Spent)]);
    (claimed, began.elapsed())
}

#[test]
fn a_large_selection_costs_no_square() {
    let Some(database) = Database::new("token_large") else { return };
    let mut store = Store::open_for_tokens(database.url(), Settings::default()).unwrap();
    let mut last = (Duration::ZERO, Duration::ZERO);
    for inputs in [10, 1_000, 2_000, 4_000] {
        last = select_and_spend(&mut store, inputs);
        eprintln!("{inputs} inputs: locked in {:?}, spent in {:?}", last.0, last.1);
    }
    assert!(last.0 + last.1 < Duration::from_secs(2), "{last:?}");
}
