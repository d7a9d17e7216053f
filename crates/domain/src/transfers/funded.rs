//! Transfers that tokens pay for: the tokens are locked without a lease from RESERVED to the end, and no position moves.
//!
//! The states, codes and notifications are those of any other transfer. What the position step does there happens here, to
//! the lock: it is put on with RESERVED, paid out with COMMITTED, and ends with every other end.

use std::sync::Arc;

use holdfast_tokens::DEFAULT_TYPE;

use super::{Transfer, TransferState};
use crate::codes::ErrorCode;
use crate::command::{Funding, Prepare};
use crate::effects::{Effects, Notification, NotificationKind, Outcome, Party, StateChange};
use crate::ids::{Currency, Millis, TransferNo};
use crate::money::Balance;
use crate::positions::Action;
use crate::tokens::{Fingerprint, LockRow, NO_END, TokenId, end_hold, hold_for_transfer, transaction_of};
use crate::transfers::Code;
use crate::view::View;

/// A prepare that broke no rule: its tokens are held, or it is rejected for want of them.
pub(super) fn reserve(
    view: &impl View,
    now: Millis,
    (no, offset): (TransferNo, u64),
    prepare: &Prepare,
    (funding, quantity): (&Funding, u64),
    effects: &mut Effects,
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
        && hold_for_transfer(view, now, row, effects).is_ok();
    if held {
        tell(no, Party::Payee, NotificationKind::Prepared, None, effects);
        return moved(no, TransferState::Reserved, None, effects);
    }
    effects.tokens.truncate(before);
    let code = Some(Code::from(ErrorCode::PayerInsufficientLiquidity));
    tell(no, Party::Payer, NotificationKind::Refused, code, effects);
    moved(no, TransferState::AbortedRejected, code, effects)
}

/// Whether the chosen tokens are what they were chosen as. That they are free, of one notary and each named once is tested
/// where they are locked.
pub(crate) fn covers(
    view: &impl View,
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
pub(super) fn pay_out(view: &impl View, known: &Transfer, action: Action, effects: &mut Effects) -> Outcome {
    let hold = hold_of(view, known);
    let wallet = hold.funding.as_ref().expect("the hold of a transfer names the payee's wallet");
    transaction_of(view, &hold, wallet, effects)
        .expect("what was held covers the amount, and its outputs are new");
    let outcome = moved(known.no, TransferState::Committed, None, effects);
    tell(known.no, Party::Payer, NotificationKind::Committed, None, effects);
    if action == Action::Reserve {
        tell(known.no, Party::Payee, NotificationKind::Committed, None, effects);
    }
    outcome
}

/// The last move of a transfer that was not fulfilled: `to` is ABORTED_ERROR or EXPIRED_RESERVED.
pub(crate) fn give_back(
    view: &impl View,
    known: &Transfer,
    to: TransferState,
    effects: &mut Effects,
) -> Outcome {
    end_hold(&hold_of(view, known), effects);
    if to != TransferState::ExpiredReserved {
        tell(known.no, Party::Payer, NotificationKind::Aborted, None, effects);
        return moved(known.no, to, None, effects);
    }
    let code = Some(Code::from(ErrorCode::TransferExpired));
    tell(known.no, Party::Payer, NotificationKind::Expired, code, effects);
    tell(known.no, Party::Payee, NotificationKind::Expired, code, effects);
    moved(known.no, to, code, effects)
}

fn hold_of(view: &impl View, known: &Transfer) -> Arc<LockRow> {
    let hold = view.lock(&known.id.to_string());
    Arc::clone(hold.expect("a RESERVED transfer that tokens pay for holds them"))
}

fn moved(transfer: TransferNo, state: TransferState, code: Option<Code>, effects: &mut Effects) -> Outcome {
    effects.state_changes.push(StateChange { transfer, state, code, reason: None });
    Outcome { state: Some(state), code, ..Outcome::done(transfer.0, Balance::ZERO) }
}

fn tell(transfer: TransferNo, to: Party, kind: NotificationKind, code: Option<Code>, effects: &mut Effects) {
    effects.notifications.push(Notification { transfer, to, kind, code });
}
