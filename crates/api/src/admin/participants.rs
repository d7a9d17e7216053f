//! `/participants` and `/participants/{name}`: who takes part.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::participants::{CURRENCIES_MAX, Name};
use holdfast_domain::registry::Whose;
use holdfast_wire::admin::{Activity, NewParticipant, Participant};

use super::body::Body;
use super::entity::{addressed, copied};
use super::extract::{Origin, Place};
use super::{Whom, about, change, not_of_the_hub, refusal};
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;

/// `GET /participants`: everybody, the Hub first.
pub(crate) async fn list(
    State(edge): State<Edge>,
    origin: Origin,
) -> Result<Json<Vec<Participant>>, ApiError> {
    let all: Vec<Participant> = ask(&edge, Whose::Everybody, |store| {
        let everybody = store.participants().into_iter().map(Whom::Participant);
        std::iter::once(Whom::Hub).chain(everybody).map(|whom| copied(store, whom, None)).collect()
    })
    .await?;
    Ok(Json(all.into_iter().map(|entity| addressed(entity, &origin)).collect()))
}

async fn entity(edge: &Edge, name: &str, origin: &Origin) -> Result<Json<Participant>, ApiError> {
    let entity = about(edge, name, |store, whom| copied(store, whom, None)).await?;
    Ok(Json(addressed(entity, origin)))
}

/// `GET /participants/{name}`.
pub(crate) async fn show(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    origin: Origin,
) -> Result<Json<Participant>, ApiError> {
    entity(&edge, &name, &origin).await
}

/// `POST /participants`: a participant, or a further currency for one.
pub(crate) async fn create(
    State(edge): State<Edge>,
    origin: Origin,
    Body(body): Body<NewParticipant>,
) -> Result<(StatusCode, Json<Participant>), ApiError> {
    let (name, currency) = (body.name.0, body.currency.0);
    if is_a_path(name) {
        let detail = format!("name: '{name}' is reserved; choose another");
        return Err(refusal(ErrorCode::ClientError.number(), detail));
    }
    let made = change(&edge, Command::Admin(Admin::CreateParticipant { name, currency }), |_| {
        format!("{name} has {currency} already, or {CURRENCIES_MAX} other currencies")
    });
    made.await?;
    Ok((StatusCode::CREATED, entity(&edge, name.as_str(), &origin).await?))
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
) -> Result<Json<Participant>, ApiError> {
    let participant = about(&edge, &name, |_, whom| whom.participant().map(|row| row.id));
    match participant.await? {
        Some(participant) => {
            let command = Admin::SetParticipantActive { participant, active };
            change(&edge, Command::Admin(command), |_| format!("{name} cannot be changed")).await?;
        }
        None if active => {}
        None => return Err(not_of_the_hub("the Hub is always active")),
    }
    entity(&edge, &name, &origin).await
}
