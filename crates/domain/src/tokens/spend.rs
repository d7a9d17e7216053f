//! A spend: inputs go, outputs and change come, and the spender's name is used up.

use std::sync::Arc;

use holdfast_tokens::plan_spend;

use super::decide::{ended, live_lock};
use super::{
    LockRow, Refusal, SpendRow, SpendTokens, Token, TokenEffect, TokenId, TokenOutcome, TokenRefusal,
    Transaction,
};
use crate::effects::Step;
use crate::ids::{Millis, TransferId};
use crate::planted::{self, Bug};
use crate::view::{Tokens, Vault};

/// Tokens that a transfer paid out begin so. Nobody else may bring such an id, so a fulfil never finds its outputs taken.
/// Ids that begin so are made by transfers and checkouts alone.
pub const HOLD_PREFIX: &str = "hold:";

/// Why nobody but a transfer or a checkout may bring a token of that id; `None` if anybody may.
#[must_use]
pub fn why_reserved(id: &TokenId) -> Option<String> {
    let is_reserved = id.as_str().starts_with(HOLD_PREFIX);
    is_reserved.then(|| {
        format!(
            "token ids that begin with {HOLD_PREFIX} are made by transfers and checkouts alone; {id} is one"
        )
    })
}

pub(super) fn decide_spend(
    view: &impl Vault,
    now: Millis,
    command: &SpendTokens,
    effects: &mut Step,
) -> Result<TokenOutcome, TokenRefusal> {
    let SpendTokens { request, body, transaction } = command;
    if let Some(done) = view.spend(&request.spender) {
        return if done.body == *body {
            Ok(TokenOutcome::Spent(Arc::clone(done)))
        } else {
            Err(TokenRefusal::SpenderInUse("it has spent to other outputs"))
        };
    }
    let lock = live_lock(view, now, &request.spender, request.fence)?;
    if lock.funding.is_some() {
        return Err(TokenRefusal::SpenderInUse("a transfer or checkout holds it and will end it"));
    }
    let id = TransferId(*transaction).to_string();
    let produced = plan_spend(&inputs(view, lock), request, &id).map_err(|refusal| match refusal {
        Refusal::Invalid(why) => TokenRefusal::Invalid(why),
        other => TokenRefusal::Invalid(other.to_string()),
    })?;
    let row = exchange(view, lock, id, produced, *body, effects)?;
    Ok(TokenOutcome::Spent(row))
}

/// The spend that ends a transfer's hold: its amount to the payee's wallet, the rest back.
pub(crate) fn transaction_of(
    view: &impl Tokens,
    lock: &LockRow,
    payee_wallet: &super::Name,
    effects: &mut Step,
) -> Result<(), TokenRefusal> {
    let output = super::Output::new(payee_wallet.clone(), lock.amount);
    let request = super::SpendRequest::new(lock.spender.clone(), vec![output]);
    let id = format!("{HOLD_PREFIX}{}", lock.spender);
    let produced = plan_spend(&inputs(view, lock), &request, &id)
        .map_err(|refusal| TokenRefusal::Invalid(refusal.to_string()))?;
    exchange(view, lock, id, produced, lock.body, effects).map(drop)
}

fn inputs(view: &impl Tokens, lock: &LockRow) -> Vec<Token> {
    let token = |id| view.token(id).expect("what is locked lives").token.clone();
    lock.tokens.iter().map(token).collect()
}

fn exchange(
    view: &impl Tokens,
    lock: &LockRow,
    id: String,
    produced: Vec<Token>,
    body: super::Fingerprint,
    effects: &mut Step,
) -> Result<Arc<SpendRow>, TokenRefusal> {
    // The transaction's number was drawn at random, so this is somebody who drew the same.
    if let Some(known) = produced.iter().find(|token| view.token(&token.id).is_some()) {
        return Err(TokenRefusal::Exists(known.id.clone()));
    }
    effects.tokens.push(ended(lock));
    let kept = usize::from(planted::has(Bug::KeptInput));
    effects.tokens.extend(lock.tokens.iter().skip(kept).cloned().map(TokenEffect::Consumed));
    effects.tokens.extend(produced.iter().cloned().map(TokenEffect::Produced));
    let consumed = lock.tokens.to_vec();
    let transaction = Transaction { id: id.into(), spender: lock.spender.clone(), consumed, produced };
    let row = Arc::new(SpendRow { transaction, body });
    effects.tokens.push(TokenEffect::Spent(Arc::clone(&row)));
    Ok(row)
}
