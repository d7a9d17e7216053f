//! `GET /hub/transfers/{id}`: one transfer with its history and what it did to positions.

use axum::Json;
use axum::extract::{Path, State};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::CompletionKind;
use holdfast_domain::views::{NamedChange, TransferStory};
use holdfast_wire::{Instant, views as wire};

use super::row;
use crate::Edge;
use crate::calls::read;
use crate::error::ApiError;

pub(crate) async fn transfer(
    State(edge): State<Edge>,
    Path(id): Path<String>,
) -> Result<Json<wire::TransferStory>, ApiError> {
    let id: TransferId =
        id.parse().map_err(|error: holdfast_domain::ids::IdError| ApiError::malformed(error.to_string()))?;
    let story = read(edge.engine.story(id)).await?;
    story.map(|story| Json(show(&story))).ok_or_else(|| ApiError::no_transfer(id))
}

/// What an abort's code is called: even where we have the same number, the payee means its own.
const PAYEES_CODE: &str = "the payee's own code";

fn show(story: &TransferStory) -> wire::TransferStory {
    let transfer = &story.transfer.row;
    let history = story
        .history
        .iter()
        .map(|(state, at)| wire::TransferStep { state: wire::TransferState(*state), at: Instant(*at) });
    let changes =
        story.changes.iter().map(|NamedChange { participant, change, value }| wire::PositionChange {
            participant: participant.as_ref().map(|name| name.as_str().to_owned()).into(),
            change: change.to_string(),
            value: value.to_string(),
        });
    let error_information = transfer.code.map(|code| {
        let name = match transfer.completion() {
            Some(end) if end.kind == CompletionKind::Abort => PAYEES_CODE,
            _ => ErrorCode::from_number(code.number()).map_or(PAYEES_CODE, ErrorCode::name),
        };
        let error_description = match transfer.reason {
            Some(reason) => format!("{name} - {}", reason.text()),
            None => name.to_owned(),
        };
        wire::TransferError { error_code: code.number().to_string(), error_description }
    });
    wire::TransferStory {
        row: row(&story.transfer),
        history: history.collect(),
        position_changes: changes.collect(),
        error_information,
        archived: story.archived.then_some(true),
    }
}
