//! Refusals as RFC 9457 problems: a name, a status, words, and the numbers a program can go by.

use holdfast_tokens::{self as selector, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with_macros::skip_serializing_none;

use crate::problem::ProblemHead;
use crate::{Instant, Name, Nullable, Sum, Whole};

/// A problem of RFC 9457. Those about funds have the numbers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(example = json!({
    "type": "/problems/funds-locked", "title": "There is enough, but others hold too much of it now", "status": 409,
    "detail": "funds locked: 100 asked, 40 free, 80 locked", "amount": "100", "total": "120", "free": "40", "locked": "80",
    "largestFree": "40", "holders": [{"spender": "payment-1", "expiresAt": "2026-11-15T08:24:36.000Z"}],
    "earliestExpiry": "2026-11-15T08:24:36.000Z",
}))]
pub struct Problem {
    /// What every problem says.
    #[serde(flatten)]
    pub head: ProblemHead,
    /// The numbers, where it is about funds.
    #[serde(flatten)]
    pub funds: Option<Funds>,
    /// How many inputs were allowed
    pub max_inputs: Option<usize>,
    /// What the largest of them come to
    pub best_sum: Option<Sum>,
    /// Whose lease, or whose name
    pub spender: Option<Name>,
    /// Which token
    pub token: Option<Name>,
}

/// The funds that a problem is about.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Funds {
    /// What was asked for
    pub amount: Whole,
    /// What there is
    pub total: Sum,
    /// What of it is free
    pub free: Sum,
    /// What of it is locked
    pub locked: Sum,
    /// The largest free token
    pub largest_free: Nullable<Whole>,
    /// Some of those who hold the locked part, the first to end first
    #[schemars(length(max = 8))]
    pub holders: Vec<Holder>,
    /// When the first lock ends by itself
    pub earliest_expiry: Nullable<Instant>,
    /// The notary the numbers are about, if there is one
    pub notary: Option<Name>,
}

/// Who holds a part of what was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TokenHolder")]
pub struct Holder {
    /// Who
    pub spender: Name,
    /// Until when; null for a transfer's hold
    pub expires_at: Nullable<Instant>,
}

impl From<&selector::Funds> for Funds {
    fn from(funds: &selector::Funds) -> Funds {
        let holders = funds.holders.iter().map(|holder| Holder {
            spender: (&holder.spender).into(),
            expires_at: Instant::end(holder.expires_at),
        });
        Funds {
            amount: funds.amount.into(),
            total: funds.total.into(),
            free: funds.free.into(),
            locked: funds.locked.into(),
            largest_free: funds.largest_free.map(Whole).into(),
            holders: holders.collect(),
            earliest_expiry: funds.earliest_expiry.map_or(Nullable(None), Instant::end),
            notary: funds.notary.as_ref().map(Name::from),
        }
    }
}

impl Problem {
    /// A problem of that name.
    #[must_use]
    pub fn new(name: &str, status: u16, detail: &str) -> Problem {
        Problem {
            head: ProblemHead::new(name, title(name), status, detail),
            funds: None,
            max_inputs: None,
            best_sum: None,
            spender: None,
            token: None,
        }
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Problem {
        let mut problem = Problem::new(refusal.name(), status(refusal), &refusal.to_string());
        problem.funds = refusal.funds().map(Funds::from);
        match refusal {
            Refusal::TooManyInputs { max_inputs, best_sum, .. } => {
                problem.max_inputs = Some(*max_inputs);
                problem.best_sum = Some(Sum(*best_sum));
            }
            Refusal::LeaseLost { spender, .. } | Refusal::SpenderInUse { spender, .. } => {
                problem.spender = Some(spender.into());
            }
            Refusal::TokenExists(id) | Refusal::UnknownToken(id) | Refusal::TokenConsumed(id) => {
                problem.token = Some(id.as_str().into());
            }
            _ => {}
        }
        problem
    }
}

/// The HTTP status of a refusal.
fn status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Invalid(_) => 400,
        Refusal::InsufficientFunds(_)
        | Refusal::FundsLocked(_)
        | Refusal::NoExactMatch(_)
        | Refusal::LeaseLost { .. }
        | Refusal::SpenderInUse { .. }
        | Refusal::TokenExists(_)
        | Refusal::UnknownToken(_)
        | Refusal::TokenConsumed(_) => 409,
        Refusal::TooManyInputs { .. } | Refusal::ScanLimit { .. } => 422,
        Refusal::Contention { .. }
        | Refusal::StoreUnavailable(_)
        | Refusal::Loading { .. }
        | Refusal::TooManyWaiters { .. }
        | Refusal::Full { .. } => 503,
    }
}

/// What a kind of problem is called; the same each time it occurs.
fn title(name: &str) -> &'static str {
    match name {
        "insufficient-funds" => "There is not enough",
        "funds-locked" => "There is enough, but others hold too much of it now",
        "no-exact-match" => "No tokens come to exactly the amount",
        "too-many-inputs" => "The amount needs more inputs than are allowed",
        "lease-lost" => "The lease has been lost",
        "spender-in-use" => "The spender is in use",
        "contention" => "Others were faster every time",
        "store-unavailable" => "The token store is unavailable",
        "loading" => "The vault is still loading",
        "too-many-waiters" => "Too many requests wait",
        "scan-limit" => "The filter looks at too many tokens",
        "full" => "The vault is full",
        "token-exists" => "The token exists already",
        "unknown-token" => "The token is unknown",
        "token-consumed" => "The token has been consumed",
        "too-large" => "The request is too large",
        "busy" => "The hub is busy",
        "slow-body" => "The body came too slowly",
        "no-answer" => "The outcome is unknown",
        _ => "The request is wrong",
    }
}
