//! The records of a batch: whose are they, and may the caller send them?

use holdfast_domain::command::Command;
use holdfast_domain::ids::ParticipantId;

use super::Caller;
use crate::Edge;
use crate::error::ApiError;
use crate::fspiop::participant;

/// Refuses a batch with a record that is not the caller's; nothing of it is stored then.
pub(crate) async fn check_sources(edge: &Edge, caller: Caller, commands: &[Command]) -> Result<(), ApiError> {
    let Caller::Participant(name) = caller else { return Ok(()) };
    let own = participant(edge, name.as_str()).await?;
    let own = own.ok_or_else(|| ApiError::forbidden(format!("there is no participant {name} yet")))?;
    match commands.iter().position(|command| source(command) != Some(own)) {
        None => Ok(()),
        Some(at) => Err(ApiError::forbidden(format!(
            "record {at}: this key is for {name}, who is participant {}",
            own.0
        ))),
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
