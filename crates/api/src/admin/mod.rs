//! The operator's paths, as central-ledger has them: participants, accounts, limits, funds, endpoints.
//!
//! Every change is a command in the log and is answered when it is durable; every read is a question to the
//! registry. Here only shapes are tested and refusals put into words: what is allowed is decided in the domain.
//!
//! | room | paths |
//! | --- | --- |
//! | `participants` | `/participants`, `/participants/{name}` |
//! | `limits` | `…/initialPositionAndLimits`, `…/limits`, `/participants/limits` |
//! | `accounts` | `…/accounts`, `…/positions`, the flag of `…/accounts/{id}` |
//! | `funds` | `…/accounts/{id}` in and out, `…/accounts/{id}/transfers/{transferId}` |
//! | `endpoints` | `…/endpoints` |
//! | `entity` | a participant as it is shown |
//! | `hub_accounts` | the accounts of the participant `Hub`, which has no rows |
//! | `body` | bodies: read within bounds, every failure names its member |
//! | `extract` | path, query and origin of a request |

pub(crate) mod accounts;
pub(crate) mod body;
pub(crate) mod endpoints;
mod entity;
mod extract;
pub(crate) mod funds;
mod hub_accounts;
pub(crate) mod limits;
pub(crate) mod participants;

use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::Command;
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{HUB, ParticipantId};
use holdfast_domain::participants::{HUB_NAME, Name, Participant};
use holdfast_domain::registry::{Registry, Whose};

pub(crate) use holdfast_wire::shortened;

use crate::Edge;
use crate::calls::{ask, submit};
use crate::error::ApiError;

/// Whom a path names.
#[derive(Clone, Copy)]
enum Whom<'a> {
    /// The hub itself: always there, without rows of its own.
    Hub,
    /// One that was created.
    Participant(&'a Participant),
}

impl<'a> Whom<'a> {
    /// The participant, unless it is the Hub.
    const fn participant(self) -> Option<&'a Participant> {
        match self {
            Whom::Hub => None,
            Whom::Participant(row) => Some(row),
        }
    }

    fn name(self) -> &'a str {
        self.participant().map_or(HUB_NAME, |row| row.name.as_str())
    }

    fn id(self) -> ParticipantId {
        self.participant().map_or(HUB, |row| row.id)
    }
}

/// Looks a name up, without regard to case.
fn find(registry: &dyn Registry, name: Name) -> Option<Whom<'_>> {
    if name.is_hub() { Some(Whom::Hub) } else { registry.participant_named(name).map(Whom::Participant) }
}

/// Asks about the participant of that name; 400/3200 if there is none.
async fn about<R: Send + 'static>(
    edge: &Edge,
    name: &str,
    question: impl FnOnce(&dyn Registry, Whom<'_>) -> R + Send + 'static,
) -> Result<R, ApiError> {
    let nobody = || {
        let detail = format!("there is no participant {}", shortened(name));
        refusal(ErrorCode::IdNotFound.number(), detail)
    };
    let known = Name::new(name).ok_or_else(nobody)?;
    // What the Hub's accounts hold follows from everybody's.
    let whose = if known.is_hub() { Whose::Everybody } else { Whose::Named(known) };
    let answer = ask(edge, whose, move |registry| find(registry, known).map(|whom| question(registry, whom)));
    answer.await?.ok_or_else(nobody)
}

/// Has a change decided. A refusal keeps the domain's code; `reason` puts it into words.
async fn change(
    edge: &Edge,
    command: Command,
    reason: impl FnOnce(u16) -> String,
) -> Result<Outcome, ApiError> {
    let outcome = submit(edge, command).await?;
    match outcome.code {
        None => Ok(outcome),
        Some(code) => Err(refusal(code.number(), reason(code.number()))),
    }
}

/// A refusal of a request that was understood: 500 for 2001, as central-ledger has it, else 400.
fn refusal(code: u16, detail: impl Into<String>) -> ApiError {
    let own = code == ErrorCode::InternalServerError.number();
    ApiError::new(if own { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST }, code, detail)
}

/// 400/3100: what the Hub, which has no rows of its own, never has.
fn not_of_the_hub(detail: impl Into<String>) -> ApiError {
    refusal(ErrorCode::ValidationError.number(), detail)
}

/// 500/2001: the request makes sense, and not here or not now.
fn not_possible(detail: impl Into<String>) -> ApiError {
    refusal(ErrorCode::InternalServerError.number(), detail)
}
