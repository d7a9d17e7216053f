//! Why a selector says no, with true numbers.

use thiserror::Error;

use crate::token::{Name, TokenId};

/// Who holds locked funds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The spender.
    pub spender: Name,
    /// When its lock ends by itself.
    pub expires_at: i64,
}

/// The funds a refusal is about: those that match the request, under the notary that comes nearest to covering it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Funds {
    /// What was asked for.
    pub amount: u64,
    /// What there is.
    pub total: u128,
    /// What of it is free.
    pub free: u128,
    /// What of it is locked.
    pub locked: u128,
    /// The largest free token.
    pub largest_free: Option<u64>,
    /// Some of those who hold the locked part, the first to end first.
    pub holders: Vec<Holder>,
    /// When the first lock ends by itself.
    pub earliest_expiry: Option<i64>,
    /// The notary the numbers are about, if the tokens have one.
    pub notary: Option<Name>,
}

/// The reason of [`Refusal::SpenderInUse`] while the spender's claim of the same request is on its way into the host's log.
pub const NOT_DECIDED: &str = "its claim is not decided yet";

/// Why not. [`Refusal::name`] is the name the edges use.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Even with every lock gone there is not enough.
    #[error("insufficient funds: {} asked, {} there, {} free", .0.amount, .0.total, .0.free)]
    InsufficientFunds(Box<Funds>),
    /// There is enough, but others hold too much of it now.
    #[error("funds locked: {} asked, {} free, {} locked", .0.amount, .0.free, .0.locked)]
    FundsLocked(Box<Funds>),
    /// No set of free tokens within the search's bounds has exactly the amount.
    #[error("no exact match for {}; allow change or ask for another amount", .0.amount)]
    NoExactMatch(Box<Funds>),
    /// The free funds suffice, but only with more inputs than allowed.
    #[error("{max_inputs} inputs cover {best_sum} of {}; consolidate or allow more inputs", funds.amount)]
    TooManyInputs {
        /// The funds.
        funds: Box<Funds>,
        /// How many inputs were allowed.
        max_inputs: usize,
        /// What the largest of them come to.
        best_sum: u128,
    },
    /// The spender has no live lock of that fence, or lost a token of it.
    #[error("{spender} has no such lock: {reason}")]
    LeaseLost {
        /// The spender.
        spender: Name,
        /// What happened.
        reason: &'static str,
    },
    /// The spender's name is taken by another request.
    #[error("spender {spender} is in use: {reason}; take another name")]
    SpenderInUse {
        /// The spender.
        spender: Name,
        /// By what.
        reason: &'static str,
    },
    /// Others were faster every time.
    #[error("others took the chosen tokens {attempts} times; try again")]
    Contention {
        /// How often.
        attempts: usize,
    },
    /// The store behind the selector does not answer; nothing is known about the funds.
    #[error("the token store is unavailable: {0}")]
    StoreUnavailable(String),
    /// The vault is not loaded to its end, so no answer would be complete.
    #[error("the vault is still loading, {tokens} tokens so far; try again")]
    Loading {
        /// How many tokens are loaded.
        tokens: usize,
    },
    /// As many requests wait as may.
    #[error("{waiting} requests wait already; try again later")]
    TooManyWaiters {
        /// How many.
        waiting: usize,
    },
    /// The filter had to look at more tokens than one request may.
    #[error("the filter looked at {tokens} tokens without an end; narrow the request by owner or issuer")]
    ScanLimit {
        /// How many.
        tokens: usize,
    },
    /// A bound of the configuration is reached.
    #[error("{what} at its bound of {limit}; raise it, or make room")]
    Full {
        /// Which bound.
        what: &'static str,
        /// Its value.
        limit: usize,
    },
    /// A token with that id is there already.
    #[error("token {0} exists already")]
    TokenExists(TokenId),
    /// A token with that id is unknown.
    #[error("token {0} is unknown")]
    UnknownToken(TokenId),
    /// The token has been consumed.
    #[error("token {0} has been consumed")]
    TokenConsumed(TokenId),
    /// The request itself is wrong.
    #[error("bad request: {0}")]
    Invalid(String),
}

impl Refusal {
    /// The name of the refusal at the edges.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::InsufficientFunds(_) => "insufficient-funds",
            Refusal::FundsLocked(_) => "funds-locked",
            Refusal::NoExactMatch(_) => "no-exact-match",
            Refusal::TooManyInputs { .. } => "too-many-inputs",
            Refusal::LeaseLost { .. } => "lease-lost",
            Refusal::SpenderInUse { .. } => "spender-in-use",
            Refusal::Contention { .. } => "contention",
            Refusal::StoreUnavailable(_) => "store-unavailable",
            Refusal::Loading { .. } => "loading",
            Refusal::TooManyWaiters { .. } => "too-many-waiters",
            Refusal::ScanLimit { .. } => "scan-limit",
            Refusal::Full { .. } => "full",
            Refusal::TokenExists(_) => "token-exists",
            Refusal::UnknownToken(_) => "unknown-token",
            Refusal::TokenConsumed(_) => "token-consumed",
            Refusal::Invalid(_) => "invalid",
        }
    }

    /// The numbers, where the refusal is about funds.
    #[must_use]
    pub fn funds(&self) -> Option<&Funds> {
        match self {
            Refusal::InsufficientFunds(funds)
            | Refusal::FundsLocked(funds)
            | Refusal::NoExactMatch(funds)
            | Refusal::TooManyInputs { funds, .. } => Some(funds),
            _ => None,
        }
    }

    /// Whether the end of a lock could turn this into a yes.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Refusal::FundsLocked(_) | Refusal::Contention { .. } => true,
            Refusal::NoExactMatch(funds) | Refusal::TooManyInputs { funds, .. } => funds.locked > 0,
            _ => false,
        }
    }
}
