//! `/hub/dead-letters`: callbacks that were given up, and another try for them. A hub's edge keeps them itself; those of a
//! cluster are rows of its database, and any node shows them.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use holdfast_domain::ids::{HUB, ParticipantId};
use holdfast_domain::participants::{HUB_NAME, Name};
use holdfast_domain::registry::Whose;
use holdfast_hub::CallbackRow;
use holdfast_postgres::DeadCallback;
use serde::Deserialize;
use serde_json::{Value, json};

use super::CallbackDesk;
use super::desk::name_of;
use super::lane::Job;
use super::lanes::Retry;
use super::letter::Letter;
use super::options::LANE_ROWS_MAX;
use crate::calls::{ask, read};
use crate::engine::Profile;
use crate::error::ApiError;
use crate::limits::PAGE_ROWS_MAX;
use crate::{Edge, times};

/// Letters that one request may set in motion; the answer says whether there are more. An empty lane has room for them.
const RETRIED_AT_ONCE_MAX: usize = LANE_ROWS_MAX / 2;

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
) -> Result<Json<Value>, ApiError> {
    let Query(filter) = filter.map_err(|error| ApiError::malformed(error.body_text()))?;
    let to = participant(&edge, filter.participant).await?;
    let limit = filter.limit.unwrap_or(PAGE_ROWS_MAX).clamp(1, PAGE_ROWS_MAX);
    if edge.engine.profile() == Profile::Cluster {
        let page = read(edge.engine.dead_letters(to, filter.after, limit)).await?;
        let next = page.last().filter(|_| page.len() == limit).map(|letter| letter.id.to_string());
        let letters: Vec<Value> = page.into_iter().map(show_row).collect();
        return Ok(Json(json!({"deadLetters": letters, "next": next})));
    }
    let desk = desk(&edge)?;
    let page = blocking(move || desk.0.letters.page(to, filter.after, limit)).await?;
    let names = names(&edge, page.iter().map(|(letter, _)| ParticipantId(letter.to)).collect()).await?;
    let next = page.last().filter(|_| page.len() == limit).map(|(letter, _)| letter.number.to_string());
    let letters = page.iter().zip(names).map(|((letter, retrying), name)| show(letter, name, *retrying));
    let letters: Vec<Value> = letters.collect();
    Ok(Json(json!({"deadLetters": letters, "next": next})))
}

/// Tries one again: 202, also if it is being tried already.
pub(crate) async fn retry(
    State(edge): State<Edge>,
    number: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(number) = number.map_err(|error| ApiError::malformed(error.body_text()))?;
    let unknown = || ApiError::new(StatusCode::NOT_FOUND, 3200, format!("there is no dead letter {number}"));
    if edge.engine.profile() == Profile::Cluster {
        let is_there = read(edge.engine.retry_dead_letter(number)).await?;
        return if is_there { Ok(StatusCode::ACCEPTED) } else { Err(unknown()) };
    }
    let desk = desk(&edge)?;
    match blocking(move || desk.0.retry(number)).await? {
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
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Query(whose) = whose.map_err(|error| ApiError::malformed(error.body_text()))?;
    let to = participant(&edge, whose.participant).await?;
    if edge.engine.profile() == Profile::Cluster {
        let retried = read(edge.engine.retry_dead_letters(to, RETRIED_AT_ONCE_MAX)).await?;
        // With as many as one call may set in motion there may be more, and whoever asks again learns it.
        let more = retried >= RETRIED_AT_ONCE_MAX as u64;
        return Ok((StatusCode::ACCEPTED, Json(json!({"retried": retried, "more": more}))));
    }
    let desk = desk(&edge)?;
    let (retried, without_room, more) = blocking(move || {
        let wanted = desk.0.letters.at_rest(to, RETRIED_AT_ONCE_MAX + 1);
        let more = wanted.len() > RETRIED_AT_ONCE_MAX;
        let (mut retried, mut without_room) = (0_u64, 0_u64);
        for number in wanted.into_iter().take(RETRIED_AT_ONCE_MAX) {
            match desk.0.retry(number)? {
                Retry::Taken => retried += 1,
                Retry::Already | Retry::Unknown => {}
                Retry::NoRoom => without_room += 1,
            }
        }
        Ok((retried, without_room, more))
    })
    .await?;
    if without_room > 0 {
        let extensions = vec![("retried".to_owned(), retried.to_string())];
        return Err(ApiError { extensions, ..no_room() });
    }
    Ok((StatusCode::ACCEPTED, Json(json!({"retried": retried, "more": more}))))
}

fn no_room() -> ApiError {
    let detail = "too many callbacks wait for this participant; try again when they are delivered";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, detail)
}

/// The same as of a hub.
fn show_row(dead: DeadCallback) -> Value {
    let DeadCallback { id, to, name, transfer, message, url, last_error, attempts, at, retrying } = dead;
    let row = CallbackRow { number: id, offset: 0, time: at, to, transfer, message };
    let job = Job { row, attempts, from_dead_letters: true };
    let name = if to == HUB { Some(HUB_NAME.to_owned()) } else { name };
    show(&Letter::new(&job, at, last_error, url), name, retrying)
}

fn show(letter: &Letter, participant: Option<String>, retrying: bool) -> Value {
    json!({
        "number": letter.number,
        "participant": participant,
        "transferId": letter.has_transfer().then_some(&letter.transfer_id),
        "what": letter.what(),
        "url": letter.url,
        "lastError": letter.last_error,
        "attempts": letter.attempts,
        "at": times::format(letter.at),
        "retrying": retrying,
    })
}

fn desk(edge: &Edge) -> Result<CallbackDesk, ApiError> {
    let detail = "this server delivers no callbacks";
    edge.callbacks.clone().ok_or_else(|| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, detail))
}

/// The participant of that name; 400/3200 if there is none.
async fn participant(edge: &Edge, name: Option<String>) -> Result<Option<ParticipantId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || ApiError::new(StatusCode::BAD_REQUEST, 3200, format!("there is no participant {name}"));
    let known = Name::new(&name).ok_or_else(unknown)?;
    if known.is_hub() {
        return Ok(Some(HUB));
    }
    let found =
        ask(edge, Whose::Named(known), move |all| all.participant_named(known).map(|row| row.id)).await?;
    found.map(Some).ok_or_else(unknown)
}

async fn names(edge: &Edge, participants: Vec<ParticipantId>) -> Result<Vec<Option<String>>, ApiError> {
    ask(edge, Whose::Everybody, move |all| participants.into_iter().map(|id| name_of(all, id)).collect())
        .await
}

/// Work on files, off the HTTP threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    done.map_err(|error| {
        tracing::error!(%error, "the dead letters cannot be read");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, 2001, "the dead letters cannot be read")
    })
}
