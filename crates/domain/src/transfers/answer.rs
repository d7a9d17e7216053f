//! The answer to a command that moved nothing: a repeat, a refusal, or the question where a transfer stands. Its sender alone is
//! told.

use super::{Completion, Transfer};
use crate::codes::ErrorCode;
use crate::command::{Command, FulfilAction, Lookup};
use crate::effects::{Answer, Asked, Outcome};
use crate::ids::ParticipantId;
use crate::view::Transfers;

/// The stored answer for a party to the transfer; others learn nothing of it.
pub(crate) fn lookup(view: &impl Transfers, lookup: Lookup) -> Outcome {
    match view.transfer(lookup.id) {
        None => Outcome::refused(ErrorCode::TransferIdNotFound),
        Some(known) if known.has_party(lookup.source) => Outcome::of_transfer(known),
        Some(_) => Outcome::refused(ErrorCode::ClientError),
    }
}

/// What the sender is told; `view` is the state that the command met. `None` for a command about no transfer.
pub(crate) fn answer(
    view: &impl Transfers,
    cause: u32,
    command: &Command,
    outcome: &Outcome,
) -> Option<Answer> {
    let transfer = command.transfer()?;
    let (to, asked, completion) = asked(command)?;
    let known = view.transfer(transfer);
    // Without a state the sender has no business with the transfer, however much alike its command is.
    let repeat = outcome.state.is_some()
        && known.is_some_and(|known| match command {
            Command::Prepare(prepare) => known.hash == prepare.hash,
            _ => completion.is_some() && known.completion() == completion && known.payee == to,
        });
    let completion = known.and_then(Transfer::completion).map(|taken| taken.kind);
    Some(Answer { cause, to, transfer, asked, repeat, completion })
}

/// Who sent it, what it asks for, and with which completion.
fn asked(command: &Command) -> Option<(ParticipantId, Asked, Option<Completion>)> {
    Some(match command {
        Command::Prepare(prepare) => (prepare.source, Asked::Prepare, None),
        Command::Fulfil(fulfil) => {
            let asked = match fulfil.action {
                FulfilAction::Commit => Asked::Commit,
                FulfilAction::Reserve => Asked::Reserve,
            };
            (fulfil.source, asked, Some(fulfil.completion()))
        }
        Command::Abort(abort) => (abort.source, Asked::Abort, Some(abort.completion())),
        Command::Lookup(lookup) => (lookup.source, Asked::Lookup, None),
        Command::Expire(_)
        | Command::Admin(_)
        | Command::SetEndpoint(_)
        | Command::Token(_)
        | Command::Shop(_) => return None,
    })
}
