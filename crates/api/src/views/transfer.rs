//! `GET /hub/transfers/{id}`: one transfer with its history and what it did to positions.

use axum::Json;
use axum::extract::{Path, State};
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;
use holdfast_store::MemoryStore;
use serde_json::{Value, json};

use super::{name_of, summary};
use crate::calls::ask;
use crate::error::ApiError;
use crate::{Edge, times};

pub(crate) async fn transfer(
    State(edge): State<Edge>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id: TransferId =
        id.parse().map_err(|error: holdfast_domain::ids::IdError| ApiError::malformed(error.to_string()))?;
    let found = ask(&edge, move |core| core.store().transfer(id).map(|row| show(core.store(), row))).await?;
    found.map(Json).ok_or_else(|| ApiError::no_transfer(id))
}

fn show(store: &MemoryStore, row: &Transfer) -> Value {
    let mut members = summary(store, row);
    let history: Vec<Value> = row
        .history()
        .iter()
        .map(|(state, at)| json!({"state": state.name(), "at": times::format(*at)}))
        .collect();
    let changes: Vec<Value> = row
        .position_changes()
        .iter()
        .map(|(account, change, value)| {
            let participant =
                store.account(*account).map_or(Value::Null, |row| name_of(store, row.participant));
            json!({"participant": participant, "change": change.to_string(), "value": value.to_string()})
        })
        .collect();
    members.insert("history".to_owned(), json!(history));
    members.insert("positionChanges".to_owned(), json!(changes));
    if let Some(code) = row.code {
        let description = row.reason.map(|reason| reason.text());
        let error = json!({"errorCode": code.number().to_string(), "errorDescription": description});
        members.insert("errorInformation".to_owned(), error);
    }
    Value::Object(members)
}
