//! Abort: the payee refuses, under the same tests as a fulfil.

use super::fulfil::{in_time, may_complete};
use super::funded::{End, give_back};
use super::{Code, TransferState};
use crate::codes::ErrorCode;
use crate::command::Abort;
use crate::effects::{CompletionRow, Outcome, StateChange, Step};
use crate::ids::Millis;
use crate::positions::{Action, Message};
use crate::view::{Spenders, Transfers};

/// Either the position step goes on with the message, or the outcome is known already.
pub(crate) fn abort(
    view: &(impl Transfers + Spenders),
    now: Millis,
    abort: &Abort,
    effects: &mut Step,
) -> Result<Message, Outcome> {
    let known = view.transfer(abort.id).ok_or_else(|| Outcome::refused(ErrorCode::TransferIdNotFound))?;
    let (cause, completion) = (effects.cause(), abort.completion());
    may_complete(known, abort.source, completion)?;
    in_time(known, now)?;
    let received = StateChange::to(known.no, TransferState::ReceivedError);
    effects.state_changes.push(StateChange { code: Code::of_payee(abort.code), ..received });
    effects.completions.push(CompletionRow { cause, transfer: known.no, completion });
    let error = Code::of_payee(abort.code).map(|code| (code, None));
    if known.is_funded() {
        return Err(give_back(view, known, End::GivenUp(completion.kind, error), effects));
    }
    let message = known.message(Action::Abort, TransferState::ReceivedError, cause);
    Ok(Message { completion: Some(completion.kind), error, ..message })
}
