//! A token command of the log as JSON, with what became of it.

use holdfast_domain::effects::Outcome;
use holdfast_domain::tokens::{
    LockTokens, SpendTokens, Token, TokenCommand, TokenId, TokenOutcome, TokenRefusal,
};
use serde_json::{Value, json};

pub(super) fn show(command: &TokenCommand, outcome: &Outcome) -> Value {
    let mut shown = match command {
        TokenCommand::Issue { tokens } => {
            json!({"action": "issue", "tokens": tokens.iter().map(token).collect::<Vec<_>>()})
        }
        TokenCommand::Lock(LockTokens { spender, ids: chosen, amount, lease_ms, .. }) => json!({
            "action": "lock",
            "spender": **spender,
            "tokens": ids(chosen),
            "amount": amount.to_string(),
            "leaseMs": lease_ms,
        }),
        TokenCommand::Spend(SpendTokens { request, .. }) => json!({
            "action": "spend",
            "spender": *request.spender,
            "fence": request.fence.map(|fence| fence.to_string()),
            "outputs": request.outputs.iter()
                .map(|output| json!({"wallet": *output.wallet, "quantity": output.quantity.to_string()}))
                .collect::<Vec<_>>(),
            "redeem": request.redeem.to_string(),
        }),
        TokenCommand::Update { consumed, produced } => json!({
            "action": "update",
            "consumed": ids(consumed),
            "produced": produced.iter().map(token).collect::<Vec<_>>(),
        }),
        TokenCommand::Unlock { spender, fence } => json!({
            "action": "unlock", "spender": **spender, "fence": fence.map(|fence| fence.to_string()),
        }),
        TokenCommand::Renew { spender, fence, lease_ms } => json!({
            "action": "renew", "spender": **spender, "fence": fence.map(|fence| fence.to_string()), "leaseMs": lease_ms,
        }),
    };
    if let (Value::Object(members), Some(outcome)) = (&mut shown, outcome.token.as_deref()) {
        members.insert("outcome".to_owned(), decided(outcome));
    }
    shown
}

fn decided(outcome: &TokenOutcome) -> Value {
    match outcome {
        TokenOutcome::Issued => json!("issued"),
        TokenOutcome::Locked(row) => {
            json!({"fence": row.fence.to_string(), "expiresAt": super::command::time(row.expires_at)})
        }
        TokenOutcome::Spent(row) => json!({
            "transaction": *row.transaction.id,
            "consumed": ids(&row.transaction.consumed),
            "produced": row.transaction.produced.iter().map(token).collect::<Vec<_>>(),
        }),
        TokenOutcome::Updated { produced, consumed } => json!({"produced": produced, "consumed": consumed}),
        TokenOutcome::Released(count) => json!({"released": count}),
        TokenOutcome::Renewed { fence, expires_at } => {
            json!({"fence": fence.to_string(), "expiresAt": super::command::time(*expires_at)})
        }
        TokenOutcome::Refused(refusal) => json!({"refused": reason(refusal)}),
    }
}

fn reason(refusal: &TokenRefusal) -> String {
    match refusal {
        TokenRefusal::Taken(id) => format!("{id} is locked by another"),
        TokenRefusal::Consumed(id) => format!("{id} was consumed"),
        TokenRefusal::Unknown(id) => format!("there is no {id}"),
        TokenRefusal::Exists(id) => format!("{id} exists already"),
        TokenRefusal::LeaseLost(why) => format!("lease lost: {why}"),
        TokenRefusal::SpenderInUse(why) => format!("spender in use: {why}"),
        TokenRefusal::Invalid(why) => why.clone(),
    }
}

fn ids(ids: &[TokenId]) -> Vec<&str> {
    ids.iter().map(TokenId::as_str).collect()
}

fn token(token: &Token) -> Value {
    json!({
        "id": token.id.as_str(),
        "wallet": *token.kind.wallet,
        "type": *token.kind.token_type,
        "currency": *token.kind.currency,
        "quantity": token.quantity.to_string(),
    })
}
