//! Transfers that tokens pay for: the tokens are locked without a lease from RESERVED to the end, and no position moves.
//!
//! The states, codes and notifications are those of any other transfer. What the position step does there happens here, to
//! the lock: it is put on with RESERVED, paid out with COMMITTED, and ends with every other end.

use std::sync::Arc;

use holdfast_tokens::DEFAULT_TYPE;

use super::{Code, CompletionKind, ErrorInformation, Transfer, TransferState};
use crate::codes::ErrorCode;
use crate::command::{FulfilAction, Funding, Prepare};
use crate::effects::{Notification, NotificationKind, Outcome, Party, StateChange, Step};
use crate::ids::{Currency, Millis, TransferNo};
use crate::money::Balance;
use crate::positions::Action;
use crate::tokens::{Fingerprint, LockRow, NO_END, TokenId, end_hold, hold, transaction_of};
use crate::view::{Spenders, Tokens};

/// A prepare that broke no rule: its tokens are held, or it is rejected for want of them.
pub(super) fn reserve(
    view: &(impl Tokens + Spenders),
    now: Millis,
    (no, offset): (TransferNo, u64),
    prepare: &Prepare,
    (funding, quantity): (&Funding, u64),
    effects: &mut Step,
) -> Outcome {
    let before = effects.tokens.len();
    let row = LockRow {
        spender: funding.spender.clone(),
        fence: offset + 1,
        since: now,
        expires_at: NO_END,
        amount: quantity,
        body: body_of(prepare),
        tokens: funding.ids.clone(),
        funding: Some(funding.payee_wallet.clone()),
    };
    let held = covers(view, &funding.ids, &funding.payer_wallet, prepare.currency, quantity)
        && hold(view, now, row, effects).is_ok();
    if held {
        let told = Tell { no, action: Action::Prepare, completion: None, error: None };
        told.tell(Party::Payee, NotificationKind::Prepared, effects);
        return told.moved(TransferState::Reserved, None, effects);
    }
    effects.tokens.truncate(before);
    let code = Code::from(ErrorCode::PayerInsufficientLiquidity);
    let told = Tell { no, action: Action::Prepare, completion: None, error: Some((code, None)) };
    told.tell(Party::Payer, NotificationKind::Refused, effects);
    told.moved(TransferState::AbortedRejected, Some(code), effects)
}

/// Whether the chosen tokens are what they were chosen as. That they are free, of one notary and each named once is tested
/// where they are locked.
pub(crate) fn covers(
    view: &(impl Tokens + ?Sized),
    ids: &[TokenId],
    wallet: &str,
    currency: Currency,
    quantity: u64,
) -> bool {
    let currency = currency.letters();
    let mut sum = 0_u128;
    for id in ids {
        let Some(row) = view.token(id) else { return false };
        let kind = &row.token.kind;
        let fits = &*kind.wallet == wallet
            && kind.currency.as_bytes() == currency
            && &*kind.token_type == DEFAULT_TYPE;
        if !fits {
            return false;
        }
        sum += u128::from(row.token.quantity);
    }
    sum >= u128::from(quantity)
}

/// Knows the request again: the half of the prepare's hash.
fn body_of(prepare: &Prepare) -> Fingerprint {
    let half = prepare.hash.first_chunk().expect("a hash has 32 bytes");
    Fingerprint(u128::from_le_bytes(*half))
}

/// RECEIVED_FULFIL -> COMMITTED: the amount to the payee's wallet, what is left back to the payer's.
pub(super) fn pay_out(
    view: &(impl Tokens + Spenders),
    known: &Transfer,
    action: FulfilAction,
    effects: &mut Step,
) -> Outcome {
    let hold = hold_of(view, known);
    let wallet = hold.funding.as_ref().expect("the hold of a transfer names the payee's wallet");
    transaction_of(view, &hold, wallet, effects)
        .expect("what was held covers the amount, and its outputs are new");
    let told = Tell { no: known.no, action: action.step(), completion: Some(action.kind()), error: None };
    told.tell(Party::Payer, NotificationKind::Committed, effects);
    if action == FulfilAction::Reserve {
        told.tell(Party::Payee, NotificationKind::Committed, effects);
    }
    told.moved(TransferState::Committed, None, effects)
}

/// How a transfer ends that was not fulfilled.
pub(crate) enum End {
    /// By its payee's message of that kind, with that error.
    GivenUp(CompletionKind, Option<ErrorInformation>),
    /// By its expiration.
    RanOut,
}

/// The last move of a transfer that was not fulfilled.
pub(crate) fn give_back(view: &impl Spenders, known: &Transfer, end: End, effects: &mut Step) -> Outcome {
    end_hold(&hold_of(view, known), effects);
    let no = known.no;
    match end {
        End::GivenUp(kind, error) => {
            let told = Tell { no, action: Action::Abort, completion: Some(kind), error };
            told.tell(Party::Payer, NotificationKind::Aborted, effects);
            told.moved(TransferState::AbortedError, None, effects)
        }
        End::RanOut => {
            let code = Code::from(ErrorCode::TransferExpired);
            let error = Some((code, None));
            let told = Tell { no, action: Action::TimeoutReserved, completion: None, error };
            told.tell(Party::Payer, NotificationKind::Expired, effects);
            told.tell(Party::Payee, NotificationKind::Expired, effects);
            told.moved(TransferState::ExpiredReserved, Some(code), effects)
        }
    }
}

fn hold_of(view: &impl Spenders, known: &Transfer) -> Arc<LockRow> {
    let hold = view.lock(&known.id.to_string());
    Arc::clone(hold.expect("a RESERVED transfer that tokens pay for holds them"))
}

/// What becomes of a transfer here, as a message of the position step would say it.
struct Tell {
    no: TransferNo,
    action: Action,
    completion: Option<CompletionKind>,
    error: Option<ErrorInformation>,
}

impl Tell {
    fn tell(&self, to: Party, kind: NotificationKind, effects: &mut Step) {
        let Tell { no: transfer, action, completion, error } = *self;
        let (cause, action, silent) = (effects.cause(), Some(action), false);
        let told = Notification { cause, transfer, to, kind, action, completion, error, silent };
        effects.notifications.push(told);
    }

    /// The row of an end that a payee's message brought has its code on the row before.
    fn moved(&self, state: TransferState, code: Option<Code>, effects: &mut Step) -> Outcome {
        let Tell { no: transfer, error, .. } = *self;
        effects.state_changes.push(StateChange { transfer, state, code, reason: None });
        Outcome::reached(transfer, state, error, Balance::ZERO)
    }
}
