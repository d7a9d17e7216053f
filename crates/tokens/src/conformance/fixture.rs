//! Short ways to say what the promises need.

use std::sync::Arc;

use crate::answer::Selection;
use crate::contract::TokenSelector;
use crate::memory::MemorySelector;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Scope, SelectRequest};
use crate::token::Token;

/// When every promise begins, in milliseconds since 1970.
pub const START: i64 = 1_700_000_000_000;

/// What the promises ask of whoever keeps a selector, besides the contract.
pub trait Host: Sized {
    /// What is there after a restart at `now`, with all that the host keeps for the selector.
    #[must_use]
    fn restart(self, now: i64) -> Self;

    /// Ends when every node knows of all that was answered so far. Which tokens are free is the same for all nodes at any time;
    /// which of several good choices a node makes follows from what it knows.
    fn settle(&self) {}
}

impl Host for MemorySelector {
    fn restart(self, now: i64) -> Self {
        let next = MemorySelector::new(self.config().clone());
        next.begin_load();
        for page in self.export_tokens().chunks(1_000) {
            next.load_page(page.to_vec()).expect("the same bounds hold");
        }
        let restored = next.restore_locks(&self.export_locks(now), now);
        assert_eq!(restored.broken, Vec::<Arc<str>>::new());
        next.end_load();
        next
    }
}

pub(super) fn alice() -> Scope {
    Scope::wallet("alice", "EUR")
}

/// Tokens of alice, named a0, a1, …
pub(super) fn tokens(quantities: &[u64]) -> Vec<Token> {
    let numbered = quantities.iter().enumerate();
    numbered.map(|(number, quantity)| Token::new(format!("a{number}"), "alice", "EUR", *quantity)).collect()
}

pub(super) fn with_tokens<S: TokenSelector>(make: &dyn Fn() -> S, quantities: &[u64]) -> S {
    let selector = make();
    selector.issue(tokens(quantities), START).expect("fresh tokens are taken");
    selector
}

pub(super) fn request(spender: &str, amount: u64) -> SelectRequest {
    SelectRequest::new(spender, alice(), amount)
}

pub(super) fn try_select<S: TokenSelector>(
    selector: &S,
    request: &SelectRequest,
    now: i64,
) -> Result<Selection, Refusal> {
    selector.select(request, now, &mut Random::new(7))
}

pub(super) fn select<S: TokenSelector>(selector: &S, spender: &str, amount: u64) -> Selection {
    try_select(selector, &request(spender, amount), START).expect("there is enough")
}

/// The quantities of a selection, rising.
pub(super) fn quantities(selection: &Selection) -> Vec<u64> {
    let mut all: Vec<u64> = selection.tokens.iter().map(|token| token.quantity).collect();
    all.sort_unstable();
    all
}

/// The name of the refusal.
pub(super) fn refused<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> &'static str {
    outcome.expect_err("this must be refused").name()
}
