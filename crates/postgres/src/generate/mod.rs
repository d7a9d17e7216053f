//! A data set to measure and try with: transfers of all states with their history, positions, holds and audit records, as
//! if the handlers had written them. `Store::verify` agrees with it. What the data set of the embedded profile has in common
//! with it is `shape`.

mod draw;
pub mod shape;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::command::Admin;
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferNo};
use holdfast_domain::money::Balance;
use holdfast_domain::participants::Name;
use holdfast_domain::transfers::{Transfer, TransferState};
use postgres::Transaction;

use self::draw::{Draw, Party};
use self::shape::{PARTIES, condition};
use crate::Error;
use crate::audit::{ChangeRow, Record, StateRow, effects_hash};
use crate::copy::CopyRows;
use crate::guard::{Appended, Guard, Source, signed};
use crate::load::{Loader, number};
use crate::session::{BATCH_MESSAGES_MAX, Statements, Store, take_numbers};
use crate::types::Moment;
use crate::write::{
    COPY_STATES, COPY_TIMEOUTS, COPY_TRANSFERS, account_number, code_number, put_changes, put_transfer,
    shard_of,
};

/// What fulfils every generated transfer that is open.
pub const PREIMAGE: [u8; 32] = [0x67; 32];
/// The most transfers of one data set.
pub const TRANSFERS_MAX: u64 = 1_000_000_000;
/// The furthest that an expiration lies from now.
pub const HOURS_MAX: u32 = 10 * 366 * 24;
/// The largest amount, in whole units: a sum of them stays readable.
pub const AMOUNT_MAX: i64 = 1_000_000_000;
/// The most currencies.
pub const CURRENCIES_MAX: usize = 100;

/// What to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSet {
    /// Transfers.
    pub total: u64,
    /// Of them open and past their expiration, randomly distributed.
    pub expired: u64,
    /// The smallest and the largest amount, in whole units.
    pub amount: (i64, i64),
    /// The currencies, evenly used.
    pub currencies: Vec<Currency>,
    /// How many hours expirations lie from now, at least and at most: those of open transfers ahead, all others back.
    pub hours: (u32, u32),
    /// How often progress is told.
    pub progress_every: u64,
    /// From where chance comes.
    pub seed: u64,
}

impl Default for DataSet {
    /// The document's own example.
    fn default() -> DataSet {
        let currency = |letters: &[u8; 3]| Currency::from_letters(*letters).expect("three capital letters");
        DataSet {
            total: 1_000_000,
            expired: 1_000,
            amount: (1, 100),
            currencies: vec![currency(b"USD"), currency(b"EUR"), currency(b"ZAR")],
            hours: (0, 168),
            progress_every: 5_000,
            seed: 1,
        }
    }
}

impl DataSet {
    /// Tells what is out of bounds.
    ///
    /// # Errors
    /// [`Error::DataSet`] with the first bound that is passed.
    pub fn check(&self) -> Result<(), Error> {
        let refused = |what| Err(Error::DataSet(what));
        let currencies: BTreeSet<String> = self.currencies.iter().map(ToString::to_string).collect();
        match () {
            () if self.total == 0 || self.total > TRANSFERS_MAX => {
                refused("the total must be from 1 to 1,000,000,000")
            }
            () if self.expired > self.total => refused("no more can have expired than there are"),
            () if self.amount.0 < 1 || self.amount.1 > AMOUNT_MAX || self.amount.0 > self.amount.1 => {
                refused("amounts must be from 1 to 1,000,000,000, the smallest first")
            }
            () if currencies.is_empty() || currencies.len() > CURRENCIES_MAX => {
                refused("there must be from 1 to 100 currencies")
            }
            () if currencies.len() != self.currencies.len() => refused("a currency is named twice"),
            () if self.hours.0 > self.hours.1 || self.hours.1 > HOURS_MAX => {
                refused("hours must be from 0 to 87,840, the fewest first")
            }
            () if self.progress_every == 0 => refused("progress must be told every 1 or more transfers"),
            () => Ok(()),
        }
    }
}

/// What was generated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generated {
    /// Transfers.
    pub transfers: u64,
    /// Of them holds that can still run out.
    pub open: u64,
    /// Of those past their expiration.
    pub expired: u64,
    /// Rows of history.
    pub state_changes: u64,
    /// Changes of positions.
    pub position_changes: u64,
}

impl Store {
    /// Adds a data set to whatever there is; `progress` is told how many transfers are there and durable. Its
    /// participants are made for it and have neither funds nor limits. A data set that is not finished leaves whole
    /// batches behind, which are as good as any.
    ///
    /// # Errors
    /// [`Error::DataSet`] if it is out of bounds, or if the database fails.
    pub fn generate(&mut self, data: &DataSet, mut progress: impl FnMut(u64)) -> Result<Generated, Error> {
        data.check()?;
        let mut parties = Vec::with_capacity(data.currencies.len());
        for currency in &data.currencies {
            parties.push(self.generated_parties(*currency)?);
        }
        let claim = self.claim(&Source::Generate)?;
        let mut draw = Draw::new(data, &parties);
        let mut sum = Generated::default();
        while draw.left() > 0 {
            let count = draw.left().min(BATCH_MESSAGES_MAX as u64).min(data.progress_every);
            let wanted = usize::try_from(count).expect("at most a batch");
            take_numbers(&mut self.client, &mut self.numbers, wanted)?;
            let first = self.numbers.start;
            self.numbers.start += count;
            let mut tx = self.client.transaction()?;
            let Some(guard) = Guard::lock(&mut tx, &self.statements, &claim)? else {
                return Err(Error::DataSet("somebody else has begun to generate"));
            };
            let accounts = parties.iter().flatten().map(|party| party.account).collect();
            let mut loader = Loader::new(&mut tx, &self.statements);
            loader.lock_accounts(&accounts)?;
            let (loaded, now) = loader.finish()?;
            let standing = |id: &AccountId| (loaded.accounts[id].value, loaded.changes[id]);
            let mut rows = Rows {
                now,
                shards: self.settings.expiry_shards,
                running: accounts.iter().map(|id| (*id, standing(id))).collect(),
                transfers: (first..first + count).map(|no| draw.next(TransferNo(no), now)).collect(),
                states: Vec::new(),
                changes: Vec::new(),
                added: Generated { transfers: count, ..Generated::default() },
            };
            rows.move_positions();
            rows.write(&mut tx, &self.statements, guard)?;
            tx.commit()?;
            sum.add(&rows.added);
            progress(sum.transfers);
        }
        Ok(sum)
    }

    /// Moves the expiration of every open hold by `by` milliseconds, in the transfer and in its row of the expiry table
    /// alike; gives how many. The hash of a prepare covers its expiration: one that is sent again after this counts as
    /// modified.
    pub fn shift_expirations(&mut self, by: Millis) -> Result<u64, Error> {
        let mut tx = self.client.transaction()?;
        tx.batch_execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on;
             SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on",
        )?;
        // Transfers first and in order, as every handler locks them; what has ended meanwhile falls out there.
        let moved = tx.execute(
            "WITH held AS (
                 SELECT transfer_no FROM transfer
                 WHERE current_state IN (1, 3) AND transfer_no IN (SELECT transfer_no FROM transfer_timeout)
                 ORDER BY transfer_no FOR UPDATE
             ), moved AS (
                 UPDATE transfer t SET expiration_date = t.expiration_date + $1::bigint * interval '1 millisecond'
                 FROM held WHERE t.transfer_no = held.transfer_no
                 RETURNING t.transfer_no, t.expiration_date
             )
             UPDATE transfer_timeout o SET expiration_date = m.expiration_date
             FROM moved m WHERE m.transfer_no = o.transfer_no",
            &[&by],
        )?;
        tx.commit()?;
        Ok(moved)
    }

    /// The participants of one currency, made if they are not there.
    fn generated_parties(&mut self, currency: Currency) -> Result<Vec<Party>, Error> {
        let mut parties = Vec::new();
        for at in 1..=PARTIES {
            let name = format!("generated{}{at}", currency.to_string().to_lowercase());
            let create = Admin::CreateParticipant { name: Name::new(&name).expect("a short name"), currency };
            // One that is there already is refused, and found below all the same.
            self.participant(&create)?;
            let row = self.client.query_one(
                "SELECT p.participant_id, c.participant_currency_id
                 FROM participant p JOIN participant_currency c USING (participant_id)
                 WHERE lower(p.name) = $1 AND c.currency_id = $2 AND c.ledger_account_type = 'POSITION'",
                &[&name, &currency.to_string()],
            )?;
            parties.push(Party {
                participant: ParticipantId(number("participant", row.get(0))?),
                account: AccountId(number("participant_currency", row.get(1))?),
            });
        }
        Ok(parties)
    }
}

impl Generated {
    fn add(&mut self, more: &Generated) {
        self.transfers += more.transfers;
        self.open += more.open;
        self.expired += more.expired;
        self.state_changes += more.state_changes;
        self.position_changes += more.position_changes;
    }
}

/// The rows of one batch.
struct Rows {
    now: Millis,
    shards: i16,
    /// What each account stands at, and after how many changes.
    running: BTreeMap<AccountId, (Balance, i64)>,
    transfers: Vec<Transfer>,
    states: Vec<StateRow>,
    changes: Vec<ChangeRow>,
    added: Generated,
}

impl Rows {
    /// Gives every transfer the values of its accounts, one transfer after the other.
    fn move_positions(&mut self) {
        let Rows { running, transfers, changes, .. } = self;
        for transfer in transfers {
            let mut change = |account: Option<AccountId>, by: i64| {
                let account = account.expect("a drawn transfer has accounts");
                let (value, count) = running.get_mut(&account).expect("all accounts were loaded");
                value.0 += i128::from(by);
                changes.push(ChangeRow {
                    account: account_number(account),
                    change_no: *count,
                    transfer_no: Some(signed(transfer.no.0)),
                    change: i128::from(by),
                    value: value.0,
                });
                *count += 1;
                (*value).into()
            };
            let amount = transfer.amount.0;
            match transfer.state {
                TransferState::Reserved => {
                    transfer.reserved_value = change(transfer.payer_account, amount);
                }
                TransferState::Committed => {
                    transfer.reserved_value = change(transfer.payer_account, amount);
                    transfer.final_value = change(transfer.payee_account, -amount);
                }
                TransferState::AbortedError | TransferState::ExpiredReserved => {
                    transfer.reserved_value = change(transfer.payer_account, amount);
                    transfer.final_value = change(transfer.payer_account, -amount);
                }
                _ => {}
            }
        }
    }

    fn write(
        &mut self,
        tx: &mut Transaction<'_>,
        statements: &Statements,
        mut guard: Guard,
    ) -> Result<(), Error> {
        let offset = guard.offset + self.transfers.len() as u64;
        let mut record = Record::new(&guard, signed(offset), self.now);
        let mut transfers = CopyRows::new(21);
        let mut states = CopyRows::new(6);
        let mut timeouts = CopyRows::new(3);
        for row in &self.transfers {
            put_transfer(&mut transfers, row, &condition(row.payee, row.id));
            for (state, at) in row.history() {
                // What went wrong stands where it ended.
                let code = code_number(row.code).filter(|_| state == row.state);
                let (no, state) = (signed(row.no.0), i16::from(state.number()));
                states.row().big(no).small(state).optional(code, CopyRows::int).null();
                states.big(record.batch_id).moment(Moment(at));
                self.states.push(StateRow { transfer_no: no, state, code: code.unwrap_or(0), reason: 0 });
            }
            if matches!(row.state, TransferState::ReceivedPrepare | TransferState::Reserved) {
                let shard = shard_of(row.id, self.shards);
                timeouts.row().big(signed(row.no.0)).small(shard).moment(Moment(row.expiration));
                self.added.open += 1;
                self.added.expired += u64::from(row.expiration < self.now);
            }
        }
        transfers.send(tx, statements, COPY_TRANSFERS)?;
        states.send(tx, statements, COPY_STATES)?;
        timeouts.send(tx, statements, COPY_TIMEOUTS)?;
        put_changes(tx, statements, self.now, record.batch_id, &self.changes)?;

        record.effects_hash = effects_hash(&mut self.states, &mut self.changes, &mut []);
        guard.move_on(&record, offset);
        let (states, changes) = (self.states.len(), self.changes.len());
        (self.added.state_changes, self.added.position_changes) = (states as u64, changes as u64);
        let appended = Appended { states, changes, outbox: &[], lasts: true };
        guard.store(tx, statements, &record, &appended, 0)
    }
}
