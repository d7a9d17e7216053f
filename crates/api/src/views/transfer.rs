//! `GET /hub/transfers/{id}`: one transfer with its history and what it did to positions.

use axum::Json;
use axum::extract::{Path, State};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::CompletionKind;
use serde_json::{Value, json};

use super::Shown;
use crate::calls::find;
use crate::error::ApiError;
use crate::{Edge, times};

pub(crate) async fn transfer(
    State(edge): State<Edge>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id: TransferId =
        id.parse().map_err(|error: holdfast_domain::ids::IdError| ApiError::malformed(error.to_string()))?;
    let (row, roster) = find(&edge, id).await?;
    let row = row.ok_or_else(|| ApiError::no_transfer(id))?;
    let archived = row.offset < edge.hub.log_start();
    Ok(Json(show(&Shown::of(&roster, row), archived)))
}

/// What an abort's code is called: even where we have the same number, the payee means its own.
const PAYEES_CODE: &str = "the payee's own code";

fn show(shown: &Shown, archived: bool) -> Value {
    let row = &shown.row;
    let mut members = shown.summary();
    let history: Vec<Value> = row
        .history()
        .iter()
        .map(|(state, at)| json!({"state": state.name(), "at": times::format(*at)}))
        .collect();
    let changes: Vec<Value> = row
        .position_changes()
        .iter()
        .map(|(account, change, value)| {
            let party = if row.payer_account == Some(*account) { shown.payer } else { shown.payee };
            let participant = party.map(|name| name.as_str().to_owned());
            json!({"participant": participant, "change": change.to_string(), "value": value.to_string()})
        })
        .collect();
    members.insert("history".to_owned(), json!(history));
    members.insert("positionChanges".to_owned(), json!(changes));
    if let Some(code) = row.code {
        let name = match row.completion() {
            Some(end) if end.kind == CompletionKind::Abort => PAYEES_CODE,
            _ => ErrorCode::from_number(code.number()).map_or(PAYEES_CODE, ErrorCode::name),
        };
        let description = match row.reason {
            Some(reason) => format!("{name} - {}", reason.text()),
            None => name.to_owned(),
        };
        let error = json!({"errorCode": code.number().to_string(), "errorDescription": description});
        members.insert("errorInformation".to_owned(), error);
    }
    if archived {
        members.insert("archived".to_owned(), json!(true));
    }
    Value::Object(members)
}
