//! Prepare, before the position step: is it new, is it the same again, and does it follow the rules?

use super::{Proof, Reason, Transfer, TransferState, funded};
use crate::codes::ErrorCode;
use crate::command::{Funding, Prepare};
use crate::effects::{Notification, NotificationKind, Outcome, Party, StateChange, Step};
use crate::ids::{AccountId, Millis, TransferNo};
use crate::money::{AMOUNT_LIMIT, Amount, OptionalBalance};
use crate::positions::{Action, Message};
use crate::transfers::Code;
use crate::view::{Accounts, Participants, Payments};

/// Either the position step goes on with the message, or the outcome is known already.
pub(crate) fn prepare(
    view: &impl Payments,
    now: Millis,
    (no, offset): (TransferNo, u64),
    prepare: &Prepare,
    effects: &mut Step,
) -> Result<Message, Outcome> {
    if prepare.source != prepare.payer {
        return Err(Outcome::refused(ErrorCode::ValidationError).because(Reason::WrongSource));
    }
    if let Some(known) = view.transfer(prepare.id) {
        return Err(repeat(view, known, prepare));
    }
    let mut row = Transfer {
        no,
        id: prepare.id,
        payer: prepare.payer,
        payee: prepare.payee,
        payer_account: None,
        payee_account: None,
        currency: prepare.currency,
        amount: prepare.amount,
        expiration: prepare.expiration,
        proof: Proof::Condition(prepare.condition),
        hash: prepare.hash,
        state: TransferState::ReceivedPrepare,
        code: None,
        reason: None,
        offset,
        prepared_at: now,
        changed_at: now,
        reserved_value: OptionalBalance::NONE,
        final_value: OptionalBalance::NONE,
    };
    match validate(view, now, prepare) {
        Ok(Paid::ByTokens(funding, quantity)) => {
            effects.transfers.push(row);
            effects.state_changes.push(StateChange::to(no, TransferState::ReceivedPrepare));
            Err(funded::reserve(view, now, (no, offset), prepare, (funding, quantity), effects))
        }
        Ok(Paid::ByPosition(payer_account, payee_account)) => {
            row.payer_account = Some(payer_account);
            row.payee_account = Some(payee_account);
            let message = row.message(Action::Prepare, TransferState::ReceivedPrepare, effects.cause());
            effects.transfers.push(row);
            effects.state_changes.push(StateChange::to(no, TransferState::ReceivedPrepare));
            Ok(message)
        }
        Err(reason) => {
            row.state = TransferState::Invalid;
            row.proof = Proof::Nothing;
            row.code = Some(Code::from(ErrorCode::ValidationError));
            row.reason = Some(reason);
            let outcome = Outcome::of_transfer(&row);
            effects.transfers.push(row);
            let invalid = StateChange::to(no, TransferState::Invalid);
            effects.state_changes.push(invalid.with(ErrorCode::ValidationError).because(reason));
            effects.notifications.push(Notification {
                cause: effects.cause(),
                transfer: no,
                to: Party::Payer,
                kind: NotificationKind::Refused,
                action: Some(Action::Prepare),
                completion: None,
                error: outcome.error(),
                silent: false,
            });
            Err(outcome)
        }
    }
}

fn repeat(view: &impl Accounts, known: &Transfer, prepare: &Prepare) -> Outcome {
    let outcome = Outcome::of_prepared(view, known, known.payer_account);
    if known.hash == prepare.hash {
        outcome
    } else {
        Outcome { code: Some(ErrorCode::ModifiedRequest.into()), reason: None, ..outcome }
    }
}

/// What a prepare reserves: the payer's position against the payee's, or tokens of that quantity.
enum Paid<'a> {
    ByPosition(AccountId, AccountId),
    ByTokens(&'a Funding, u64),
}

/// The rules in the order of the peer system; the first one broken is the reason.
fn validate<'a>(
    view: &(impl Participants + Accounts),
    now: Millis,
    prepare: &'a Prepare,
) -> Result<Paid<'a>, Reason> {
    if prepare.amount >= AMOUNT_LIMIT {
        return Err(Reason::AmountTooLarge);
    }
    if prepare.amount <= Amount::ZERO {
        return Err(Reason::AmountNotPositive);
    }
    let payer = view.participant(prepare.payer).ok_or(Reason::PayerUnknown)?;
    if !payer.active {
        return Err(Reason::PayerInactive);
    }
    let payee = view.participant(prepare.payee).ok_or(Reason::PayeeUnknown)?;
    if !payee.active {
        return Err(Reason::PayeeInactive);
    }
    if prepare.expiration <= now {
        return Err(Reason::ExpirationPast);
    }
    if prepare.payer == prepare.payee {
        return Err(Reason::PayerIsPayee);
    }
    if let Some(funding) = &prepare.funding {
        let quantity = prepare.amount.whole_units().ok_or(Reason::AmountNotWhole)?;
        return Ok(Paid::ByTokens(funding, quantity));
    }
    let payer_account = payer.position_account(prepare.currency).ok_or(Reason::PayerAccountMissing)?;
    if !view.account(payer_account).is_some_and(|account| account.active) {
        return Err(Reason::PayerAccountInactive);
    }
    // Once it is fulfilled the payee's position step cannot be refused, so the account must be there by now.
    let payee_account = payee.position_account(prepare.currency).ok_or(Reason::PayeeAccountMissing)?;
    Ok(Paid::ByPosition(payer_account, payee_account))
}
