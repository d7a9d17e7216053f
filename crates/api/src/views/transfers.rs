//! `GET /hub/transfers?state=&participant=&after=&limit=`: transfers, page by page. `GET /hub/transfers/{id}`: one of them.
//!
//! In which order they come is the engine's business; what it promises is that none is missed between two pages. One
//! request looks at a bounded number of rows; with a filter that few match, a page can be short or empty and still have a
//! `next`. Only `"next": null` is the end.

use axum::Json;
use axum::extract::{Path, State};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::{CompletionKind, TransferState};
use holdfast_domain::views::{NamedChange, NamedTransfer, TransferFilter, TransferStory};
use holdfast_wire::admin::ShownCurrency;
use holdfast_wire::{Instant, Nullable, Rule, views as wire};

use super::filters::{self, Parameters, filters};
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

/// One transfer with its history and what it did to positions.
pub(crate) async fn transfer(
    State(edge): State<Edge>,
    Path(id): Path<String>,
) -> Result<Json<wire::TransferStory>, ApiError> {
    let id: TransferId = id.parse()?;
    let story = read(edge.engine.story(id)).await?;
    story.map(|story| Json(shown(&story))).ok_or_else(|| ApiError::no_transfer(id))
}

/// What an abort's code is called: even where we have the same number, the payee means its own.
const PAYEES_CODE: &str = "the payee's own code";

fn shown(story: &TransferStory) -> wire::TransferStory {
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

/// A transfer as every list shows it.
pub(super) fn row(shown: &NamedTransfer) -> wire::TransferRow {
    let row = &shown.row;
    let name = |name: &Option<Name>| Nullable(name.map(|name| name.as_str().to_owned()));
    let known = wire::ExternalState::ALL.iter().find(|known| known.word() == row.state.external());
    wire::TransferRow {
        transfer_id: row.id.to_string(),
        state: wire::TransferState(row.state),
        transfer_state: known.copied().unwrap_or(wire::ExternalState::Received),
        payer_fsp: name(&shown.payer),
        payee_fsp: name(&shown.payee),
        amount: row.amount.to_string(),
        currency: ShownCurrency(row.currency),
        expiration: Instant(row.expiration),
    }
}
