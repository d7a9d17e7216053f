//! Sending transfers as a payer, one after another, each to its end.

use std::time::{Duration, Instant};

use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::money::Amount;
use hyper::Method;
use serde_json::{Value, json};

use super::desk::{Desk, End};
use super::diary::Way;
use super::{messages, scheme};
use crate::remote::new_transfer_id;

/// How long after a transfer's expiration its callback may still be on its way.
const CALLBACK_LATE_MAX: Duration = Duration::from_secs(15);
/// The longest that `Prefer: wait` asks for.
const PREFER_WAIT_SECONDS: u64 = 30;

/// What is to be paid.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) payee: String,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) count: u64,
    /// How long each transfer may take.
    pub(crate) expires: Duration,
    /// Have the hub answer the POST itself with the state.
    pub(crate) prefer_wait: bool,
}

/// How the transfers ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub(crate) committed: u64,
    pub(crate) not_committed: u64,
    /// Nothing was heard in time.
    pub(crate) unknown: u64,
}

/// Sends the order's transfers and waits for each.
pub(crate) async fn pay(desk: &Desk, order: &Order) -> anyhow::Result<Totals> {
    let mut totals = Totals::default();
    for _ in 0..order.count {
        match pay_one(desk, order).await? {
            Some(true) => totals.committed += 1,
            Some(false) => totals.not_committed += 1,
            None => totals.unknown += 1,
        }
    }
    Ok(totals)
}

/// Whether it was committed; `None` if nobody said.
async fn pay_one(desk: &Desk, order: &Order) -> anyhow::Result<Option<bool>> {
    let id = new_transfer_id();
    let lifetime = Millis::try_from(order.expires.as_millis()).unwrap_or(Millis::MAX / 2);
    let expiration = messages::now().saturating_add(lifetime);
    let parties = (desk.name.as_str(), order.payee.as_str());
    let (body, fulfilment) =
        messages::prepare_body(id, parties, (order.amount, order.currency), expiration, &desk.secret);
    let id = id.to_string();
    let wait_seconds = order.prefer_wait.then_some(PREFER_WAIT_SECONDS);
    let headers = messages::request_headers(&desk.name, &order.payee, wait_seconds)?;
    let ended = desk.expect(&id);
    let started = Instant::now();
    let answered = desk.send(Method::POST, "/transfers", headers, body.to_string().into()).await;
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => {
            desk.diary.message(
                Way::Out,
                "POST /transfers",
                &format!("{id}: {error:#}"),
                json!({"transferId": id}),
            );
            return Ok(None);
        }
    };
    let state = serde_json::from_slice::<Value>(&answer.body).ok();
    let state = state.as_ref().and_then(|body| body.get("state")).and_then(Value::as_str);
    let said = state.map_or_else(|| answer.in_words(), |state| format!("{} {state}", answer.status.as_u16()));
    desk.diary.message(
        Way::Out,
        "POST /transfers",
        &format!("{id} to {}: {} {}: {said}", order.payee, order.amount, order.currency),
        json!({"transferId": id, "status": answer.status.as_u16(), "state": state, "answer": said}),
    );
    if !answer.status.is_success() {
        return Ok(Some(false));
    }
    let patience = order.expires.saturating_add(CALLBACK_LATE_MAX);
    let Ok(Ok(end)) = tokio::time::timeout(patience, ended).await else {
        desk.diary.note(&format!("{id}: no callback came; ask again with GET /transfers/{id}"));
        return Ok(None);
    };
    let took = started.elapsed().as_millis();
    Ok(Some(match end {
        End::Committed { fulfilment: Some(text) } if text == scheme::base64url(&fulfilment) => {
            desk.diary.note(&format!("{id}: COMMITTED after {took} ms, with the right fulfilment"));
            true
        }
        End::Committed { .. } => {
            desk.diary
                .note(&format!("{id}: COMMITTED after {took} ms, but the fulfilment is not the right one"));
            false
        }
        End::Aborted => {
            desk.diary.note(&format!("{id}: ABORTED after {took} ms"));
            false
        }
        End::Error { code, .. } => {
            desk.diary.note(&format!("{id}: {code} after {took} ms"));
            false
        }
    }))
}
