//! The audit chain, walked once from its beginning: each batch's hash is computed again from the rows that it appended, and each
//! source's records follow one another up to where its guard stands.

use std::collections::BTreeMap;

use postgres::{Row, Transaction};

use super::{Stream, Verified};
use crate::Error;
use crate::audit::{ChangeRow, Record, StateRow, TryRow, effects_hash};
use crate::types::{Decimal, Moment};

const AUDITS: &str = "
    SELECT batch_id, segment_id, audit_no, epoch, first_offset, next_offset, effects_hash, hash, created_date, rows_hash
    FROM audit ORDER BY batch_id";
const STATES: &str = "
    SELECT batch_id, transfer_no, transfer_state_id, coalesce(error_code, 0), coalesce(error_reason, 0::smallint)
    FROM transfer_state_change ORDER BY batch_id";
const CHANGES: &str = "
    SELECT batch_id, participant_currency_id, change_no, transfer_no, change, value
    FROM participant_position_change ORDER BY batch_id";
/// Those that older programs have appended have no batch.
const TRIES: &str = "
    SELECT batch_id, 'pay_transaction', order_id, tr_num, is_rollback, outcome, user_id || ' ' || amnt
    FROM pay_transaction WHERE batch_id IS NOT NULL
    UNION ALL
    SELECT batch_id, 'stock_transaction', order_id, tr_num, is_rollback, outcome, items::text
    FROM stock_transaction WHERE batch_id IS NOT NULL
    ORDER BY 1";

/// What batches append, all of it in the order of the batches.
struct Appended {
    states: Stream,
    changes: Stream,
    tries: Stream,
}

impl Appended {
    fn open(tx: &mut Transaction<'_>) -> Result<Appended, Error> {
        Ok(Appended {
            states: Stream::open(tx, STATES)?,
            changes: Stream::open(tx, CHANGES)?,
            tries: Stream::open(tx, TRIES)?,
        })
    }

    /// The hash of what that batch has appended. Rows of batches below it that were not asked for belong to none.
    fn hash_of(
        &mut self,
        tx: &mut Transaction<'_>,
        batch: i64,
        seen: &mut Verified,
    ) -> Result<[u8; 32], Error> {
        let mut orphan = |table, of: i64| {
            seen.fault(table, format!("a row of batch {of}, of which the audit knows nothing"));
        };
        let states = self.states.of_batch(tx, batch, |row| orphan("transfer_state_change", row.get(0)))?;
        let changes =
            self.changes.of_batch(tx, batch, |row| orphan("participant_position_change", row.get(0)))?;
        let tries = self.tries.of_batch(tx, batch, |row| {
            let of_pay = row.get::<_, &str>(1) == "pay_transaction";
            orphan(if of_pay { "pay_transaction" } else { "stock_transaction" }, row.get(0));
        })?;
        seen.state_changes += states.len() as u64;
        let mut states: Vec<StateRow> = states.iter().map(state_of).collect();
        let mut changes: Vec<ChangeRow> = changes.iter().map(change_of).collect();
        let mut tries: Vec<[u8; 32]> = tries.iter().map(|row| try_of(row).hash()).collect();
        Ok(effects_hash(&mut states, &mut changes, &mut tries))
    }
}

fn state_of(row: &Row) -> StateRow {
    StateRow { transfer_no: row.get(1), state: row.get(2), code: row.get(3), reason: row.get(4) }
}

fn change_of(row: &Row) -> ChangeRow {
    let (Decimal(change), Decimal(value)) = (row.get(4), row.get(5));
    ChangeRow { account: row.get(1), change_no: row.get(2), transfer_no: row.get(3), change, value }
}

fn try_of(row: &Row) -> TryRow<'_> {
    let (table, order, tr) = (row.get(1), row.get(2), row.get(3));
    TryRow { table, order, tr, is_rollback: row.get(4), outcome: row.get(5), value: row.get(6) }
}

/// Where a source's records have come to.
struct Link {
    next: i64,
    offset: i64,
    hash: [u8; 32],
}

impl Link {
    /// Goes on by a record. A wrong row is one fault, not one for each record after it: the chain is that of what they say.
    fn follow(&mut self, record: &Record, stored: [u8; 32], seen: &mut Verified) {
        let at = format!("batch {} of segment {}", record.batch_id, record.segment_id);
        let Link { next, offset, hash } = self;
        if record.audit_no != *next || record.first_offset != *offset {
            let (number, first) = (record.audit_no, record.first_offset);
            seen.fault(
                "audit",
                format!("{at}: number {number} from offset {first}, where number {next} from offset {offset} would follow"),
            );
        }
        if record.hash(hash) != stored {
            seen.fault("audit", format!("{at}: the chain is broken"));
        }
        *self = Link { next: record.audit_no + 1, offset: record.next_offset, hash: stored };
    }
}

pub(super) fn chain(tx: &mut Transaction<'_>, seen: &mut Verified) -> Result<(), Error> {
    let mut links: BTreeMap<i32, Link> = BTreeMap::new();
    let mut audits = Stream::open(tx, AUDITS)?;
    let mut appended = Appended::open(tx)?;
    while let Some(audit) = audits.next(tx)? {
        let record = record_of(&audit);
        if appended.hash_of(tx, record.batch_id, seen)? != record.effects_hash {
            let (batch, segment) = (record.batch_id, record.segment_id);
            seen.fault(
                "audit",
                format!("batch {batch} of segment {segment}: its rows are not those that were written"),
            );
        }
        seen.batches += 1;
        let offset = record.first_offset;
        let link = links.entry(record.segment_id).or_insert(Link { next: 0, offset, hash: [0; 32] });
        link.follow(&record, hash_of(audit.get(7)), seen);
    }
    // What is left belongs to no batch.
    appended.hash_of(tx, i64::MAX, seen)?;
    for row in tx.query("SELECT segment_id, audit_next, audit_hash, value FROM segment", &[])? {
        let (segment, next, hash, offset): (i32, i64, &[u8], i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let link = links.remove(&segment).unwrap_or(Link { next: 0, offset, hash: [0; 32] });
        if next != link.next || hash != link.hash || offset != link.offset {
            seen.fault(
                "segment",
                format!("segment {segment} stands at offset {offset} and record {next}; the chain ends at {} and {}", link.offset, link.next),
            );
        }
    }
    Ok(())
}

fn record_of(audit: &Row) -> Record {
    let Moment(time) = audit.get(8);
    Record {
        batch_id: audit.get(0),
        segment_id: audit.get(1),
        audit_no: audit.get(2),
        epoch: audit.get(3),
        first_offset: audit.get(4),
        next_offset: audit.get(5),
        time,
        effects_hash: hash_of(audit.get(6)),
        rows_hash: audit.get::<_, Option<&[u8]>>(9).map(hash_of),
    }
}

/// What is no hash is none of any rows.
fn hash_of(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().unwrap_or_default()
}
