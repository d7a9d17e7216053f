//! What a selector answers, as plain data.

use std::sync::Arc;

use crate::fingerprint::Fingerprint;
use crate::token::{Name, Token, TokenId};

/// Tokens locked for a spender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// For whom.
    pub spender: Name,
    /// The locked tokens.
    pub tokens: Arc<[Token]>,
    /// What they are worth together.
    pub sum: u128,
    /// What was asked for.
    pub amount: u64,
    /// When the lock ends by itself, in milliseconds since 1970.
    pub expires_at: i64,
    /// Rises with every selection; a spend that names an older one is refused.
    pub fence: u64,
}

impl Selection {
    /// What is left over if exactly the amount is spent.
    #[must_use]
    pub fn change(&self) -> u128 {
        self.sum.saturating_sub(u128::from(self.amount))
    }
}

/// A spend that happened. Whoever repeats it gets this again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its id.
    pub id: Name,
    /// Whose selection it spent.
    pub spender: Name,
    /// The inputs.
    pub consumed: Vec<TokenId>,
    /// The outputs, change last.
    pub produced: Vec<Token>,
}

/// A renewed lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its new end.
    pub expires_at: i64,
    /// The lock's fence, unchanged.
    pub fence: u64,
}

/// What an owner has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// All of it.
    pub total: u128,
    /// What can be selected now.
    pub free: u128,
    /// What is locked.
    pub locked: u128,
    /// In how many tokens.
    pub tokens: usize,
    /// How many of them are locked.
    pub locked_tokens: usize,
    /// The largest free token.
    pub largest_free: Option<u64>,
    /// The smallest free token.
    pub smallest_free: Option<u64>,
}

/// How shattered an owner's free tokens are: tokens and sums by number of decimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Free tokens with 1, 2, … 20 digits.
    pub tokens: [usize; 20],
    /// Their sums.
    pub sums: [u128; 20],
}

/// A live lock, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Who holds it.
    pub spender: Name,
    /// Its fence.
    pub fence: u64,
    /// Since when.
    pub since: i64,
    /// Until when.
    pub expires_at: i64,
    /// What it holds.
    pub tokens: Vec<Token>,
}

impl LockView {
    /// How long it has been held.
    #[must_use]
    pub fn age_ms(&self, now: i64) -> i64 {
        now.saturating_sub(self.since)
    }
}

/// The live locks in two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockSummary {
    /// How many there are.
    pub locks: usize,
    /// Since when the oldest is held.
    pub oldest_since: Option<i64>,
}

impl LockSummary {
    /// How long the oldest has been held; 0 without locks.
    #[must_use]
    pub fn oldest_ms(&self, now: i64) -> i64 {
        self.oldest_since.map_or(0, |since| now.saturating_sub(since).max(0))
    }
}

/// A lock as a host keeps it: enough to put it back, or to apply it from a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// Who holds it.
    pub spender: Name,
    /// Its fence.
    pub fence: u64,
    /// Since when.
    pub since: i64,
    /// Its absolute end; [`crate::limits::NO_END`] for none.
    pub expires_at: i64,
    /// What was asked for.
    pub amount: u64,
    /// The content of the request, so that a repeat is known again.
    pub body: Fingerprint,
    /// The tokens.
    pub ids: Arc<[TokenId]>,
}

/// How putting locks back went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Locks put back.
    pub locks: usize,
    /// Locks whose lease had ended; their tokens stay free.
    pub expired: usize,
    /// Spenders whose lock was not put back whole, since a token is gone or held by another.
    pub broken: Vec<Name>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Selections made.
    pub selections: u64,
    /// Their inputs.
    pub inputs: u64,
    /// Selections with 1, 2, 3-4, 5-8, 9-16, … inputs.
    pub inputs_histogram: [u64; 16],
    /// Selections refused for want of free funds.
    pub refused: u64,
    /// Claims that chose anew because another was faster.
    pub conflicts: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Locks that ended by their lease.
    pub lease_ends: u64,
    /// Tokens held now.
    pub tokens: u64,
    /// Bytes held now, estimated.
    pub bytes: u64,
    /// Requests waiting now.
    pub waiting: u64,
}
