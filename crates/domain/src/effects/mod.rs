//! Effects: what a decision does, as data. The store applies them, the hub answers from them, tests compare them.
//!
//! | room | what it says |
//! | --- | --- |
//! | here | a frame's steps, and how their rows are written |
//! | `rows` | what happened to transfers and positions |
//! | `told` | who is told what, and by which command's doing |
//! | `outcome` | the answer to one command |

mod outcome;
mod rows;
mod told;

pub use outcome::{Outcome, Subject};
pub use rows::{CompletionRow, DeadLetter, DeadLetterReason, LimitAlarm, PositionChange, StateChange};
pub use told::{Answer, Asked, Notification, NotificationKind, Party};

use crate::command::SetEndpoint;
use crate::ids::{AccountId, Millis, TransferNo};
use crate::money::Amount;
use crate::participants::{Account, FundsMovement, Participant};
use crate::shop::{Alarm, ShopEffect, ShopMessage};
use crate::tokens::TokenEffect;
use crate::transfers::{Proof, Transfer};

/// Everything that the commands of one frame do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The sub-batches of the frame, in their order.
    pub steps: Vec<Step>,
}

/// What one sub-batch of a frame does, each list in the order of processing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Its first command, by its index in the frame.
    pub first: u32,
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
}

impl Effects {
    /// One list of all steps, one step after the other.
    pub fn all<'a, R: 'a>(&'a self, list: fn(&Step) -> &[R]) -> impl Iterator<Item = &'a R> + Clone {
        self.steps.iter().flat_map(list)
    }

    /// Takes that list out of all steps; of a single step it is moved as it is.
    pub fn take<R>(&mut self, list: fn(&mut Step) -> &mut Vec<R>) -> Vec<R> {
        let mut steps = self.steps.iter_mut();
        let mut taken = steps.next().map_or_else(Vec::new, |step| std::mem::take(list(step)));
        steps.for_each(|step| taken.append(list(step)));
        taken
    }

    /// The outcome of that command.
    ///
    /// # Panics
    /// If the frame has no such command.
    #[must_use]
    pub fn outcome(&self, cause: u32) -> &Outcome {
        let after = self.steps.partition_point(|step| step.first <= cause);
        let step = &self.steps[after.checked_sub(1).expect("the first step begins with the first command")];
        &step.outcomes[(cause - step.first) as usize]
    }

    /// Writes every row of the frame that was decided at `now`, sub-batch by sub-batch.
    pub fn apply(&self, now: Millis, rows: &mut impl Rows) {
        self.steps.iter().for_each(|step| step.apply(now, rows));
    }
}

impl Step {
    /// A step that has done nothing so far; its first command has that index.
    #[must_use]
    pub fn at(first: u32) -> Step {
        Step { first, ..Step::default() }
    }

    /// The index of the command that is being decided: its outcome is the next one.
    pub(crate) fn cause(&self) -> u32 {
        self.first + u32::try_from(self.outcomes.len()).expect("a frame is bounded")
    }

    /// The outcome of a command of this step, to be told.
    pub(crate) fn outcome_mut(&mut self, cause: u32) -> &mut Outcome {
        &mut self.outcomes[(cause - self.first) as usize]
    }

    /// Adds what was done after it within the same sub-batch.
    pub(crate) fn append(&mut self, after: Step) {
        // Takes the other step apart by all its fields, so that no list is forgotten.
        macro_rules! append {
            ($step:ident, $($list:ident)*) => {
                let Step { first: _, $($list),* } = after;
                $($step.$list.extend($list);)*
            };
        }
        append!(self, participants accounts funds endpoints transfers state_changes completions position_changes
            notifications answers alarms dead_letters tokens shop shop_messages shop_alarms outcomes);
    }

    /// Writes its rows, decided at `now`.
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
        for row in &self.completions {
            rows.transfer_mut(row.transfer).proof = Proof::Completed(row.completion);
        }
        for row in &self.position_changes {
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
