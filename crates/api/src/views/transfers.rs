//! `GET /hub/transfers?state=&participant=&after=&limit=`: transfers in order of arrival.
//!
//! One request looks at a bounded number of rows, as it runs between two frames: with a filter that few match, a
//! page can be short or empty and still have a `next`. Only `"next": null` is the end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::TransferNo;
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::View;
use holdfast_store::Store;
use serde_json::{Value, json};

use super::Shown;
use super::filters::{self, Parameters, filters};
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;
use crate::limits::{PAGE_ROWS_MAX, ROWS_LOOKED_AT_MAX};

/// `state`: only transfers that stand in it. `participant`: only those that it pays or is paid by. `after`: the `next`
/// of the page before. `limit`: rows of the page.
pub(crate) async fn transfers(
    State(edge): State<Edge>,
    parameters: Parameters,
) -> Result<Json<Value>, ApiError> {
    let [state, participant, after, limit] = filters(parameters, ["state", "participant", "after", "limit"])?;
    let state = state.as_deref().map(read_state).transpose()?;
    let from = after.as_deref().map_or(Ok(TransferNo(0)), read_cursor)?;
    let limit = filters::limit(limit.as_deref())?.clamp(1, PAGE_ROWS_MAX);
    let page = ask(&edge, move |core| {
        let store = core.store();
        let participant = match &participant {
            None => None,
            Some(name) => {
                let row = Name::new(name).and_then(|name| store.participant_named(name));
                Some(row.ok_or_else(|| no_participant(name))?.id)
            }
        };
        let mut transfers: Vec<Shown> = Vec::new();
        let mut next = from;
        for row in store.transfers_from(from, ROWS_LOOKED_AT_MAX) {
            next = TransferNo(row.no.0 + 1);
            let matches = state.is_none_or(|state| row.state == state)
                && participant.is_none_or(|party| row.payer == party || row.payee == party);
            if matches {
                transfers.push(Shown::of(store, row));
            }
            if transfers.len() == limit {
                break;
            }
        }
        let next = (next < store.next_transfer()).then(|| next.0.to_string());
        Ok::<_, ApiError>((transfers, next))
    });
    let (transfers, next) = page.await??;
    let transfers: Vec<Value> = transfers.iter().map(|shown| Value::Object(shown.summary())).collect();
    Ok(Json(json!({"transfers": transfers, "next": next})))
}

fn read_state(text: &str) -> Result<TransferState, ApiError> {
    let found = TransferState::ALL.into_iter().find(|state| state.name() == text);
    found.ok_or_else(|| ApiError::malformed(format!("state: '{text}' is not a state such as RESERVED")))
}

/// The cursor is the number of the first transfer that was not looked at.
fn read_cursor(text: &str) -> Result<TransferNo, ApiError> {
    text.parse()
        .map(TransferNo)
        .map_err(|_| ApiError::malformed(format!("after: '{text}' is not the 'next' of an earlier page")))
}

fn no_participant(name: &str) -> ApiError {
    let detail = format!("participant: there is no {name}");
    ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::IdNotFound.number(), detail)
}
