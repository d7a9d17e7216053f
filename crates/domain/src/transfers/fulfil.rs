//! Fulfil, before the position step: is it the payee, the right preimage, the right state, and in time?

use super::funded::{End, give_back, pay_out};
use super::{Completion, Reason, Transfer, TransferState};
use crate::codes::ErrorCode;
use crate::command::Fulfil;
use crate::effects::{CompletionRow, Outcome, StateChange, Step};
use crate::ids::Millis;
use crate::positions::{Action, Message};
use crate::view::{Spenders, Tokens, Transfers};

/// Either the position step goes on with the message, or the outcome is known already.
pub(crate) fn fulfil(
    view: &(impl Transfers + Tokens + Spenders),
    now: Millis,
    fulfil: &Fulfil,
    effects: &mut Step,
) -> Result<Message, Outcome> {
    let known = view.transfer(fulfil.id).ok_or_else(|| Outcome::refused(ErrorCode::TransferIdNotFound))?;
    let (cause, completion) = (effects.cause(), fulfil.completion());
    may_complete(known, fulfil.source, completion)?;
    if known.condition() != Some(&fulfil.digest) {
        let wrong = StateChange::to(known.no, TransferState::ReceivedError);
        effects.state_changes.push(wrong.with(ErrorCode::ValidationError).because(Reason::WrongFulfilment));
        effects.completions.push(CompletionRow { cause, transfer: known.no, completion });
        let error = Some((ErrorCode::ValidationError.into(), Some(Reason::WrongFulfilment)));
        if known.is_funded() {
            return Err(give_back(view, known, End::GivenUp(completion.kind, error), effects));
        }
        let message = known.message(Action::Abort, TransferState::ReceivedError, cause);
        return Ok(Message { completion: Some(completion.kind), error, ..message });
    }
    in_time(known, now)?;
    effects.state_changes.push(StateChange::to(known.no, TransferState::ReceivedFulfil));
    effects.completions.push(CompletionRow { cause, transfer: known.no, completion });
    if known.is_funded() {
        return Err(pay_out(view, known, fulfil.action, effects));
    }
    let message = known.message(fulfil.action.step(), TransferState::ReceivedFulfil, cause);
    Ok(Message { completion: Some(completion.kind), ..message })
}

/// What fulfil and abort must both pass: right party, not a repeat, RESERVED.
pub(super) fn may_complete(
    known: &Transfer,
    source: crate::ids::ParticipantId,
    completion: Completion,
) -> Result<(), Outcome> {
    let refused =
        |code: ErrorCode, reason| Outcome { code: Some(code.into()), reason, ..Outcome::of_transfer(known) };
    if source != known.payee {
        return Err(refused(ErrorCode::ValidationError, Some(Reason::WrongSource)));
    }
    match known.completion() {
        Some(first) if first == completion => Err(Outcome::of_transfer(known)),
        Some(_) => Err(refused(ErrorCode::ModifiedRequest, None)),
        None if known.state == TransferState::Reserved => Ok(()),
        None => Err(refused(ErrorCode::ValidationError, Some(Reason::NotReserved))),
    }
}

/// From its expiration on a transfer can no longer be settled, also before the scan has come by.
pub(super) fn in_time(known: &Transfer, now: Millis) -> Result<(), Outcome> {
    if known.expiration > now {
        return Ok(());
    }
    Err(Outcome {
        code: Some(ErrorCode::TransferExpired.into()),
        reason: None,
        ..Outcome::of_transfer(known)
    })
}

impl Transfer {
    /// The message that goes on to the position step: a settlement to the payee's account, all else to the payer's.
    pub(crate) fn message(&self, action: Action, state: TransferState, cause: u32) -> Message {
        let account = match action {
            Action::Commit | Action::Reserve => self.payee_account,
            Action::Prepare | Action::Abort | Action::TimeoutReserved => self.payer_account,
        };
        Message {
            account: account.expect("a transfer on positions has both accounts"),
            transfer: self.no,
            action,
            amount: self.amount,
            state,
            cause,
            completion: None,
            error: None,
        }
    }
}
