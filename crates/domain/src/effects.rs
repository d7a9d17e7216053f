//! Effects: what a decision does, as data. The store applies them, the hub answers from them, tests compare them.

use std::sync::Arc;

use crate::codes::ErrorCode;
use crate::command::SetEndpoint;
use crate::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use crate::money::{Amount, Balance};
use crate::participants::{Account, FundsMovement, Participant};
use crate::positions::{Action, Message, MessageResult};
use crate::shop::{Alarm, ShopEffect, ShopMessage, ShopOutcome};
use crate::tokens::{TokenEffect, TokenOutcome};
use crate::transfers::{
    Code, Completion, CompletionKind, ErrorInformation, Proof, Reason, Transfer, TransferState,
};

/// Everything that the commands of one frame do, each list in the order of processing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Participants made or changed: whole rows.
    pub participants: Vec<Participant>,
    /// Accounts made or changed by the operator: whole rows.
    pub accounts: Vec<Account>,
    /// Movements of funds made or changed: whole rows.
    pub funds: Vec<FundsMovement>,
    /// Endpoints set: whole rows.
    pub endpoints: Vec<SetEndpoint>,
    /// Transfers seen for the first time.
    pub transfers: Vec<Transfer>,
    /// Rows of the append-only history.
    pub state_changes: Vec<StateChange>,
    /// Fulfils and aborts that were accepted.
    pub completions: Vec<CompletionRow>,
    /// What happened to positions, with the running value.
    pub position_changes: Vec<PositionChange>,
    /// Who is to be told what.
    pub notifications: Vec<Notification>,
    /// What the senders of commands are answered that moved nothing.
    pub answers: Vec<Answer>,
    /// Positions that passed their alarm percentage.
    pub alarms: Vec<LimitAlarm>,
    /// Messages that fitted nowhere.
    pub dead_letters: Vec<DeadLetter>,
    /// What happened to tokens.
    pub tokens: Vec<TokenEffect>,
    /// What happened in the shop.
    pub shop: Vec<ShopEffect>,
    /// The messages of checkouts, in the order in which they were sent.
    pub shop_messages: Vec<ShopMessage>,
    /// What should never be in a checkout, and was met nevertheless.
    pub shop_alarms: Vec<Alarm>,
    /// One answer per command, in the order of the frame.
    pub outcomes: Vec<Outcome>,
    /// Where each sub-batch of the frame ends in the lists above.
    pub(crate) sections: Vec<Section>,
}

/// The lengths of the row lists at the end of a sub-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Section {
    participants: usize,
    accounts: usize,
    funds: usize,
    endpoints: usize,
    transfers: usize,
    state_changes: usize,
    completions: usize,
    position_changes: usize,
    notifications: usize,
    answers: usize,
    tokens: usize,
    shop: usize,
    shop_messages: usize,
    outcomes: usize,
}

/// What one sub-batch of a frame did.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// See [`Effects::participants`].
    pub participants: &'a [Participant],
    /// See [`Effects::accounts`].
    pub accounts: &'a [Account],
    /// See [`Effects::funds`].
    pub funds: &'a [FundsMovement],
    /// See [`Effects::endpoints`].
    pub endpoints: &'a [SetEndpoint],
    /// See [`Effects::transfers`].
    pub transfers: &'a [Transfer],
    /// See [`Effects::state_changes`].
    pub state_changes: &'a [StateChange],
    /// See [`Effects::completions`].
    pub completions: &'a [CompletionRow],
    /// See [`Effects::position_changes`].
    pub position_changes: &'a [PositionChange],
    /// See [`Effects::notifications`].
    pub notifications: &'a [Notification],
    /// See [`Effects::answers`].
    pub answers: &'a [Answer],
    /// See [`Effects::tokens`].
    pub tokens: &'a [TokenEffect],
    /// See [`Effects::shop`].
    pub shop: &'a [ShopEffect],
    /// See [`Effects::shop_messages`].
    pub shop_messages: &'a [ShopMessage],
    /// See [`Effects::outcomes`]: as many as the sub-batch has commands.
    pub outcomes: &'a [Outcome],
}

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

/// One side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "said above")]
pub enum Party {
    Payer = 1,
    Payee = 2,
}

/// What a notification tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum NotificationKind {
    /// A prepare was reserved: the payee gets it.
    Prepared = 1,
    /// The transfer is committed.
    Committed = 2,
    /// The payee gave up the transfer, or could not show the preimage.
    Aborted = 3,
    /// It ran out.
    Expired = 4,
    /// The message was refused.
    Refused = 5,
}

/// A party is to be told what became of its transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The command that caused it, by its index. What ran out has the expiry as its cause.
    pub cause: u32,
    /// About which transfer.
    pub transfer: TransferNo,
    /// Who is told.
    pub to: Party,
    /// What.
    pub kind: NotificationKind,
    /// What was done, or was to be done; `None` if it ran out before anything was reserved.
    pub action: Option<Action>,
    /// The fulfil or abort that the transfer took: a payee that said RESERVED is told in another way.
    pub completion: Option<CompletionKind>,
    /// With which error.
    pub error: Option<ErrorInformation>,
    /// Whoever sent the command settles it, and nobody is called: a prepare that a checkout made.
    pub silent: bool,
}

impl Notification {
    /// Whom it tells. Of a wrong preimage the payee must hear too, or it believes that it was paid.
    pub fn parties(&self) -> impl Iterator<Item = Party> + use<> {
        let by_hub = self.completion.is_some_and(|completion| completion != CompletionKind::Abort);
        let wrong_preimage = self.kind == NotificationKind::Aborted && by_hub;
        std::iter::once(self.to).chain(wrong_preimage.then_some(Party::Payee))
    }

    /// The code by which the hub itself refused or ended it. An abort has none: its error is the payee's.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.error.map(|(code, _)| code).filter(|_| self.kind != NotificationKind::Aborted)
    }
}

/// What a command asks for, of which its sender is told what it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Asked {
    Prepare,
    Commit,
    Reserve,
    Abort,
    Lookup,
    /// A position step that came again.
    Position,
    /// Limits and funds.
    Admin,
}

/// A command about a transfer moved nothing: it was a repeat, a refusal or a question. What it is answered says its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The command, by its index.
    pub cause: u32,
    /// Who sent it.
    pub to: ParticipantId,
    /// The transfer that it names.
    pub transfer: TransferId,
    /// What it asked.
    pub asked: Asked,
    /// The same was asked before, and the outcome is the stored one.
    pub repeat: bool,
    /// The fulfil or abort that the transfer has taken.
    pub completion: Option<CompletionKind>,
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

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where the transfer stands now; `None` if there is none.
    pub state: Option<TransferState>,
    /// The error; `None` if all went well.
    pub code: Option<Code>,
    /// The error in particular.
    pub reason: Option<Reason>,
    /// The number of what the command was about: a transfer, participant (its position account in the upper
    /// half), account, or how many holds an expiry ended.
    pub subject: u64,
    /// What the account touched last stands at.
    pub value: Balance,
    /// The answer to a command about tokens.
    pub token: Option<Arc<TokenOutcome>>,
    /// The answer to a command about the shop.
    pub shop: Option<Arc<ShopOutcome>>,
}

impl Outcome {
    /// Nothing was done, for that reason.
    #[must_use]
    pub fn refused(code: ErrorCode) -> Outcome {
        Outcome { code: Some(code.into()), ..Outcome::done(0, Balance::ZERO) }
    }

    pub(crate) fn because(self, reason: Reason) -> Outcome {
        Outcome { reason: Some(reason), ..self }
    }

    pub(crate) const fn done(subject: u64, value: Balance) -> Outcome {
        Outcome { state: None, code: None, reason: None, subject, value, token: None, shop: None }
    }

    /// The answer to a command about tokens.
    pub(crate) fn of_tokens(outcome: TokenOutcome) -> Outcome {
        Outcome { token: Some(Arc::new(outcome)), ..Outcome::done(0, Balance::ZERO) }
    }

    /// The answer to a command about the shop.
    #[must_use]
    pub fn of_shop(outcome: ShopOutcome) -> Outcome {
        Outcome { shop: Some(Arc::new(outcome)), ..Outcome::done(0, Balance::ZERO) }
    }

    /// What became of a message of the position step.
    pub(crate) fn of_message(message: &Message, result: MessageResult) -> Outcome {
        let (code, reason) = match result.error {
            Some((code, reason)) => (Some(code), reason),
            None => (None, None),
        };
        let MessageResult { state, value, .. } = result;
        Outcome { state: Some(state), code, reason, ..Outcome::done(message.transfer.0, value) }
    }

    /// Why not, if not.
    #[must_use]
    pub fn error(&self) -> Option<ErrorInformation> {
        self.code.map(|code| (code, self.reason))
    }

    /// The stored answer of a transfer.
    #[must_use]
    pub fn of_transfer(row: &Transfer) -> Outcome {
        Outcome {
            state: Some(row.state),
            code: row.code,
            reason: row.reason,
            subject: row.no.0,
            value: row.final_value.get().or_else(|| row.reserved_value.get()).unwrap_or_default(),
            token: None,
            shop: None,
        }
    }
}

/// Rows of participants, accounts and transfers that effects can be written to: live memory, or the overlay inside a frame.
pub trait PaymentRows {
    /// A participant was made or changed.
    fn put_participant(&mut self, row: &Participant);
    /// An account was made or changed.
    fn put_account(&mut self, row: &Account);
    /// A movement of funds was made or changed.
    fn put_funds(&mut self, row: &FundsMovement);
    /// An endpoint was set.
    fn put_endpoint(&mut self, row: &SetEndpoint);
    /// A transfer was seen for the first time.
    fn add_transfer(&mut self, row: &Transfer);
    /// The transfer of that number, to be changed.
    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer;
    /// The account of that number, to be changed.
    fn account_mut(&mut self, id: AccountId) -> &mut Account;
    /// The transfer may expire from now on.
    fn hold_opened(&mut self, no: TransferNo);
    /// The transfer can no longer expire.
    fn hold_closed(&mut self, no: TransferNo);
}

/// Rows of tokens that effects can be written to.
pub trait TokenRows {
    /// Something happened to tokens.
    fn token_effect(&mut self, effect: &TokenEffect);
}

/// Rows of the shop that effects can be written to.
pub trait ShopRows {
    /// Something happened in the shop.
    fn shop_effect(&mut self, effect: &ShopEffect);
}

/// Rows of every kind.
pub trait Rows: PaymentRows + TokenRows + ShopRows {}

impl<R: PaymentRows + TokenRows + ShopRows> Rows for R {}

impl Effects {
    /// The index of the command that is being decided: its outcome is the next one.
    pub(crate) fn cause(&self) -> u32 {
        u32::try_from(self.outcomes.len()).expect("a frame is bounded")
    }

    /// Where the row lists end now.
    pub(crate) fn lengths(&self) -> Section {
        Section {
            participants: self.participants.len(),
            accounts: self.accounts.len(),
            funds: self.funds.len(),
            endpoints: self.endpoints.len(),
            transfers: self.transfers.len(),
            state_changes: self.state_changes.len(),
            completions: self.completions.len(),
            position_changes: self.position_changes.len(),
            notifications: self.notifications.len(),
            answers: self.answers.len(),
            tokens: self.tokens.len(),
            shop: self.shop.len(),
            shop_messages: self.shop_messages.len(),
            outcomes: self.outcomes.len(),
        }
    }

    fn step(&self, number: usize) -> Step<'_> {
        let from = number.checked_sub(1).map_or_else(Section::default, |before| self.sections[before]);
        self.between(&from, &self.sections[number])
    }

    /// What was done since the lists ended there.
    pub(crate) fn since(&self, from: &Section) -> Step<'_> {
        self.between(from, &self.lengths())
    }

    /// What the sub-batch that is being decided has done so far.
    pub(crate) fn unclosed(&self) -> Step<'_> {
        self.since(&self.sections.last().copied().unwrap_or_default())
    }

    fn between(&self, from: &Section, to: &Section) -> Step<'_> {
        Step {
            participants: &self.participants[from.participants..to.participants],
            accounts: &self.accounts[from.accounts..to.accounts],
            funds: &self.funds[from.funds..to.funds],
            endpoints: &self.endpoints[from.endpoints..to.endpoints],
            transfers: &self.transfers[from.transfers..to.transfers],
            state_changes: &self.state_changes[from.state_changes..to.state_changes],
            completions: &self.completions[from.completions..to.completions],
            position_changes: &self.position_changes[from.position_changes..to.position_changes],
            notifications: &self.notifications[from.notifications..to.notifications],
            answers: &self.answers[from.answers..to.answers],
            tokens: &self.tokens[from.tokens..to.tokens],
            shop: &self.shop[from.shop..to.shop],
            shop_messages: &self.shop_messages[from.shop_messages..to.shop_messages],
            outcomes: &self.outcomes[from.outcomes..to.outcomes],
        }
    }

    /// The sub-batches of the frame in their order.
    pub fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.sections.len()).map(|number| self.step(number))
    }

    pub(crate) fn close_section(&mut self) {
        self.sections.push(self.lengths());
    }

    /// Writes every row of the frame that was decided at `now`, sub-batch by sub-batch.
    pub fn apply(&self, now: Millis, rows: &mut impl Rows) {
        self.steps().for_each(|step| step.apply(now, rows));
    }

    /// The last sub-batch alone.
    pub(crate) fn last(&self) -> Step<'_> {
        self.step(self.sections.len().checked_sub(1).expect("a section was closed"))
    }
}

impl Step<'_> {
    pub(crate) fn apply(&self, now: Millis, rows: &mut impl Rows) {
        self.apply_payments(now, rows);
        self.apply_tokens(rows);
        self.apply_shop(rows);
    }

    /// Writes the rows of tokens alone.
    pub(crate) fn apply_tokens(&self, rows: &mut impl TokenRows) {
        self.tokens.iter().for_each(|effect| rows.token_effect(effect));
    }

    /// Writes the rows of the shop alone.
    pub(crate) fn apply_shop(&self, rows: &mut impl ShopRows) {
        self.shop.iter().for_each(|effect| rows.shop_effect(effect));
    }

    /// Writes the rows of participants, accounts and transfers alone.
    pub fn apply_payments(&self, now: Millis, rows: &mut impl PaymentRows) {
        self.participants.iter().for_each(|row| rows.put_participant(row));
        self.accounts.iter().for_each(|row| rows.put_account(row));
        self.funds.iter().for_each(|row| rows.put_funds(row));
        self.endpoints.iter().for_each(|row| rows.put_endpoint(row));
        self.transfers.iter().for_each(|row| rows.add_transfer(row));
        self.state_changes.iter().for_each(|row| row.apply(now, rows));
        for row in self.completions {
            rows.transfer_mut(row.transfer).proof = Proof::Completed(row.completion);
        }
        for row in self.position_changes {
            let account = rows.account_mut(row.account);
            (account.value, account.changed_at) = (row.value, now);
            let transfer = rows.transfer_mut(row.transfer);
            if row.change > Amount::ZERO {
                transfer.reserved_value = row.value.into();
            } else {
                transfer.final_value = row.value.into();
            }
        }
    }
}

impl StateChange {
    fn apply(&self, now: Millis, rows: &mut impl PaymentRows) {
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
