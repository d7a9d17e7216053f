//! Requests as large as are allowed: they cost what they hold, not its square.

use std::time::{Duration, Instant};

use holdfast_postgres::tokens::SpendVerdict;
use holdfast_postgres::{Settings, Store};
use holdfast_services::Database;
use holdfast_tokens::Token;

use crate::token_world::{lock, spend};

/// How long it takes to lock so many tokens in one selection, and to spend them.
fn select_and_spend(store: &mut Store, inputs: usize) -> (Duration, Duration) {
    let name = format!("s-{inputs}");
    let tokens: Vec<Token> =
        (0..inputs).map(|n| Token::new(format!("t-{inputs}-{n}"), "alice", "EUR", 1)).collect();
    assert!(store.issue_tokens(&tokens, None).unwrap().is_ok());
    let began = Instant::now();
    let fence = lock(store, &name, &tokens);
    let claimed = began.elapsed();
    let produced = Token::new(format!("p-{inputs}"), "bob", "EUR", inputs as u64);
    let wanted = [spend(fence, &name, &tokens, produced)];
    let began = Instant::now();
    assert_eq!(store.spend_tokens(&wanted, None).unwrap(), [Some(SpendVerdict::Spent)]);
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
