//! `/participants` and `/participants/{name}`: who takes part.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::{CURRENCIES_MAX, Name};
use holdfast_domain::registry::Whose;
use holdfast_wire::admin::{Activity, NewParticipant, Participant};

use super::body::Body;
use super::entity::Portrait;
use super::extract::{Origin, Place};
use super::{Whom, about, change, not_of_the_hub, refusal};
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;

/// `GET /participants`: everybody, the Hub first.
pub(crate) async fn list(State(edge): State<Edge>, origin: Origin) -> Result<Response, ApiError> {
    let portraits: Vec<Portrait> = ask(&edge, Whose::Everybody, |store| {
        let everybody = store.participants().into_iter().map(Whom::Participant);
        std::iter::once(Whom::Hub).chain(everybody).map(|whom| Portrait::take(store, whom, None)).collect()
    })
    .await?;
    let entities: Vec<Participant> = portraits.into_iter().map(|portrait| portrait.entity(&origin)).collect();
    Ok(Json(entities).into_response())
}

async fn entity(edge: &Edge, name: &str, origin: &Origin) -> Result<Participant, ApiError> {
    let portrait = about(edge, name, |store, whom| Portrait::take(store, whom, None)).await?;
    Ok(portrait.entity(origin))
}

/// `GET /participants/{name}`.
pub(crate) async fn show(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    origin: Origin,
) -> Result<Response, ApiError> {
    let shown = entity(&edge, &name, &origin).await?;
    Ok(Json(shown).into_response())
}

/// `POST /participants`: a participant, or a further currency for one.
pub(crate) async fn create(
    State(edge): State<Edge>,
    origin: Origin,
    Body(body): Body<NewParticipant>,
) -> Result<Response, ApiError> {
    let (name, currency) = (body.name.0, body.currency.0);
    if is_a_path(name) {
        let detail = format!("name: '{name}' is reserved; choose another");
        return Err(refusal(ErrorCode::ClientError.number(), detail));
    }
    let made = change(&edge, Command::Admin(Admin::CreateParticipant { name, currency }), |_| {
        format!("{name} has {currency} already, or {CURRENCIES_MAX} other currencies")
    });
    made.await?;
    let shown = entity(&edge, name.as_str(), &origin).await?;
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// The Hub has its own place, and `/participants/limits` is a list: a participant of that name could not be reached.
fn is_a_path(name: Name) -> bool {
    name.is_hub() || name.as_str().eq_ignore_ascii_case("limits")
}

/// `PUT /participants/{name}`: active or not. Tested at the transfers step only: what is reserved may still end.
pub(crate) async fn set_active(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    origin: Origin,
    Body(Activity { is_active: active }): Body<Activity>,
) -> Result<Response, ApiError> {
    let participant: Option<ParticipantId> = about(&edge, &name, |_, whom| match whom {
        Whom::Hub => None,
        Whom::Participant(row) => Some(row.id),
    })
    .await?;
    match participant {
        Some(participant) => {
            let command = Admin::SetParticipantActive { participant, active };
            change(&edge, Command::Admin(command), |_| format!("{name} cannot be changed")).await?;
        }
        None if active => {}
        None => return Err(not_of_the_hub("the Hub is always active")),
    }
    let shown = entity(&edge, &name, &origin).await?;
    Ok(Json(shown).into_response())
}
