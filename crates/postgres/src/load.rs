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
use crate::session::{Statements, transfer_columns};
use crate::step::Locked;
use crate::types::{Decimal, Moment, Uuid, list};
use crate::written::Parameters;

/// Participants, without their accounts, as [`participant_of`] reads them.
macro_rules! participants {
    ($filter:literal) => {
        concat!("SELECT participant_id, name, is_active, created_date FROM participant ", $filter)
    };
}
pub(crate) use participants;

/// Accounts as [`account_of`] reads them, with what else is asked for behind that.
macro_rules! accounts {
    ($more:literal, $filter:literal) => {
        concat!(
            "SELECT c.participant_currency_id, c.participant_id, c.currency_id, c.ledger_account_type,
                 c.is_active, c.created_date, p.value, p.reserved_value, p.changes, p.changed_date,
                 l.value, l.threshold_alarm_percentage",
            $more,
            " FROM participant_currency c
             JOIN participant_position p USING (participant_currency_id)
             LEFT JOIN participant_limit l
                 ON l.participant_currency_id = c.participant_currency_id AND l.is_active ",
            $filter
        )
    };
}
pub(crate) use accounts;

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

    pub(crate) fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.statements.query(self.tx, sql, parameters)
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
        const BY_ID: &str = transfer_columns!(
            "SELECT ",
            " FROM transfer WHERE transfer_id = ANY($1) ORDER BY transfer_no FOR UPDATE"
        );
        for row in self.query(BY_ID, &[&list(ids, |id| Uuid(id.0))])? {
            self.loaded.put_transfer(transfer_of(&row)?);
        }
        Ok(())
    }

    /// Locks the transfers of these numbers, except those that somebody else has locked.
    pub(crate) fn lock_unlocked_transfers(&mut self, numbers: &[i64]) -> Result<(), Error> {
        if numbers.is_empty() {
            return Ok(());
        }
        const BY_NO: &str = transfer_columns!(
            "SELECT ",
            " FROM transfer WHERE transfer_no = ANY($1) ORDER BY transfer_no FOR UPDATE SKIP LOCKED"
        );
        for row in self.query(BY_NO, &[&numbers])? {
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
        let (ids, currencies): (Vec<i32>, Vec<String>) = wanted
            .iter()
            .filter_map(|(id, currency)| Some((i32::try_from(id.0).ok()?, currency.to_string())))
            .unzip();
        for row in self.query(participants!("WHERE participant_id = ANY($1)"), &[&ids])? {
            let row = participant_of(&row)?;
            self.loaded.participants.insert(row.id, row);
        }
        const POSITION_ACCOUNTS: &str = "
            SELECT c.participant_id, c.currency_id, c.participant_currency_id
            FROM (SELECT DISTINCT p, k FROM unnest($1::int[], $2::text[]) AS wanted (p, k)) w
            JOIN participant_currency c ON c.participant_id = w.p AND c.currency_id = w.k
                AND c.ledger_account_type = 'POSITION'";
        for row in self.query(POSITION_ACCOUNTS, &[&ids, &currencies])? {
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
        const BY_ID: &str = accounts!(", hub_clock()", "WHERE c.participant_currency_id = ANY($1)");
        for row in self.query(BY_ID, &[&ids])? {
            let (account, changes) = account_of(&row)?;
            let Moment(now) = row.get(12);
            self.now = Some(now);
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
        self.query(
            "SELECT participant_currency_id FROM participant_position
             WHERE participant_currency_id = ANY($1) ORDER BY participant_currency_id FOR UPDATE",
            &[&account_numbers(ids)],
        )?;
        self.accounts(ids)
    }

    /// Locks position accounts and the settlement accounts that they are judged with, which have the numbers after.
    pub(crate) fn lock_with_settlements(&mut self, mut accounts: BTreeSet<AccountId>) -> Result<(), Error> {
        let settlements: Vec<AccountId> =
            accounts.iter().filter_map(|account| account.0.checked_add(1)).map(AccountId).collect();
        accounts.extend(settlements);
        self.lock_accounts(&accounts)
    }

    /// Locks movements of funds.
    pub(crate) fn lock_funds(&mut self, ids: &BTreeSet<TransferId>) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        self.forget_clock();
        const FUNDS: &str = "
            SELECT transfer_id, participant_currency_id, amount, funds_state_id FROM participant_funds
            WHERE transfer_id = ANY($1) ORDER BY transfer_id FOR UPDATE";
        for row in self.query(FUNDS, &[&list(ids, |id| Uuid(id.0))])? {
            let (Uuid(id), state): (_, i16) = (row.get(0), row.get(3));
            let funds = FundsMovement {
                id: TransferId(id),
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
        self.now.map_or_else(|| self.statements.clock(self.tx), Ok)
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
    let Moment(created_at) = row.get(3);
    Ok(Participant {
        id: ParticipantId(number("participant", row.get(0))?),
        name: name_of(row.get(1))?,
        active: row.get(2),
        accounts: Vec::new(),
        created_at,
    })
}

pub(crate) fn name_of(text: &str) -> Result<Name, Error> {
    Name::new(text).ok_or_else(|| Error::corrupt("participant", format!("the name '{text}'")))
}

pub(crate) fn state_of(table: &'static str, number: i16) -> Result<TransferState, Error> {
    let state = u8::try_from(number).ok().and_then(TransferState::from_number);
    state.ok_or_else(|| Error::corrupt(table, format!("the state {number}")))
}

pub(crate) fn account_of(row: &Row) -> Result<(Account, i64), Error> {
    let kind: &str = row.get(3);
    let (Moment(created_at), Moment(changed_at)) = (row.get(5), row.get(9));
    let (Decimal(value), Decimal(reserved)) = (row.get(6), row.get(7));
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
        value: Balance(value),
        reserved: Balance(reserved),
        net_debit_cap: cap.map(amount_of).transpose()?,
        alarm_percentage: alarm
            .map_err(|_| Error::corrupt("participant_limit", "a negative alarm percentage"))?
            .unwrap_or(ALARM_PERCENTAGE_DEFAULT),
        created_at,
        changed_at,
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
    let state = state_of("transfer", row.get(13))?;
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
    let Uuid(id) = row.get(1);
    let (Moment(expiration), Moment(prepared_at), Moment(changed_at)) =
        (row.get(8), row.get(12), row.get(16));
    let value =
        |decimal: Option<Decimal>| decimal.map_or(OptionalBalance::NONE, |decimal| Balance(decimal.0).into());
    Ok(Transfer {
        no: TransferNo(unsigned("transfer", row.get(0))?),
        id: TransferId(id),
        payer: party(row.get(2))?,
        payee: party(row.get(3))?,
        payer_account: account(row.get(4))?,
        payee_account: account(row.get(5))?,
        currency: currency_of(row.get(6))?,
        amount: amount_of(row.get(7))?,
        expiration,
        proof,
        hash: digest(row.get(10))?,
        state,
        code: code.and_then(|code| u16::try_from(code).ok()).and_then(Code::of_payee),
        reason: reason.and_then(small).and_then(Reason::from_number),
        offset: unsigned("transfer", row.get(11))?,
        prepared_at,
        changed_at,
        reserved_value: value(row.get(17)),
        final_value: value(row.get(18)),
    })
}

fn completion_of(number: u8) -> Option<CompletionKind> {
    let all = [CompletionKind::Commit, CompletionKind::Reserve, CompletionKind::Abort];
    all.into_iter().find(|kind| *kind as u8 == number)
}
