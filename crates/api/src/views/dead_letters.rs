//! `/hub/dead-letters`: callbacks that were given up, and another try for them. Those of a hub lie beside its data; those of a
//! database are rows, and any node shows them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use holdfast_domain::ids::{HUB, ParticipantId};
use holdfast_domain::participants::{HUB_NAME, Name};
use holdfast_domain::registry::{Registry, Whose};
use holdfast_engine::{Callbacks, DeadLetter, Retried, Retry};
use holdfast_wire::{Instant, views as wire};
use serde::Deserialize;

use crate::Edge;
use crate::calls::{ask, number_of, read};
use crate::error::ApiError;
use crate::limits::PAGE_ROWS_MAX;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Only those for this participant.
    participant: Option<String>,
    /// The `next` of the page before.
    after: Option<u64>,
    /// Rows of the page.
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnlyOf {
    /// Only those for this participant.
    participant: Option<String>,
}

/// A page of dead letters by number.
pub(crate) async fn list(
    State(edge): State<Edge>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<wire::DeadLetterPage>, ApiError> {
    let Query(filter) = filter.map_err(|error| ApiError::malformed(error.body_text()))?;
    let to = participant(&edge, filter.participant).await?;
    let limit = filter.limit.unwrap_or(PAGE_ROWS_MAX).clamp(1, PAGE_ROWS_MAX);
    let page = read(callbacks(&edge)?.dead_letters(to, filter.after, limit)).await?;
    let page = named(&edge, page).await?;
    let next = page.last().filter(|_| page.len() == limit).map(|letter| letter.number.to_string());
    Ok(Json(wire::DeadLetterPage { dead_letters: page.into_iter().map(show).collect(), next: next.into() }))
}

/// Tries one again: 202, also if it is being tried already.
pub(crate) async fn retry(
    State(edge): State<Edge>,
    number: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(number) = number.map_err(|error| ApiError::malformed(error.body_text()))?;
    let unknown = || ApiError::new(StatusCode::NOT_FOUND, 3200, format!("there is no dead letter {number}"));
    match read(callbacks(&edge)?.retry(number)).await? {
        Retry::Taken | Retry::Already => Ok(StatusCode::ACCEPTED),
        Retry::Unknown => Err(unknown()),
        Retry::NoRoom => Err(no_room()),
    }
}

/// Tries all of a participant, or all there are, again: 202 with how many were set in motion and whether some are left;
/// 503 with how many if not all found room.
pub(crate) async fn retry_all(
    State(edge): State<Edge>,
    whose: Result<Query<OnlyOf>, QueryRejection>,
) -> Result<(StatusCode, Json<wire::DeadLettersRetried>), ApiError> {
    let Query(whose) = whose.map_err(|error| ApiError::malformed(error.body_text()))?;
    let to = participant(&edge, whose.participant).await?;
    let Retried { retried, without_room, more } = read(callbacks(&edge)?.retry_all(to)).await?;
    if without_room > 0 {
        let extensions = vec![("retried".to_owned(), retried.to_string())];
        return Err(ApiError { extensions, ..no_room() });
    }
    Ok((StatusCode::ACCEPTED, Json(wire::DeadLettersRetried { retried, more })))
}

fn no_room() -> ApiError {
    let detail = "too many callbacks wait for this participant; try again when they are delivered";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, detail)
}

fn show(letter: DeadLetter) -> wire::DeadLetter {
    wire::DeadLetter {
        number: letter.number,
        participant: letter.participant.into(),
        transfer_id: letter.transfer_id.into(),
        what: letter.what,
        url: letter.url.into(),
        last_error: letter.last_error,
        attempts: letter.attempts,
        at: Instant(letter.at),
        retrying: letter.retrying,
    }
}

fn callbacks(edge: &Edge) -> Result<&Arc<dyn Callbacks>, ApiError> {
    let detail = "this server delivers no callbacks";
    edge.callbacks.as_ref().ok_or_else(|| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, detail))
}

/// The participant of that name; 400/3200 if there is none.
async fn participant(edge: &Edge, name: Option<String>) -> Result<Option<ParticipantId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || ApiError::no_participant(format!("there is no participant {name}"));
    let known = Name::new(&name).ok_or_else(unknown)?;
    if known.is_hub() {
        return Ok(Some(HUB));
    }
    number_of(edge, known).await?.map(Some).ok_or_else(unknown)
}

/// The same with the names of their participants, also where who keeps them knows none.
async fn named(edge: &Edge, mut letters: Vec<DeadLetter>) -> Result<Vec<DeadLetter>, ApiError> {
    if letters.iter().all(|letter| letter.participant.is_some()) {
        return Ok(letters);
    }
    ask(edge, Whose::Everybody, move |all| {
        for letter in letters.iter_mut().filter(|letter| letter.participant.is_none()) {
            letter.participant = name_of(all, letter.to);
        }
        letters
    })
    .await
}

fn name_of(all: &dyn Registry, participant: ParticipantId) -> Option<String> {
    if participant == HUB {
        return Some(HUB_NAME.to_owned());
    }
    all.participant(participant).map(|row| row.name.as_str().to_owned())
}
