//! `GET /hub/transfers?state=&participant=&after=&limit=`: transfers, page by page.
//!
//! In which order they come is the engine's business; what it promises is that none is missed between two pages. One
//! request looks at a bounded number of rows; with a filter that few match, a page can be short or empty and still have a
//! `next`. Only `"next": null` is the end.

use axum::Json;
use axum::extract::State;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::TransferState;
use holdfast_domain::views::TransferFilter;
use holdfast_wire::{Rule, views as wire};

use super::filters::{self, Parameters, filters};
use super::row;
use crate::Edge;
use crate::calls::{number_of, read};
use crate::error::ApiError;
use crate::limits::PAGE_ROWS_MAX;

/// `state`: only transfers that stand in it. `participant`: only those that it pays or is paid by. `after`: the `next`
/// of the page before. `limit`: rows of the page.
pub(crate) async fn transfers(
    State(edge): State<Edge>,
    parameters: Parameters,
) -> Result<Json<wire::TransferPage>, ApiError> {
    let [state, participant, after, limit] = filters(parameters, ["state", "participant", "after", "limit"])?;
    let state = state.as_deref().map(read_state).transpose()?;
    let limit = filters::limit(limit.as_deref())?.clamp(1, PAGE_ROWS_MAX);
    let participant = match participant {
        None => None,
        Some(name) => Some(numbered(&edge, &name).await?),
    };
    let page = read(edge.engine.transfers(TransferFilter { state, participant }, after, limit)).await?;
    let transfers = page.transfers.iter().map(row).collect();
    Ok(Json(wire::TransferPage { transfers, next: page.next.into() }))
}

async fn numbered(edge: &Edge, name: &str) -> Result<ParticipantId, ApiError> {
    let nobody = || ApiError::no_participant(format!("participant: there is no {name}"));
    let known = Name::new(name).ok_or_else(nobody)?;
    number_of(edge, known).await?.ok_or_else(nobody)
}

fn read_state(text: &str) -> Result<TransferState, ApiError> {
    let read = wire::TransferState::read(text).map(|wire::TransferState(state)| state);
    read.map_err(|problem| ApiError::malformed(format!("state: {problem}")))
}
