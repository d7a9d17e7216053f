//! The contract that every selector keeps: this crate's in memory, and the shared one over a database.
//!
//! Time comes in with each call, in milliseconds since 1970, and chance as a [`Random`]. A selector with a better clock
//! (the database's) may use its own. [`crate::conformance`] checks the contract.

use crate::answer::{Balance, Lease, LockView, Selection, Transaction};
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Predicate, Scope, SelectRequest, SpendRequest};
use crate::token::{Token, TokenId};

/// Selects, locks and spends tokens.
pub trait TokenSelector: Send + Sync {
    /// Adds new tokens, all or none.
    fn issue(&self, tokens: Vec<Token>, now: i64) -> Result<(), Refusal>;

    /// Takes over what happened on an outside ledger, in any order: a consumed id never comes alive, also if its produce
    /// comes later. One atomic step. Returns how many tokens came and went.
    fn update(&self, consumed: &[TokenId], produced: Vec<Token>, now: i64)
    -> Result<(usize, usize), Refusal>;

    /// Chooses and locks tokens, all or nothing.
    fn select(&self, request: &SelectRequest, now: i64, random: &mut Random) -> Result<Selection, Refusal> {
        self.select_where(request, None, now, random)
    }

    /// The same, among the tokens that pass the predicate.
    fn select_where(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        now: i64,
        random: &mut Random,
    ) -> Result<Selection, Refusal>;

    /// Consumes what the spender has selected and produces the outputs and the change, in one atomic step.
    fn spend(&self, request: &SpendRequest, now: i64) -> Result<Transaction, Refusal>;

    /// Moves the end of a live lease to `now + lease_ms`.
    fn renew(&self, spender: &str, fence: Option<u64>, lease_ms: i64, now: i64) -> Result<Lease, Refusal>;

    /// Frees what the spender has locked. Returns how many tokens; 0 if there was no such lock any more.
    fn release(&self, spender: &str, fence: Option<u64>, now: i64) -> Result<usize, Refusal>;

    /// What an owner has. An unknown owner has nothing.
    fn balance(&self, scope: &Scope, now: i64) -> Result<Balance, Refusal>;

    /// The live locks on an owner's tokens; of everybody without a scope.
    fn locks(&self, scope: Option<&Scope>, now: i64) -> Result<Vec<LockView>, Refusal>;
}
