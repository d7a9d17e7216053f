//! The records of a batch: whose are they, and may the caller send them?

use std::sync::PoisonError;

use axum::http::StatusCode;
use holdfast_domain::command::Command;
use holdfast_domain::ids::ParticipantId;
use holdfast_domain::participants::Name;
use holdfast_domain::registry::Whose;

use super::Caller;
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;

/// Refuses a batch with a record that is not the caller's; nothing of it is stored then.
pub(crate) async fn check_sources(edge: &Edge, caller: Caller, commands: &[Command]) -> Result<(), ApiError> {
    let Caller::Participant(name) = caller else { return Ok(()) };
    let own = number_of(edge, name).await?;
    match commands.iter().position(|command| source(command) != Some(own)) {
        None => Ok(()),
        Some(at) => {
            Err(forbidden(format!("record {at}: this key is for {name}, who is participant {}", own.0)))
        }
    }
}

/// In whose name a record is sent; `None`: the hub's or its operator's.
pub(super) const fn source(command: &Command) -> Option<ParticipantId> {
    match command {
        Command::Prepare(prepare) => Some(prepare.source),
        Command::Fulfil(fulfil) => Some(fulfil.source),
        Command::Abort(abort) => Some(abort.source),
        Command::Lookup(lookup) => Some(lookup.source),
        Command::Expire(_)
        | Command::Admin(_)
        | Command::SetEndpoint(_)
        | Command::Token(_)
        | Command::Shop(_) => None,
    }
}

/// The number behind a name. Asked of the hub once: a participant keeps its number for good.
async fn number_of(edge: &Edge, name: Name) -> Result<ParticipantId, ApiError> {
    let known = edge.gate.numbers.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
    if let Some(number) = known {
        return Ok(number);
    }
    let found =
        ask(edge, Whose::Named(name), move |known| known.participant_named(name).map(|row| row.id)).await?;
    let number = found.ok_or_else(|| forbidden(format!("there is no participant {name} yet")))?;
    edge.gate.numbers.lock().unwrap_or_else(PoisonError::into_inner).insert(name, number);
    Ok(number)
}

fn forbidden(detail: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, 3000, detail)
}
