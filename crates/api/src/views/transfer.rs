//! `GET /hub/transfers/{id}`: one transfer with its history and what it did to positions.

use axum::Json;
use axum::extract::{Path, State};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::TransferId;
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::CompletionKind;
use holdfast_domain::views::{NamedChange, TransferStory};
use serde_json::{Value, json};

use super::summary;
use crate::calls::read;
use crate::error::ApiError;
use crate::{Edge, times};

pub(crate) async fn transfer(
    State(edge): State<Edge>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id: TransferId =
        id.parse().map_err(|error: holdfast_domain::ids::IdError| ApiError::malformed(error.to_string()))?;
    let story = read(edge.engine.story(id)).await?;
    story.map(|story| Json(show(&story))).ok_or_else(|| ApiError::no_transfer(id))
}

/// What an abort's code is called: even where we have the same number, the payee means its own.
const PAYEES_CODE: &str = "the payee's own code";

fn show(story: &TransferStory) -> Value {
    let row = &story.transfer.row;
    let mut members = summary(&story.transfer);
    let history: Vec<Value> = story
        .history
        .iter()
        .map(|(state, at)| json!({"state": state.name(), "at": times::format(*at)}))
        .collect();
    let changes: Vec<Value> = story
        .changes
        .iter()
        .map(|NamedChange { participant, change, value }| {
            let participant = participant.as_ref().map(Name::as_str);
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
    if story.archived {
        members.insert("archived".to_owned(), json!(true));
    }
    Value::Object(members)
}
