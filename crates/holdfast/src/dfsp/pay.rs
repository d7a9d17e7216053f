//! Sending transfers as a payer, one after another, each to its end.

use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::money::Amount;
use hyper::Method;
use serde_json::{Value, json};

use super::diary::Way;
use super::participant::{End, Participant};
use super::{messages, scheme};
use crate::remote::new_transfer_id;

/// How long after a transfer's expiration its callback may still be on its way.
const CALLBACK_LATE_MAX: Duration = Duration::from_secs(15);
/// The longest that `Prefer: wait` asks for.
const PREFER_WAIT_SECONDS: u64 = 30;

/// Between two questions for the end of a transfer.
const ASK_PAUSE: Duration = Duration::from_millis(250);

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
    /// Ask the hub how each transfer ended, since no callback comes here.
    pub(crate) ask_for_end: bool,
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
pub(crate) async fn pay(participant: &Participant, order: &Order) -> anyhow::Result<Totals> {
    let mut totals = Totals::default();
    for _ in 0..order.count {
        match pay_one(participant, order).await? {
            Some(true) => totals.committed += 1,
            Some(false) => totals.not_committed += 1,
            None => totals.unknown += 1,
        }
    }
    Ok(totals)
}

/// Whether it was committed; `None` if nobody said.
async fn pay_one(participant: &Participant, order: &Order) -> anyhow::Result<Option<bool>> {
    let id = new_transfer_id();
    let lifetime = Millis::try_from(order.expires.as_millis()).unwrap_or(Millis::MAX / 2);
    let expiration = messages::now().saturating_add(lifetime);
    let parties = (participant.name.as_str(), order.payee.as_str());
    let (body, fulfilment) =
        messages::prepare_body(id, parties, (order.amount, order.currency), expiration, &participant.secret);
    let id = id.to_string();
    let wait_seconds = order.prefer_wait.then_some(PREFER_WAIT_SECONDS);
    let headers = messages::request_headers(&participant.name, &order.payee, wait_seconds)?;
    let ended = participant.expect(&id);
    let started = Instant::now();
    let answered = participant.send(Method::POST, "/transfers", headers, body.to_string().into()).await;
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => {
            participant.diary.message(
                Way::Out,
                "POST /transfers",
                &format!("{id}: {error:#}"),
                json!({"transferId": id}),
            );
            return Ok(None);
        }
    };
    let told = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let state = told.get("state").and_then(Value::as_str);
    let said = state.map_or_else(|| answer.in_words(), |state| format!("{} {state}", answer.status.as_u16()));
    participant.diary.message(
        Way::Out,
        "POST /transfers",
        &format!("{id} to {}: {} {}: {said}", order.payee, order.amount, order.currency),
        json!({"transferId": id, "status": answer.status.as_u16(), "state": state, "answer": said}),
    );
    if !answer.status.is_success() {
        return Ok(Some(false));
    }
    let patience = order.expires.saturating_add(CALLBACK_LATE_MAX);
    let end = if order.ask_for_end {
        let asked = async {
            match end_in(&told) {
                Some(end) => Ok(end),
                None => ask_for_end(participant, &order.payee, &id).await,
            }
        };
        match tokio::time::timeout(patience, asked).await {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => {
                participant.diary.note(&format!("{id}: its end is not known: {error:#}"));
                return Ok(None);
            }
            Err(_) => {
                participant.diary.note(&format!("{id}: it had not ended long after its expiration"));
                return Ok(None);
            }
        }
    } else {
        let Ok(Ok(end)) = tokio::time::timeout(patience, ended).await else {
            participant.diary.note(&format!("{id}: no callback came; ask again with GET /transfers/{id}"));
            return Ok(None);
        };
        end
    };
    let took = started.elapsed().as_millis();
    let (committed, how) = match end {
        End::Committed { fulfilment: Some(text) } if text == scheme::base64url(&fulfilment) => {
            (true, format!("COMMITTED after {took} ms, with the right fulfilment"))
        }
        End::Committed { .. } => {
            (false, format!("COMMITTED after {took} ms, but the fulfilment is not the right one"))
        }
        End::Aborted => (false, format!("ABORTED after {took} ms")),
        End::Error { code, .. } => (false, format!("{code} after {took} ms")),
    };
    participant.diary.note(&format!("{id}: {how}"));
    Ok(Some(committed))
}

/// Asks until the transfer has ended. It does end: its expiration sees to that.
async fn ask_for_end(participant: &Participant, payee: &str, id: &str) -> anyhow::Result<End> {
    let path = format!("/transfers/{id}");
    loop {
        tokio::time::sleep(ASK_PAUSE).await;
        let headers = messages::request_headers(&participant.name, payee, Some(PREFER_WAIT_SECONDS))?;
        let answer = participant.send(Method::GET, &path, headers, Bytes::new()).await?;
        if !answer.status.is_success() {
            bail!("GET {path}: {}", answer.in_words());
        }
        let told = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        if let Some(end) = end_in(&told) {
            let state = told.get("state").and_then(Value::as_str);
            participant.diary.message(
                Way::Out,
                &format!("GET {path}"),
                &format!("{} {}", answer.status.as_u16(), state.unwrap_or_default()),
                json!({"transferId": id, "status": answer.status.as_u16(), "state": state}),
            );
            return Ok(end);
        }
    }
}

/// The end that an answer under `Prefer: wait` tells, if it tells one.
fn end_in(told: &Value) -> Option<End> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    match told.get("transferState").and_then(Value::as_str) {
        Some("COMMITTED") => Some(End::Committed { fulfilment: text(told.get("fulfilment")) }),
        Some("ABORTED") => Some(match told.get("errorInformation") {
            Some(information) => End::Error {
                code: text(information.get("errorCode")).unwrap_or_default(),
                description: text(information.get("errorDescription")).unwrap_or_default(),
            },
            None => End::Aborted,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_an_end_or_none() {
        assert_eq!(end_in(&Value::Null), None);
        assert_eq!(end_in(&json!({"transferState": "RESERVED"})), None);
        assert_eq!(
            end_in(&json!({"transferState": "COMMITTED", "fulfilment": "f"})),
            Some(End::Committed { fulfilment: Some("f".to_owned()) })
        );
        assert_eq!(end_in(&json!({"transferState": "ABORTED"})), Some(End::Aborted));
        let refused = json!({"transferState": "ABORTED",
                             "errorInformation": {"errorCode": "4200", "errorDescription": "over"}});
        let end = End::Error { code: "4200".to_owned(), description: "over".to_owned() };
        assert_eq!(end_in(&refused), Some(end));
    }
}
