//! What happened to transfers and positions.

use super::PaymentRows;
use crate::codes::ErrorCode;
use crate::ids::{AccountId, Millis, TransferNo};
use crate::money::{Amount, Balance};
use crate::positions::Action;
use crate::transfers::{Code, Completion, Proof, Reason, TransferState};

/// A row of a transfer's history. Its time is the frame's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// Which transfer.
    pub transfer: TransferNo,
    /// The state it moved to.
    pub state: TransferState,
    /// The error that it carries, if any.
    pub code: Option<Code>,
    /// The error in particular.
    pub reason: Option<Reason>,
}

impl StateChange {
    pub(crate) const fn to(transfer: TransferNo, state: TransferState) -> StateChange {
        StateChange { transfer, state, code: None, reason: None }
    }

    pub(crate) fn with(self, code: ErrorCode) -> StateChange {
        StateChange { code: Some(code.into()), ..self }
    }

    pub(crate) const fn because(self, reason: Reason) -> StateChange {
        StateChange { reason: Some(reason), ..self }
    }
}

/// The accepted fulfil or abort of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompletionRow {
    /// The command that it is, by its index.
    pub cause: u32,
    /// Which transfer.
    pub transfer: TransferNo,
    /// What it took.
    pub completion: Completion,
}

/// A row of `participantPositionChange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionChange {
    /// The position account.
    pub account: AccountId,
    /// The transfer that caused it.
    pub transfer: TransferNo,
    /// By how much it changed.
    pub change: Amount,
    /// What it stood at afterwards.
    pub value: Balance,
}

/// A position passed the alarm percentage of its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitAlarm {
    /// Whose.
    pub account: AccountId,
    /// What it stands at.
    pub value: Balance,
    /// The cap.
    pub net_debit_cap: Amount,
}

/// A message of the position step that fits nowhere; it stops nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetter {
    /// The command that it was, by its index.
    pub cause: u32,
    /// Which transfer.
    pub transfer: TransferNo,
    /// What was to be done.
    pub action: Action,
    /// Why it was not.
    pub reason: DeadLetterReason,
}

/// Why a message became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// There is no such account.
    UnknownAccount(AccountId),
    /// The transfer is in a state that the action does not fit.
    WrongState(TransferState),
}

impl StateChange {
    pub(super) fn apply(&self, now: Millis, rows: &mut impl PaymentRows) {
        let transfer = rows.transfer_mut(self.transfer);
        let before = transfer.state;
        // A new row carries its first state already.
        let first = matches!(self.state, TransferState::ReceivedPrepare | TransferState::Invalid);
        assert!(
            if first { before == self.state } else { self.state.may_follow(Some(before)) },
            "transfer {}: {before} cannot become {}",
            transfer.id,
            self.state
        );
        transfer.state = self.state;
        transfer.changed_at = now;
        if self.state.is_final() && transfer.condition().is_some() {
            transfer.proof = Proof::Nothing;
        }
        if self.code.is_some() {
            transfer.code = self.code;
            transfer.reason = self.reason;
        }
        if self.state.may_expire() && (first || !before.may_expire()) {
            rows.hold_opened(self.transfer);
        } else if !self.state.may_expire() && before.may_expire() && !first {
            rows.hold_closed(self.transfer);
        }
    }
}
