//! Invariant 2. No prepare is accepted beyond the limits in force at its place in the log, none that fits is
//! refused, and no funds leave that a position stands on. A naive model works through each frame one message at a time: it cuts the frame itself, lets credits
//! go before debits, and tests each prepare against plain numbers.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command, Prepare};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::transfers::TransferState;

use crate::witness::Decided;

/// What stands on one position account.
#[derive(Debug, Default)]
struct Purse {
    position: i128,
    settlement: i128,
    cap: Option<i128>,
    /// Accounts become active with their first limit.
    active: bool,
}

/// A transfer that is RESERVED, as the model sees it.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    payer: AccountId,
    payee: AccountId,
    amount: i128,
    expiration: Millis,
}

/// The model.
#[derive(Debug, Default)]
pub struct LimitsHold {
    seats: BTreeMap<(ParticipantId, Currency), AccountId>,
    purses: BTreeMap<AccountId, Purse>,
    open: BTreeMap<TransferId, Open>,
    known: BTreeSet<TransferId>,
    switched_off: BTreeSet<ParticipantId>,
    leaving: BTreeMap<TransferId, i128>,
    moved: BTreeSet<TransferId>,
}

/// No account has this number.
const NOBODY: AccountId = AccountId(u32::MAX);

/// Whether a command is decided apart from those beside it.
fn stands_alone(command: &Command) -> bool {
    command.transfer().is_none() || matches!(command, Command::Prepare(prepare) if prepare.funding.is_some())
}

type Answered<'a> = (&'a Command, &'a Outcome);

impl LimitsHold {
    /// Works through a frame.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        let order =
            if frame.header.options & 1 == 1 { PrepareOrder::Smallest } else { PrepareOrder::Arrival };
        let mut batch: Vec<Answered<'_>> = Vec::new();
        for (command, outcome) in frame.commands.iter().zip(&frame.effects.outcomes) {
            let again = batch.iter().any(|(earlier, _)| earlier.transfer() == command.transfer());
            if again || stands_alone(command) || batch.last().is_some_and(|(last, _)| stands_alone(last)) {
                self.batch(&std::mem::take(&mut batch), order)?;
            }
            match command {
                Command::Admin(admin) => self.operator(admin, outcome)?,
                Command::Expire(expire) => self.expire(frame, expire.holds_max)?,
                _ => batch.push((command, outcome)),
            }
        }
        self.batch(&batch, order)
    }

    /// All credits first, then prepares in their order. Accounts do not touch one another, so it does not matter
    /// which account comes first.
    fn batch(&mut self, batch: &[Answered<'_>], order: PrepareOrder) -> Result<(), String> {
        for (command, outcome) in batch {
            if let Command::Fulfil(_) | Command::Abort(_) = command {
                self.complete(command, outcome);
            }
        }
        let mut prepares: Vec<(&Prepare, &Outcome)> = Vec::new();
        for (command, outcome) in batch {
            if let Command::Prepare(prepare) = command
                && outcome.state.is_some()
                && self.known.insert(prepare.id)
                && outcome.state != Some(TransferState::Invalid)
            {
                match &prepare.funding {
                    Some(_) => self.funded(prepare, outcome),
                    None => prepares.push((prepare, outcome)),
                }
            }
        }
        if order == PrepareOrder::Smallest {
            prepares.sort_by_key(|(prepare, _)| prepare.amount);
        }
        prepares.into_iter().try_for_each(|(prepare, outcome)| self.prepare(prepare, outcome))
    }

    /// Tokens pay: no position moves, and the hold runs out like any other.
    fn funded(&mut self, prepare: &Prepare, outcome: &Outcome) {
        if outcome.state == Some(TransferState::Reserved) {
            let (number, expiration) = (outcome.subject, prepare.expiration);
            let open = Open { number, payer: NOBODY, payee: NOBODY, amount: 0, expiration };
            self.open.insert(prepare.id, open);
        }
    }

    fn prepare(&mut self, prepare: &Prepare, outcome: &Outcome) -> Result<(), String> {
        let seat = |of| self.seats.get(&(of, prepare.currency)).copied();
        let (Some(payer), Some(payee)) = (seat(prepare.payer), seat(prepare.payee)) else {
            return Err(format!("{} has no accounts and was not INVALID", prepare.id));
        };
        let amount = i128::from(prepare.amount.0);
        let purse = self.purses.entry(payer).or_default();
        if !purse.active || [prepare.payer, prepare.payee].iter().any(|of| self.switched_off.contains(of)) {
            return Err(format!("{} was taken of or for somebody inactive", prepare.id));
        }
        let refusal = if -purse.settlement - purse.position < amount {
            Some(ErrorCode::PayerInsufficientLiquidity)
        } else if purse.cap.is_some_and(|cap| cap - purse.position < amount) {
            Some(ErrorCode::PayerLimitError)
        } else {
            None
        };
        let expected =
            if refusal.is_none() { TransferState::Reserved } else { TransferState::AbortedRejected };
        if refusal.is_none() {
            purse.position += amount;
        }
        let code = refusal.map(ErrorCode::number);
        let answered = outcome.code.map(|code| code.number());
        if (outcome.state, answered, outcome.value.0) != (Some(expected), code, purse.position) {
            return Err(format!(
                "a prepare of {amount} ({}) should be {expected} ({code:?}) with {purse:?}, and was {outcome:?}",
                prepare.id
            ));
        }
        if refusal.is_none() {
            let open = Open { number: outcome.subject, payer, payee, amount, expiration: prepare.expiration };
            self.open.insert(prepare.id, open);
        }
        Ok(())
    }

    /// Within a batch a transfer has one command, so an end that is answered is the end that it made.
    fn complete(&mut self, command: &Command, outcome: &Outcome) {
        let Some(id) = command.transfer() else { return };
        let Some(open) = self.open.get(&id).copied() else { return };
        let account = match outcome.state {
            Some(TransferState::Committed) => open.payee,
            Some(TransferState::AbortedError) => open.payer,
            _ => return,
        };
        self.open.remove(&id);
        self.purses.entry(account).or_default().position -= open.amount;
    }

    /// Leases of tokens and what ends in the shop have their parts of the bound; their own auditors count them.
    fn expire(&mut self, frame: &Decided<'_>, holds_max: u32) -> Result<(), String> {
        let time = frame.header.time_ms;
        let mut due: Vec<(TransferId, Open)> = self
            .open
            .iter()
            .filter(|(_, open)| open.expiration < time)
            .map(|(id, open)| (*id, *open))
            .collect();
        due.sort_by_key(|(_, open)| (open.expiration, open.number));
        let ended = frame.holds_ended();
        let used_up =
            frame.effects.outcomes.first().is_some_and(|first| first.subject == u64::from(holds_max));
        let fair = used_up && ended >= holds_max as usize / 4;
        if ended > due.len() || (ended < due.len() && !fair) {
            return Err(format!("an expiry ended {ended} holds; due are {due:?}"));
        }
        due.truncate(ended);
        for (id, open) in due {
            self.open.remove(&id);
            self.purses.entry(open.payer).or_default().position -= open.amount;
        }
        Ok(())
    }

    fn operator(&mut self, admin: &Admin, outcome: &Outcome) -> Result<(), String> {
        if outcome.code.is_some() {
            return Ok(());
        }
        match *admin {
            Admin::CreateParticipant { currency, .. } => {
                let (participant, account) = (outcome.subject & 0xffff_ffff, outcome.subject >> 32);
                let number = |wide| u32::try_from(wide).expect("one half of 64 bits");
                let seat = (ParticipantId(number(participant)), currency);
                self.seats.insert(seat, AccountId(number(account)));
            }
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
                let purse = self.purse(participant, currency);
                purse.active = true;
                purse.cap = Some(net_debit_cap.0.into());
                purse.position += i128::from(initial_position.0);
            }
            Admin::SetLimit { participant, currency, net_debit_cap, .. } => {
                self.purse(participant, currency).cap = Some(net_debit_cap.0.into());
            }
            Admin::FundsIn { id, account, amount, .. } => {
                if self.moved.insert(id) {
                    self.settlement(account).settlement -= i128::from(amount.0);
                }
            }
            Admin::FundsOutReserve { id, account, amount, .. } => {
                if self.moved.insert(id) {
                    let purse = self.settlement(account);
                    purse.settlement += i128::from(amount.0);
                    if -purse.settlement < purse.position.max(0) {
                        return Err(format!("funds out of {amount} leave {purse:?}"));
                    }
                    self.leaving.insert(id, amount.0.into());
                }
            }
            Admin::FundsOutCommit { id, .. } => {
                self.leaving.remove(&id);
            }
            Admin::FundsOutAbort { id, account } => {
                if let Some(amount) = self.leaving.remove(&id) {
                    self.settlement(account).settlement -= amount;
                }
            }
            Admin::SetParticipantActive { participant, active: false } => {
                self.switched_off.insert(participant);
            }
            Admin::SetParticipantActive { participant, active: true } => {
                self.switched_off.remove(&participant);
            }
            Admin::SetAccountActive { account, active } => {
                self.purses.entry(account).or_default().active = active;
            }
        }
        Ok(())
    }

    fn purse(&mut self, participant: ParticipantId, currency: Currency) -> &mut Purse {
        let account = self.seats[&(participant, currency)];
        self.purses.entry(account).or_default()
    }

    /// A settlement account is the number after its position account.
    fn settlement(&mut self, account: AccountId) -> &mut Purse {
        self.purses.entry(AccountId(account.0 - 1)).or_default()
    }
}
