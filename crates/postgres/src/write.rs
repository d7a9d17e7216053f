//! Effects become rows: set-based, in the transaction that also moves the offset.

use std::collections::BTreeMap;

use holdfast_domain::effects::Effects;
use holdfast_domain::ids::{AccountId, Millis, TransferId, TransferNo};
use holdfast_domain::money::{Balance, OptionalBalance};
use holdfast_domain::participants::FundsState;
use holdfast_domain::transfers::{Code, Reason, Transfer};
use postgres::Transaction;

use crate::Error;
use crate::audit::{ChangeRow, Record, StateRow, effects_hash};
use crate::copy::CopyRows;
use crate::guard::{Appended, Guard, signed};
use crate::loaded::Loaded;
use crate::outbox::{Outbox, OutboxPiece, written};
use crate::session::{Point, Statements, Watch, transfer_columns};
use crate::shop;
use crate::step::Opened;
use crate::types::{Decimal, Moment, Uuid, list};

/// Messages of one row of the outbox: a relay that begins anew reads whole rows.
const OUTBOX_ROW_MESSAGES: usize = 1_000;

pub(crate) const COPY_TRANSFERS: &str = transfer_columns!("COPY transfer (", ") FROM STDIN (FORMAT binary)");
pub(crate) const COPY_STATES: &str =
    "COPY transfer_state_change (transfer_no, transfer_state_id, error_code, error_reason, batch_id,
     created_date) FROM STDIN (FORMAT binary)";
pub(crate) const COPY_TIMEOUTS: &str =
    "COPY transfer_timeout (transfer_no, shard, expiration_date) FROM STDIN (FORMAT binary)";

/// Writes what a step has decided.
pub(crate) struct Writer<'a, 's> {
    pub(crate) step: &'a mut Opened<'s>,
    pub(crate) watch: &'a mut Watch,
}

impl Writer<'_, '_> {
    /// Applies the effects to what was loaded, writes all rows, and moves the guard on to `next_offset`; all below `sent`
    /// in the outbox goes.
    pub(crate) fn write(
        &mut self,
        next_offset: u64,
        mut loaded: Loaded,
        effects: &Effects,
        outbox: &Outbox<'_>,
        sent: u64,
        lasts: bool,
    ) -> Result<Guard, Error> {
        let (mut guard, now, settings) = (self.step.guard, self.step.now, self.step.settings);
        let mut changes = account_changes(&loaded, effects);
        effects.steps.iter().for_each(|step| step.apply_payments(now, &mut loaded));
        loaded.shop.apply(effects);
        let mut record = Record::new(&guard, signed(next_offset), now);
        shop::write(&mut self.step.writer(), &loaded.shop, settings, now)?;
        self.transfers(&loaded, effects)?;
        let mut states = self.state_changes(effects, record.batch_id)?;
        put_changes(&mut self.step.tx, self.step.statements, now, record.batch_id, &changes)?;
        self.limits_and_funds(effects)?;
        self.timeouts(&loaded)?;
        loaded.pledged.write(&mut self.step.writer(), now, effects)?;
        self.dead_letters(&guard, outbox)?;
        self.watch.reached(Point::EffectsWritten);

        let written = &mut self.step.written;
        record.effects_hash = effects_hash(&mut states, &mut changes, &mut written.appended);
        record.rows_hash = written.rows_hash();
        guard.move_on(&record, next_offset);
        let (states, changes) = (states.len(), changes.len());
        let appended = Appended { states, changes, outbox: &pieces(&mut guard, outbox), lasts };
        guard.store(&mut self.step.tx, self.step.statements, &record, &appended, sent)?;
        self.watch.reached(Point::OffsetWritten);
        Ok(guard)
    }

    fn transfers(&mut self, loaded: &Loaded, effects: &Effects) -> Result<(), Error> {
        let row = |no: TransferNo| &loaded.transfers[&no];
        let mut new = CopyRows::new(21);
        for added in effects.all(|step| &step.transfers) {
            let condition = added.condition().copied().unwrap_or_default();
            put_transfer(&mut new, row(added.no), &condition);
        }
        new.send(&mut self.step.tx, self.step.statements, COPY_TRANSFERS)?;

        let added: Vec<TransferNo> = effects.all(|step| &step.transfers).map(|row| row.no).collect();
        let mut changed: Vec<TransferNo> =
            effects.all(|step| &step.state_changes).map(|row| row.transfer).collect();
        changed.sort_unstable();
        changed.dedup();
        changed.retain(|no| added.binary_search(no).is_err());
        let mut completions: Vec<TransferNo> =
            effects.all(|step| &step.completions).map(|row| row.transfer).collect();
        completions.sort_unstable();
        let (completed, moved): (Vec<&Transfer>, Vec<&Transfer>) =
            changed.into_iter().map(row).partition(|row| completions.binary_search(&row.no).is_ok());
        self.move_transfers(&moved)?;
        self.complete_transfers(&completed)
    }

    fn move_transfers(&mut self, moved: &[&Transfer]) -> Result<(), Error> {
        if moved.is_empty() {
            return Ok(());
        }
        let written = self.step.statements.execute(
            &mut self.step.tx,
            "UPDATE transfer t SET current_state = u.state, error_code = u.code, error_reason = u.reason,
                 changed_date = $2, reserved_value = u.reserved, final_value = u.final
             FROM unnest($1::bigint[], $3::smallint[], $4::int[], $5::smallint[], $6::numeric[],
                 $7::numeric[]) AS u (no, state, code, reason, reserved, final)
             WHERE t.transfer_no = u.no",
            &[
                &list(moved, |row| signed(row.no.0)),
                &Moment(self.step.now),
                &list(moved, |row| i16::from(row.state.number())),
                &list(moved, |row| code_number(row.code)),
                &list(moved, |row| reason_number(row.reason)),
                &list(moved, |row| decimal(row.reserved_value)),
                &list(moved, |row| decimal(row.final_value)),
            ],
        )?;
        assert_eq!(written, moved.len() as u64, "locked transfers do not vanish");
        Ok(())
    }

    /// Where the position moves in the same step, its values come with it.
    fn complete_transfers(&mut self, completed: &[&Transfer]) -> Result<(), Error> {
        if completed.is_empty() {
            return Ok(());
        }
        let completion = |row: &Transfer| row.completion().expect("it was just completed");
        let written = self.step.statements.execute(
            &mut self.step.tx,
            "UPDATE transfer t SET current_state = u.state, error_code = u.code, error_reason = u.reason,
                 changed_date = $2, completion_kind = u.kind, completion_digest = u.digest,
                 reserved_value = u.reserved, final_value = u.final
             FROM unnest($1::bigint[], $3::smallint[], $4::int[], $5::smallint[], $6::smallint[],
                 $7::bytea[], $8::numeric[], $9::numeric[])
                 AS u (no, state, code, reason, kind, digest, reserved, final)
             WHERE t.transfer_no = u.no",
            &[
                &list(completed, |row| signed(row.no.0)),
                &Moment(self.step.now),
                &list(completed, |row| i16::from(row.state.number())),
                &list(completed, |row| code_number(row.code)),
                &list(completed, |row| reason_number(row.reason)),
                &list(completed, |row| i16::from(completion(row).kind as u8)),
                &list(completed, |row| completion(row).digest.to_vec()),
                &list(completed, |row| decimal(row.reserved_value)),
                &list(completed, |row| decimal(row.final_value)),
            ],
        )?;
        assert_eq!(written, completed.len() as u64, "locked transfers do not vanish");
        Ok(())
    }

    fn state_changes(&mut self, effects: &Effects, batch_id: i64) -> Result<Vec<StateRow>, Error> {
        let mut copy = CopyRows::new(6);
        let mut rows = Vec::with_capacity(effects.all(|step| &step.state_changes).count());
        for change in effects.all(|step| &step.state_changes) {
            let row = StateRow {
                transfer_no: signed(change.transfer.0),
                state: i16::from(change.state.number()),
                code: code_number(change.code).unwrap_or(0),
                reason: reason_number(change.reason).unwrap_or(0),
            };
            copy.row().big(row.transfer_no).small(row.state);
            copy.optional(code_number(change.code), CopyRows::int);
            copy.optional(reason_number(change.reason), CopyRows::small);
            copy.big(batch_id).moment(Moment(self.step.now));
            rows.push(row);
        }
        copy.send(&mut self.step.tx, self.step.statements, COPY_STATES)?;
        Ok(rows)
    }

    /// What the operator changed: rare, so row by row.
    fn limits_and_funds(&mut self, effects: &Effects) -> Result<(), Error> {
        for account in effects.all(|step| &step.accounts) {
            let id = account_number(account.id);
            self.step.tx.execute(
                "UPDATE participant_currency SET is_active = $2 WHERE participant_currency_id = $1",
                &[&id, &account.active],
            )?;
            let Some(cap) = account.net_debit_cap else { continue };
            let (cap, alarm) = (Decimal(i128::from(cap.0)), small(account.alarm_percentage));
            // A limit that is in force already makes no history.
            let kept = self.step.tx.query_opt(
                "SELECT 1 FROM participant_limit WHERE participant_currency_id = $1 AND is_active
                     AND value = $2 AND threshold_alarm_percentage = $3",
                &[&id, &cap, &alarm],
            )?;
            if kept.is_none() {
                self.step.tx.execute(
                    "UPDATE participant_limit SET is_active = false
                     WHERE participant_currency_id = $1 AND is_active",
                    &[&id],
                )?;
                self.step.tx.execute(
                    "INSERT INTO participant_limit (participant_currency_id, value, threshold_alarm_percentage,
                         is_active, created_date) VALUES ($1, $2, $3, true, $4)",
                    &[&id, &cap, &alarm, &Moment(self.step.now)],
                )?;
            }
        }
        for row in effects.all(|step| &step.funds) {
            let (id, state, now) = (Uuid(row.id.0), i16::from(row.state as u8), Moment(self.step.now));
            let ends = matches!(row.state, FundsState::OutCommitted | FundsState::OutAborted);
            // A plain insert: if the id was taken meanwhile on another account, this batch must look again.
            let written = if ends {
                self.step.tx.execute(
                    "UPDATE participant_funds SET funds_state_id = $2, changed_date = $3 WHERE transfer_id = $1",
                    &[&id, &state, &now],
                )?
            } else {
                self.step.tx.execute(
                    "INSERT INTO participant_funds (transfer_id, funds_state_id, changed_date,
                         participant_currency_id, amount) VALUES ($1, $2, $3, $4, $5)",
                    &[&id, &state, &now, &account_number(row.account), &Decimal(i128::from(row.amount.0))],
                )?
            };
            assert_eq!(written, 1, "a movement of funds that is ended was locked");
        }
        Ok(())
    }

    fn timeouts(&mut self, loaded: &Loaded) -> Result<(), Error> {
        let mut copy = CopyRows::new(3);
        // First those that began: one that tokens pay for may end in the batch that brought it.
        for no in &loaded.opened {
            let row = &loaded.transfers[no];
            copy.row()
                .big(signed(no.0))
                .small(shard_of(row.id, self.step.settings.expiry_shards))
                .moment(Moment(row.expiration));
        }
        copy.send(&mut self.step.tx, self.step.statements, COPY_TIMEOUTS)?;
        if !loaded.closed.is_empty() {
            self.step.statements.execute(
                &mut self.step.tx,
                "DELETE FROM transfer_timeout WHERE transfer_no = ANY($1)",
                &[&list(&loaded.closed, |no| signed(no.0))],
            )?;
        }
        Ok(())
    }

    fn dead_letters(&mut self, guard: &Guard, outbox: &Outbox<'_>) -> Result<(), Error> {
        let mut copy = CopyRows::new(6);
        for row in &outbox.dead_letters {
            copy.row().int(guard.segment_id).big(signed(row.letter.offset));
            // PostgreSQL's texts have no NUL, and what is dead must be storable.
            copy.text(&row.letter.trace.to_string()).text(&row.letter.reason.replace('\0', "\u{fffd}"));
            copy.bytes(row.body).moment(Moment(self.step.now));
        }
        copy.send(
            &mut self.step.tx,
            self.step.statements,
            "COPY dead_letter (segment_id, source_offset, trace, reason, body, created_date)
             FROM STDIN (FORMAT binary)",
        )
    }
}

/// The messages of a batch as rows of the outbox, numbered on from the guard's number.
fn pieces(guard: &mut Guard, outbox: &Outbox<'_>) -> Vec<OutboxPiece> {
    let pieces = outbox.outgoing.chunks(OUTBOX_ROW_MESSAGES).map(|some| {
        let messages = i32::try_from(some.len()).expect("a row is bounded");
        let number = guard.outbox_next;
        guard.outbox_next += i64::from(messages);
        OutboxPiece { number, messages, body: written(some) }
    });
    pieces.collect()
}

/// Appends changes of positions, and moves the positions to where the last ones left them.
pub(crate) fn put_changes(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    now: Millis,
    batch_id: i64,
    changes: &[ChangeRow],
) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut copy = CopyRows::new(7);
    let mut last: BTreeMap<i32, (Decimal, i64)> = BTreeMap::new();
    for row in changes {
        copy.row().int(row.account).big(row.change_no).optional(row.transfer_no, CopyRows::big);
        copy.decimal(Decimal(row.change)).decimal(Decimal(row.value));
        copy.big(batch_id).moment(Moment(now));
        last.insert(row.account, (Decimal(row.value), row.change_no + 1));
    }
    copy.send(
        tx,
        statements,
        "COPY participant_position_change (participant_currency_id, change_no, transfer_no, change, value,
         batch_id, created_date) FROM STDIN (FORMAT binary)",
    )?;
    let ids: Vec<i32> = last.keys().copied().collect();
    let (values, counts): (Vec<Decimal>, Vec<i64>) = last.into_values().unzip();
    let written = statements.execute(
        tx,
        "UPDATE participant_position p SET value = u.value, changes = u.changes, changed_date = $2
         FROM unnest($1::int[], $3::numeric[], $4::bigint[]) AS u (id, value, changes)
         WHERE p.participant_currency_id = u.id",
        &[&ids, &Moment(now), &values, &counts],
    )?;
    assert_eq!(written, ids.len() as u64, "locked accounts do not vanish");
    Ok(())
}

/// What happened to each account, in order, numbered on from the rows that there are.
fn account_changes(loaded: &Loaded, effects: &Effects) -> Vec<ChangeRow> {
    let mut running: BTreeMap<AccountId, (Balance, i64)> = BTreeMap::new();
    let mut rows = Vec::with_capacity(effects.all(|step| &step.position_changes).count());
    for step in &effects.steps {
        let by_operator = step.accounts.iter().map(|row| (row.id, None, row.value));
        let by_transfers =
            step.position_changes.iter().map(|row| (row.account, Some(row.transfer), row.value));
        for (account, transfer, value) in by_operator.chain(by_transfers) {
            let (at, count) = running.entry(account).or_insert_with(|| {
                let known = loaded.accounts.get(&account);
                let changes = loaded.changes.get(&account).copied();
                (known.map_or(Balance::ZERO, |row| row.value), changes.unwrap_or(0))
            });
            let change = value.0 - at.0;
            if change != 0 {
                rows.push(ChangeRow {
                    account: account_number(account),
                    change_no: *count,
                    transfer_no: transfer.map(|no| signed(no.0)),
                    change,
                    value: value.0,
                });
                (*at, *count) = (value, *count + 1);
            }
        }
    }
    rows
}

pub(crate) fn put_transfer(copy: &mut CopyRows, row: &Transfer, condition: &[u8; 32]) {
    let account = |id: Option<AccountId>| id.map(account_number);
    copy.row().big(signed(row.no.0)).uuid(Uuid(row.id.0));
    copy.big(i64::from(row.payer.0)).big(i64::from(row.payee.0));
    copy.optional(account(row.payer_account), CopyRows::int);
    copy.optional(account(row.payee_account), CopyRows::int);
    copy.text(&row.currency.to_string()).decimal(Decimal(i128::from(row.amount.0)));
    copy.moment(Moment(row.expiration)).bytes(condition).bytes(&row.hash).big(signed(row.offset));
    copy.moment(Moment(row.prepared_at)).small(i16::from(row.state.number()));
    copy.optional(code_number(row.code), CopyRows::int);
    copy.optional(reason_number(row.reason), CopyRows::small);
    copy.moment(Moment(row.changed_at));
    copy.optional(decimal(row.reserved_value), CopyRows::decimal);
    copy.optional(decimal(row.final_value), CopyRows::decimal);
    let completion = row.completion();
    copy.optional(completion.map(|completion| i16::from(completion.kind as u8)), CopyRows::small);
    copy.optional(completion.as_ref().map(|completion| &completion.digest[..]), CopyRows::bytes);
}

/// The shard of the expiry scan that a transfer belongs to. Ids are chosen by clients, so all their bits take part.
pub(crate) fn shard_of(id: TransferId, shards: i16) -> i16 {
    let folded = id.0 ^ (id.0 >> 64);
    let mixed = u64::try_from(folded & u128::from(u64::MAX)).expect("masked");
    let shards = u64::try_from(shards).expect("a count of shards is positive");
    i16::try_from((mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % shards).expect("below the count")
}

pub(crate) fn code_number(code: Option<Code>) -> Option<i32> {
    code.map(|code| i32::from(code.number()))
}

fn reason_number(reason: Option<Reason>) -> Option<i16> {
    reason.map(|reason| i16::from(reason as u8))
}

fn decimal(balance: OptionalBalance) -> Option<Decimal> {
    balance.get().map(|balance| Decimal(balance.0))
}

/// Accounts are numbered by the database, which counts them in `int`.
pub(crate) fn account_number(id: AccountId) -> i32 {
    i32::try_from(id.0).expect("accounts are numbered within 31 bits")
}

fn small(number: u16) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}
