//! Refusals as RFC 9457 problems: a name, a status, words, and the numbers a program can go by.

use holdfast_tokens::{Funds, Refusal};
use serde_json::{Map, Value, json};

use super::answers::{At, Digits};

/// The HTTP status of a refusal.
#[must_use]
pub fn status(refusal: &Refusal) -> u16 {
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
pub(in crate::tokens) fn title(name: &str) -> &'static str {
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

/// The members that every problem has.
pub(in crate::tokens) fn members(name: &str, status: u16, detail: &str) -> Map<String, Value> {
    crate::problem::members(name, title(name), status, detail)
}

/// A refusal as the body that HTTP answers.
#[must_use]
pub fn problem(refusal: &Refusal) -> Value {
    let mut all = members(refusal.name(), status(refusal), &refusal.to_string());
    let mut add = |name: &str, value: Value| {
        all.insert(name.to_owned(), value);
    };
    if let Some(funds) = refusal.funds() {
        add_funds(funds, &mut add);
    }
    match refusal {
        Refusal::TooManyInputs { max_inputs, best_sum, .. } => {
            add("maxInputs", json!(max_inputs));
            add("bestSum", json!(Digits(best_sum)));
        }
        Refusal::LeaseLost { spender, .. } | Refusal::SpenderInUse { spender, .. } => {
            add("spender", json!(&**spender));
        }
        Refusal::TokenExists(id) | Refusal::UnknownToken(id) | Refusal::TokenConsumed(id) => {
            add("token", json!(id.as_str()));
        }
        _ => {}
    }
    Value::Object(all)
}

fn add_funds(funds: &Funds, add: &mut impl FnMut(&str, Value)) {
    let holders: Vec<Value> = funds
        .holders
        .iter()
        .map(|holder| json!({"spender": &*holder.spender, "expiresAt": At(holder.expires_at)}))
        .collect();
    add("amount", json!(Digits(funds.amount)));
    add("total", json!(Digits(funds.total)));
    add("free", json!(Digits(funds.free)));
    add("locked", json!(Digits(funds.locked)));
    add("largestFree", json!(funds.largest_free.map(Digits)));
    add("holders", json!(holders));
    add("earliestExpiry", json!(funds.earliest_expiry.map(At)));
    if let Some(notary) = &funds.notary {
        add("notary", json!(&**notary));
    }
}
