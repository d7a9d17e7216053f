//! Invariant 2. No prepare is accepted beyond the limits in force at its place in the log, none that fits is
//! refused, and no funds leave that a position stands on. A naive model works through each frame one message at a time: it cuts the frame itself, lets credits
//! go before debits, and tests each prepare against plain numbers.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command, Prepare};
use holdfast_domain::effects::{Outcome, Step, Subject};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::transfers::TransferState;

use crate::witness::Decided;

/// What stands on one position account.
#[derive(Debug, Default)]
struct AccountBooks {
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
    accounts: BTreeMap<AccountId, AccountBooks>,
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

const fn expected_state(refusal: Option<ErrorCode>) -> TransferState {
    if refusal.is_none() { TransferState::Reserved } else { TransferState::AbortedRejected }
}

type Answered<'a> = (&'a Command, &'a Outcome);

impl LimitsHold {
    /// Works through a frame.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        let order =
            if frame.header.options & 1 == 1 { PrepareOrder::Smallest } else { PrepareOrder::Arrival };
        let lone: BTreeMap<u64, &Step> = frame.steps().map(|(offset, _, step)| (offset, step)).collect();
        let mut batch: Vec<Answered<'_>> = Vec::new();
        for ((offset, command), outcome) in
            (frame.header.base_offset..).zip(frame.commands).zip(frame.effects.all(|step| &step.outcomes))
        {
            let again = batch.iter().any(|(earlier, _)| earlier.transfer() == command.transfer());
            if again || stands_alone(command) || batch.last().is_some_and(|(last, _)| stands_alone(last)) {
                self.batch(&std::mem::take(&mut batch), order)?;
            }
            match command {
                Command::Admin(admin) => self.operator(admin, outcome)?,
                Command::Expire(expire) => {
                    self.expire(frame, expire.holds_max)?;
                    lone.get(&offset).map_or(Ok(()), |step| self.charged(step))?;
                }
                Command::Shop(_) => lone.get(&offset).map_or(Ok(()), |step| self.charged(step))?,
                _ => batch.push((command, outcome)),
            }
        }
        self.batch(&batch, order)
    }

    /// All credits first, then prepares in their order. Accounts do not touch one another, so it does not matter
    /// which account comes first.
    fn batch(&mut self, batch: &[Answered<'_>], order: PrepareOrder) -> Result<(), String> {
        for (command, outcome) in batch {
            if let (Command::Fulfil(_) | Command::Abort(_), Some(id)) = (command, command.transfer()) {
                // Within a batch a transfer has one command, so an end that is answered is the end that it made.
                self.ended(id, outcome.state);
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
            let (number, expiration) = (outcome.subject.number(), prepare.expiration);
            let open = Open { number, payer: NOBODY, payee: NOBODY, amount: 0, expiration };
            self.open.insert(prepare.id, open);
        }
    }

    /// Checkouts have transfers of their own: reserved under the limits of any other, and ended by the same step or a later one.
    fn charged(&mut self, step: &Step) -> Result<(), String> {
        for row in &step.transfers {
            let of_row = step.state_changes.iter().filter(|change| change.transfer == row.no);
            let came = of_row.map(|change| (change.state, change.code.map(|code| code.number()))).nth(1);
            let is_new = self.known.insert(row.id);
            let Some(came) = came.filter(|_| is_new) else { continue };
            let (refusal, payer, payee) =
                self.reserve(row.id, (row.payer, row.payee), row.currency, row.amount)?;
            let expected = (expected_state(refusal), refusal.map(ErrorCode::number));
            if came != expected {
                return Err(format!("a checkout's {row:?} should be {expected:?}, and was {came:?}"));
            }
            if refusal.is_none() {
                let (number, amount) = (row.no.0, i128::from(row.amount.0));
                self.open.insert(row.id, Open { number, payer, payee, amount, expiration: row.expiration });
            }
        }
        for change in &step.state_changes {
            let open = self.open.iter().find(|(_, open)| open.number == change.transfer.0);
            if let Some(id) = open.map(|(id, _)| *id) {
                self.ended(id, Some(change.state));
            }
        }
        Ok(())
    }

    /// Reserves what the limits allow; the refusal if they do not, and between which accounts it is.
    fn reserve(
        &mut self,
        id: TransferId,
        (payer, payee): (ParticipantId, ParticipantId),
        currency: Currency,
        amount: Amount,
    ) -> Result<(Option<ErrorCode>, AccountId, AccountId), String> {
        let seat = |of| self.seats.get(&(of, currency)).copied();
        let (Some(from), Some(to)) = (seat(payer), seat(payee)) else {
            return Err(format!("{id} has no accounts and was not INVALID"));
        };
        let amount = i128::from(amount.0);
        let account_books = self.accounts.entry(from).or_default();
        if !account_books.active || [payer, payee].iter().any(|of| self.switched_off.contains(of)) {
            return Err(format!("{id} was taken of or for somebody inactive"));
        }
        let refusal = if -account_books.settlement - account_books.position < amount {
            Some(ErrorCode::PayerInsufficientLiquidity)
        } else if account_books.cap.is_some_and(|cap| cap - account_books.position < amount) {
            Some(ErrorCode::PayerLimitError)
        } else {
            None
        };
        if refusal.is_none() {
            account_books.position += amount;
        }
        Ok((refusal, from, to))
    }

    fn prepare(&mut self, prepare: &Prepare, outcome: &Outcome) -> Result<(), String> {
        let parties = (prepare.payer, prepare.payee);
        let (refusal, payer, payee) = self.reserve(prepare.id, parties, prepare.currency, prepare.amount)?;
        let (expected, amount) = (expected_state(refusal), i128::from(prepare.amount.0));
        let account_books = self.accounts.entry(payer).or_default();
        let code = refusal.map(ErrorCode::number);
        let answered = outcome.code.map(|code| code.number());
        if (outcome.state, answered, outcome.value.0) != (Some(expected), code, account_books.position) {
            return Err(format!(
                "a prepare of {amount} ({}) should be {expected} ({code:?}) with {account_books:?}, and was {outcome:?}",
                prepare.id
            ));
        }
        if refusal.is_none() {
            let open = Open {
                number: outcome.subject.number(),
                payer,
                payee,
                amount,
                expiration: prepare.expiration,
            };
            self.open.insert(prepare.id, open);
        }
        Ok(())
    }

    /// A commit lowers the payee's position, an abort the payer's.
    fn ended(&mut self, id: TransferId, state: Option<TransferState>) {
        let Some(open) = self.open.get(&id).copied() else { return };
        let account = match state {
            Some(TransferState::Committed) => open.payee,
            Some(TransferState::AbortedError) => open.payer,
            _ => return,
        };
        self.open.remove(&id);
        self.accounts.entry(account).or_default().position -= open.amount;
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
        let used_up = frame
            .effects
            .all(|step| &step.outcomes)
            .next()
            .is_some_and(|first| first.subject.ended() == u64::from(holds_max));
        let fair = used_up && ended >= holds_max as usize / 4;
        if ended > due.len() || (ended < due.len() && !fair) {
            return Err(format!("an expiry ended {ended} holds; due are {due:?}"));
        }
        due.truncate(ended);
        for (id, open) in due {
            self.open.remove(&id);
            self.accounts.entry(open.payer).or_default().position -= open.amount;
        }
        Ok(())
    }

    fn operator(&mut self, admin: &Admin, outcome: &Outcome) -> Result<(), String> {
        if outcome.code.is_some() {
            return Ok(());
        }
        match *admin {
            Admin::CreateParticipant { currency, .. } => {
                if let Subject::Member(participant, account) = outcome.subject {
                    self.seats.insert((participant, currency), account);
                }
            }
            Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position } => {
                let account_books = self.account_books(participant, currency);
                account_books.active = true;
                account_books.cap = Some(net_debit_cap.0.into());
                account_books.position += i128::from(initial_position.0);
            }
            Admin::SetLimit { participant, currency, net_debit_cap, .. } => {
                self.account_books(participant, currency).cap = Some(net_debit_cap.0.into());
            }
            Admin::FundsIn { id, account, amount, .. } => {
                if self.moved.insert(id) {
                    self.settlement(account).settlement -= i128::from(amount.0);
                }
            }
            Admin::FundsOutReserve { id, account, amount, .. } => {
                if self.moved.insert(id) {
                    let account_books = self.settlement(account);
                    account_books.settlement += i128::from(amount.0);
                    if -account_books.settlement < account_books.position.max(0) {
                        return Err(format!("funds out of {amount} leave {account_books:?}"));
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
                self.accounts.entry(account).or_default().active = active;
            }
        }
        Ok(())
    }

    fn account_books(&mut self, participant: ParticipantId, currency: Currency) -> &mut AccountBooks {
        let account = self.seats[&(participant, currency)];
        self.accounts.entry(account).or_default()
    }

    /// A settlement account is the number after its position account.
    fn settlement(&mut self, account: AccountId) -> &mut AccountBooks {
        self.accounts.entry(AccountId(account.0 - 1)).or_default()
    }
}
