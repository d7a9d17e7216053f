//! `/hub/dead-letters`: callbacks that were given up, and another try for them. Those of a hub lie beside its data; those of a
//! database are rows, and any node shows them.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use holdfast_delivery::{DeadLetter, DeadLetters, RETRIED_AT_ONCE_MAX, Retried, Retry};
use holdfast_domain::ids::{HUB, ParticipantId};
use holdfast_domain::participants::{HUB_NAME, Name};
use holdfast_domain::registry::{Registry, Whose};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::calls::{ask, read};
use crate::error::ApiError;
use crate::limits::PAGE_ROWS_MAX;
use crate::{Edge, times};
use holdfast_engine::Profile;

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
    let page = if edge.engine.profile() == Profile::Database {
        let page = read(edge.engine.dead_letters(to, filter.after, limit)).await?;
        page.into_iter().map(DeadLetter::from).collect()
    } else {
        let letters = letters(&edge)?;
        named(&edge, blocking(move || letters.page(to, filter.after, limit)).await?).await?
    };
    let next = page.last().filter(|_| page.len() == limit).map(|letter| letter.number.to_string());
    let letters: Vec<Value> = page.iter().map(show).collect();
    Ok(Json(json!({"deadLetters": letters, "next": next})))
}

/// Tries one again: 202, also if it is being tried already.
pub(crate) async fn retry(
    State(edge): State<Edge>,
    number: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(number) = number.map_err(|error| ApiError::malformed(error.body_text()))?;
    let unknown = || ApiError::new(StatusCode::NOT_FOUND, 3200, format!("there is no dead letter {number}"));
    if edge.engine.profile() == Profile::Database {
        let is_there = read(edge.engine.retry_dead_letter(number)).await?;
        return if is_there { Ok(StatusCode::ACCEPTED) } else { Err(unknown()) };
    }
    let letters = letters(&edge)?;
    match blocking(move || letters.retry(number)).await? {
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
    if edge.engine.profile() == Profile::Database {
        let retried = read(edge.engine.retry_dead_letters(to, RETRIED_AT_ONCE_MAX)).await?;
        // With as many as one call may set in motion there may be more, and whoever asks again learns it.
        let more = retried >= RETRIED_AT_ONCE_MAX as u64;
        return Ok((StatusCode::ACCEPTED, Json(json!({"retried": retried, "more": more}))));
    }
    let letters = letters(&edge)?;
    let Retried { retried, without_room, more } = blocking(move || letters.retry_all(to)).await?;
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

fn show(letter: &DeadLetter) -> Value {
    json!({
        "number": letter.number,
        "participant": letter.participant,
        "transferId": letter.transfer_id,
        "what": letter.what,
        "url": letter.url,
        "lastError": letter.last_error,
        "attempts": letter.attempts,
        "at": times::format(letter.at),
        "retrying": letter.retrying,
    })
}

fn letters(edge: &Edge) -> Result<DeadLetters, ApiError> {
    let detail = "this server delivers no callbacks";
    edge.dead_letters.clone().ok_or_else(|| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, 2003, detail))
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

/// The same with the names of their participants.
async fn named(edge: &Edge, mut letters: Vec<DeadLetter>) -> Result<Vec<DeadLetter>, ApiError> {
    ask(edge, Whose::Everybody, move |all| {
        for letter in &mut letters {
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
