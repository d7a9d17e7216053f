//! The bin processor.

use super::bins::{Division, Index, RunningTransfer, divide};
use super::{Action, Message, MessageResult, PrepareOrder};
use crate::codes::ErrorCode;
use crate::effects::{
    DeadLetter, DeadLetterReason, LimitAlarm, Notification, NotificationKind, Party, PositionChange,
    StateChange, Step,
};
use crate::ids::AccountId;
use crate::money::{Amount, Balance};
use crate::planted::{self, Bug};
use crate::transfers::{Code, ErrorInformation, TransferState};

/// What the position step must know of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionAccount {
    /// What it stands at.
    pub value: Balance,
    /// What counts against the limits besides.
    pub reserved: Balance,
    /// The settlement account of the same participant: funds held are below zero.
    pub settlement: Balance,
    /// How far the position may rise; `None`: as far as the funds cover.
    pub net_debit_cap: Option<Amount>,
    /// Usage of the cap, in percent, at which an alarm is raised.
    pub alarm_percentage: u16,
}

/// Where the processor finds accounts.
pub trait PositionAccounts {
    /// The position account of that number.
    fn position_account(&self, id: AccountId) -> Option<PositionAccount>;
}

/// Processes a batch: one result per message, in the order of `messages`; everything else goes to `effects`
/// in the order of processing. A repeat gets the result of the first and has no effect.
pub fn process(
    accounts: &impl PositionAccounts,
    order: PrepareOrder,
    messages: &[Message],
    effects: &mut Step,
) -> Vec<MessageResult> {
    let Division { sequence, repeats, entry_of, mut running } = divide(messages, order);
    let unprocessed = |message: &Message| MessageResult {
        state: message.state,
        error: None,
        value: Balance::ZERO,
        repeat: false,
    };
    let mut results: Vec<MessageResult> = messages.iter().map(unprocessed).collect();
    let account_of = |index: &Index| messages[*index as usize].account;
    for of_account in sequence.chunk_by(|left, right| account_of(left) == account_of(right)) {
        let id = account_of(&of_account[0]);
        let mut bin = Bin {
            messages,
            entry_of: &entry_of,
            running: &mut running,
            results: &mut results,
            effects: &mut *effects,
            id,
        };
        match accounts.position_account(id) {
            Some(account) => bin.process(account, of_account),
            None => bin.refuse_all(of_account),
        }
    }
    for (repeat, first) in repeats {
        results[repeat as usize] = MessageResult { repeat: true, ..results[first as usize] };
    }
    results
}

/// The messages of one account, and where what becomes of them is written.
struct Bin<'a> {
    messages: &'a [Message],
    entry_of: &'a [u32],
    running: &'a mut [RunningTransfer],
    results: &'a mut [MessageResult],
    effects: &'a mut Step,
    id: AccountId,
}

impl Bin<'_> {
    fn process(&mut self, account: PositionAccount, of_account: &[Index]) {
        let mut value = account.value;
        let action_of = |index: &Index| self.messages[*index as usize].action;
        for of_action in of_account.chunk_by(|left, right| action_of(left) == action_of(right)) {
            value = match self.messages[of_action[0] as usize].action {
                Action::Commit => self.settle(value, of_action, false),
                Action::Reserve => self.settle(value, of_action, true),
                Action::Abort => {
                    let ends = (TransferState::ReceivedError, TransferState::AbortedError);
                    self.release(value, of_action, ends, None)
                }
                Action::TimeoutReserved => {
                    let ends = (TransferState::ReservedTimeout, TransferState::ExpiredReserved);
                    self.release(value, of_action, ends, Some(ErrorCode::TransferExpired.into()))
                }
                Action::Prepare => self.reserve(account, value, of_action),
            };
        }
    }

    fn state(&mut self, index: Index) -> &mut TransferState {
        &mut self.running[self.entry_of[index as usize] as usize].state
    }

    /// The message moves its transfer to `state` and is told so.
    fn moved(&mut self, index: Index, state: TransferState, code: Option<Code>, value: Balance) {
        *self.state(index) = state;
        let Message { transfer, error, .. } = self.messages[index as usize];
        self.effects.state_changes.push(StateChange { transfer, state, code, reason: None });
        self.end(index, state, code.map(|code| (code, None)).or(error), value);
    }

    fn end(&mut self, index: Index, state: TransferState, error: Option<ErrorInformation>, value: Balance) {
        self.results[index as usize] = MessageResult { state, error, value, repeat: false };
    }

    fn changed(&mut self, index: Index, change: Amount, value: Balance) {
        let transfer = self.messages[index as usize].transfer;
        self.effects.position_changes.push(PositionChange { account: self.id, transfer, change, value });
    }

    /// A party is told what became of the message.
    fn notify(&mut self, index: Index, to: Party, kind: NotificationKind) {
        let Message { cause, transfer, action, completion, .. } = self.messages[index as usize];
        let (action, error) = (Some(action), self.results[index as usize].error);
        let silent = false;
        let told = Notification { cause, transfer, to, kind, action, completion, error, silent };
        self.effects.notifications.push(told);
    }

    /// The message does not fit its transfer's state: nothing changes.
    fn out_of_place(&mut self, index: Index, value: Balance) {
        let state = *self.state(index);
        self.end(index, state, Some((ErrorCode::InternalServerError.into(), None)), value);
    }

    fn settle(&mut self, mut value: Balance, of_action: &[Index], tell_payee: bool) -> Balance {
        for index in of_action.iter().copied() {
            if *self.state(index) != TransferState::ReceivedFulfil {
                self.out_of_place(index, value);
                self.notify(index, Party::Payee, NotificationKind::Refused);
                continue;
            }
            let amount = self.messages[index as usize].amount;
            value = value.minus(amount);
            self.moved(index, TransferState::Committed, None, value);
            self.changed(index, Amount(-amount.0), value);
            self.notify(index, Party::Payer, NotificationKind::Committed);
            if tell_payee {
                self.notify(index, Party::Payee, NotificationKind::Committed);
            }
        }
        value
    }

    /// Gives the payer its position back, for an abort or a timeout.
    fn release(
        &mut self,
        mut value: Balance,
        of_action: &[Index],
        (from, to): (TransferState, TransferState),
        code: Option<Code>,
    ) -> Balance {
        for index in of_action.iter().copied() {
            if *self.state(index) != from {
                self.dead_letter(index, value);
                continue;
            }
            let amount = self.messages[index as usize].amount;
            if !planted::has(Bug::KeptPosition) {
                value = value.minus(amount);
                self.changed(index, Amount(-amount.0), value);
            }
            self.moved(index, to, code, value);
            if to == TransferState::ExpiredReserved {
                self.notify(index, Party::Payer, NotificationKind::Expired);
                self.notify(index, Party::Payee, NotificationKind::Expired);
            } else {
                self.notify(index, Party::Payer, NotificationKind::Aborted);
            }
        }
        value
    }

    /// Tests each prepare against what the ones before it have left.
    fn reserve(&mut self, account: PositionAccount, mut value: Balance, of_action: &[Index]) -> Balance {
        let cover = account.settlement.negated();
        let alarm_above = account.net_debit_cap.map(|cap| alarm_threshold(cap, account.alarm_percentage));
        let at_start = value;
        for index in of_action.iter().copied() {
            if *self.state(index) != TransferState::ReceivedPrepare {
                self.out_of_place(index, value);
                self.notify(index, Party::Payer, NotificationKind::Refused);
                continue;
            }
            let amount = self.messages[index as usize].amount;
            let counted = if planted::has(Bug::ForgottenRunningPosition) { at_start } else { value };
            let used = counted + account.reserved;
            let would_use = used.plus(amount);
            let refusal = if would_use > cover {
                Some(ErrorCode::PayerInsufficientLiquidity)
            } else if account.net_debit_cap.is_some_and(|cap| would_use > cap.wide()) {
                Some(ErrorCode::PayerLimitError)
            } else {
                None
            };
            if let Some(code) = refusal {
                self.moved(index, TransferState::AbortedRejected, Some(code.into()), value);
                self.notify(index, Party::Payer, NotificationKind::Refused);
                continue;
            }
            value = value.plus(amount);
            self.moved(index, TransferState::Reserved, None, value);
            self.changed(index, amount, value);
            self.notify(index, Party::Payee, NotificationKind::Prepared);
            if let (Some(threshold), Some(net_debit_cap)) = (alarm_above, account.net_debit_cap)
                && used <= threshold
                && would_use > threshold
            {
                self.effects.alarms.push(LimitAlarm { account: self.id, value, net_debit_cap });
            }
        }
        value
    }

    fn dead_letter(&mut self, index: Index, value: Balance) {
        self.out_of_place(index, value);
        let reason = DeadLetterReason::WrongState(*self.state(index));
        self.push_dead_letter(index, reason);
    }

    fn refuse_all(&mut self, of_account: &[Index]) {
        for index in of_account.iter().copied() {
            self.out_of_place(index, Balance::ZERO);
            self.push_dead_letter(index, DeadLetterReason::UnknownAccount(self.id));
        }
    }

    fn push_dead_letter(&mut self, index: Index, reason: DeadLetterReason) {
        let Message { cause, transfer, action, .. } = self.messages[index as usize];
        self.effects.dead_letters.push(DeadLetter { cause, transfer, action, reason });
    }
}

/// The usage above which an alarm is raised, rounded down to the next representable amount.
fn alarm_threshold(cap: Amount, percentage: u16) -> Balance {
    Balance(i128::from(cap.0) * i128::from(percentage) / 100)
}
