//! Lock and load. Transfers first, in the order of their numbers, then accounts in theirs: nobody waits in a circle.

use std::collections::BTreeSet;

use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance, OptionalBalance};
use holdfast_domain::participants::{
    ALARM_PERCENTAGE_DEFAULT, Account, AccountKind, FundsMovement, FundsState, Name, Participant,
};
use holdfast_domain::transfers::{Code, Completion, CompletionKind, Proof, Reason, Transfer, TransferState};
use postgres::{Row, Transaction};

use crate::Error;
use crate::guard::unsigned;
use crate::loaded::Loaded;
use crate::session::Statements;
use crate::step::Locked;
use crate::types::{Decimal, Moment, Uuid};

/// Reads within one transaction.
pub(crate) struct Loader<'a, 'c> {
    pub(crate) tx: &'a mut Transaction<'c>,
    pub(crate) statements: &'a Statements,
    pub(crate) loaded: Loaded,
    /// The clock, as the last reading under all locks found it.
    now: Option<Millis>,
}

impl<'a, 'c> Loader<'a, 'c> {
    pub(crate) fn new(tx: &'a mut Transaction<'c>, statements: &'a Statements) -> Loader<'a, 'c> {
        Loader { tx, statements, loaded: Loaded::default(), now: None }
    }

    /// What is locked from here on may have been waited for.
    pub(crate) const fn forget_clock(&mut self) {
        self.now = None;
    }

    /// Locks the transfers of these ids, as far as there are any.
    pub(crate) fn lock_transfers(&mut self, ids: &BTreeSet<TransferId>) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        self.forget_clock();
        let ids: Vec<Uuid> = ids.iter().map(|id| Uuid(id.0)).collect();
        for row in self.tx.query(&self.statements.transfers_by_id, &[&ids])? {
            self.loaded.put_transfer(transfer_of(&row)?);
        }
        Ok(())
    }

    /// Locks the transfers of these numbers, except those that somebody else has locked.
    pub(crate) fn lock_unlocked_transfers(&mut self, numbers: &[i64]) -> Result<(), Error> {
        if numbers.is_empty() {
            return Ok(());
        }
        for row in self.tx.query(&self.statements.transfers_by_no, &[&numbers])? {
            self.loaded.put_transfer(transfer_of(&row)?);
        }
        Ok(())
    }

    /// Reads participants, with their position accounts in the currencies asked for.
    pub(crate) fn participants(&mut self, wanted: &BTreeSet<(ParticipantId, Currency)>) -> Result<(), Error> {
        if wanted.is_empty() {
            return Ok(());
        }
        // Numbers that cannot be stored belong to nobody.
        let pairs: Vec<(i32, String)> = wanted
            .iter()
            .filter_map(|(id, currency)| Some((i32::try_from(id.0).ok()?, currency.to_string())))
            .collect();
        let (ids, currencies): (Vec<i32>, Vec<String>) = pairs.into_iter().unzip();
        for row in self.tx.query(&self.statements.participants, &[&ids])? {
            let row = participant_of(&row)?;
            self.loaded.participants.insert(row.id, row);
        }
        for row in self.tx.query(&self.statements.position_accounts, &[&ids, &currencies])? {
            let owner = ParticipantId(number("participant_currency", row.get(0))?);
            let currency = currency_of(row.get(1))?;
            let account = AccountId(number("participant_currency", row.get(2))?);
            let participant = self.loaded.participants.get_mut(&owner);
            let participant =
                participant.ok_or_else(|| Error::corrupt("participant_currency", "an account of nobody"))?;
            participant.accounts.push((currency, account));
        }
        Ok(())
    }

    /// Reads accounts without a lock.
    pub(crate) fn accounts(&mut self, ids: &BTreeSet<AccountId>) -> Result<(), Error> {
        let ids = account_numbers(ids);
        if ids.is_empty() {
            return Ok(());
        }
        for row in self.tx.query(&self.statements.accounts, &[&ids])? {
            let (account, changes) = account_of(&row)?;
            let now: Moment = row.get(12);
            self.now = Some(now.0);
            self.loaded.changes.insert(account.id, changes);
            self.loaded.accounts.insert(account.id, account);
        }
        Ok(())
    }

    /// Locks accounts, and only then reads them: limits lie in another table, and a row that is waited for is read anew
    /// alone.
    pub(crate) fn lock_accounts(&mut self, ids: &BTreeSet<AccountId>) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        self.tx.query(&self.statements.lock_accounts, &[&account_numbers(ids)])?;
        self.accounts(ids)
    }

    /// Locks movements of funds.
    pub(crate) fn lock_funds(&mut self, ids: &BTreeSet<TransferId>) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        self.forget_clock();
        let ids: Vec<Uuid> = ids.iter().map(|id| Uuid(id.0)).collect();
        for row in self.tx.query(&self.statements.funds, &[&ids])? {
            let id: Uuid = row.get(0);
            let state: i16 = row.get(3);
            let funds = FundsMovement {
                id: TransferId(id.0),
                account: AccountId(number("participant_funds", row.get(1))?),
                amount: amount_of(row.get(2))?,
                state: funds_state_of(state)
                    .ok_or_else(|| Error::corrupt("participant_funds", format!("state {state}")))?,
            };
            self.loaded.funds.insert(funds.id, funds);
        }
        Ok(())
    }

    /// What was loaded, and the clock behind all locks.
    pub(crate) fn finish(mut self) -> Result<Locked, Error> {
        let now = self.clock()?;
        Ok((self.loaded, now))
    }

    /// The one clock, read after the locks: with the accounts, if those came last.
    pub(crate) fn clock(&mut self) -> Result<Millis, Error> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let now: Moment = self.tx.query_one(&self.statements.clock, &[])?.get(0);
        Ok(now.0)
    }
}

fn account_numbers(ids: &BTreeSet<AccountId>) -> Vec<i32> {
    ids.iter().filter_map(|id| i32::try_from(id.0).ok()).collect()
}

pub(crate) fn number(table: &'static str, number: i32) -> Result<u32, Error> {
    u32::try_from(number).map_err(|_| Error::corrupt(table, format!("the number {number}")))
}

pub(crate) fn currency_of(text: &str) -> Result<Currency, Error> {
    text.parse().map_err(|error| Error::corrupt("transfer or participant_currency", error))
}

pub(crate) fn amount_of(decimal: Decimal) -> Result<Amount, Error> {
    i64::try_from(decimal.0)
        .map(Amount)
        .map_err(|_| Error::corrupt("transfer or participant_limit", format!("an amount of {}", decimal.0)))
}

fn funds_state_of(number: i16) -> Option<FundsState> {
    [FundsState::ReceivedIn, FundsState::OutReserved, FundsState::OutCommitted, FundsState::OutAborted]
        .into_iter()
        .find(|state| i16::from(*state as u8) == number)
}

pub(crate) fn participant_of(row: &Row) -> Result<Participant, Error> {
    let created: Moment = row.get(3);
    let name: &str = row.get(1);
    Ok(Participant {
        id: ParticipantId(number("participant", row.get(0))?),
        name: Name::new(name).ok_or_else(|| Error::corrupt("participant", format!("the name '{name}'")))?,
        active: row.get(2),
        accounts: Vec::new(),
        created_at: created.0,
    })
}

pub(crate) fn account_of(row: &Row) -> Result<(Account, i64), Error> {
    let kind: &str = row.get(3);
    let (created, changed): (Moment, Moment) = (row.get(5), row.get(9));
    let (value, reserved): (Decimal, Decimal) = (row.get(6), row.get(7));
    let (cap, alarm): (Option<Decimal>, Option<i16>) = (row.get(10), row.get(11));
    let alarm = alarm.map(u16::try_from).transpose();
    let account = Account {
        id: AccountId(number("participant_currency", row.get(0))?),
        participant: ParticipantId(number("participant_currency", row.get(1))?),
        currency: currency_of(row.get(2))?,
        kind: if kind == AccountKind::Position.name() {
            AccountKind::Position
        } else {
            AccountKind::Settlement
        },
        active: row.get(4),
        value: Balance(value.0),
        reserved: Balance(reserved.0),
        net_debit_cap: cap.map(amount_of).transpose()?,
        alarm_percentage: alarm
            .map_err(|_| Error::corrupt("participant_limit", "a negative alarm percentage"))?
            .unwrap_or(ALARM_PERCENTAGE_DEFAULT),
        created_at: created.0,
        changed_at: changed.0,
    };
    Ok((account, row.get(8)))
}

pub(crate) fn transfer_of(row: &Row) -> Result<Transfer, Error> {
    let corrupt = |what: &str| Error::corrupt("transfer", what);
    let digest = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).map_err(|_| corrupt("a digest"));
    let account = |number: Option<i32>| -> Result<Option<AccountId>, Error> {
        number.map(|of| self::number("transfer", of).map(AccountId)).transpose()
    };
    let party =
        |number: i64| u32::try_from(number).map(ParticipantId).map_err(|_| corrupt("a participant's number"));
    let small = |number: i16| u8::try_from(number).ok();
    let state: i16 = row.get(13);
    let state = small(state).and_then(TransferState::from_number).ok_or_else(|| corrupt("a state"))?;
    let (code, reason): (Option<i32>, Option<i16>) = (row.get(14), row.get(15));
    let (kind, completed): (Option<i16>, Option<&[u8]>) = (row.get(19), row.get(20));
    let proof = match (kind, completed) {
        (Some(kind), Some(completed)) => {
            let kind = small(kind).and_then(completion_of).ok_or_else(|| corrupt("a completion"))?;
            Proof::Completed(Completion { kind, digest: digest(completed)? })
        }
        _ if state.is_final() => Proof::Nothing,
        _ => Proof::Condition(digest(row.get(9))?),
    };
    let id: Uuid = row.get(1);
    let (expiration, prepared, changed): (Moment, Moment, Moment) = (row.get(8), row.get(12), row.get(16));
    let value =
        |decimal: Option<Decimal>| decimal.map_or(OptionalBalance::NONE, |decimal| Balance(decimal.0).into());
    Ok(Transfer {
        no: TransferNo(unsigned("transfer", row.get(0))?),
        id: TransferId(id.0),
        payer: party(row.get(2))?,
        payee: party(row.get(3))?,
        payer_account: account(row.get(4))?,
        payee_account: account(row.get(5))?,
        currency: currency_of(row.get(6))?,
        amount: amount_of(row.get(7))?,
        expiration: expiration.0,
        proof,
        hash: digest(row.get(10))?,
        state,
        code: code.and_then(|code| u16::try_from(code).ok()).and_then(Code::of_payee),
        reason: reason.and_then(small).and_then(Reason::from_number),
        offset: unsigned("transfer", row.get(11))?,
        prepared_at: prepared.0,
        changed_at: changed.0,
        reserved_value: value(row.get(17)),
        final_value: value(row.get(18)),
    })
}

fn completion_of(number: u8) -> Option<CompletionKind> {
    let all = [CompletionKind::Commit, CompletionKind::Reserve, CompletionKind::Abort];
    all.into_iter().find(|kind| *kind as u8 == number)
}
