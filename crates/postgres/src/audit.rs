//! The audit chain: one record per batch and source, each with the hash of the one before. A record covers the rows that its
//! batch appended, so that `verify` can compute it again from the tables, and a hash of the rows that later batches overwrite.

use holdfast_domain::ids::Millis;

use crate::guard::Guard;

/// A row of `transfer_state_change`, as the chain sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StateRow {
    pub(crate) transfer_no: i64,
    pub(crate) state: i16,
    pub(crate) code: i32,
    pub(crate) reason: i16,
}

/// A row of `participant_position_change`, as the chain sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeRow {
    pub(crate) account: i32,
    pub(crate) change_no: i64,
    pub(crate) transfer_no: Option<i64>,
    pub(crate) change: i128,
    pub(crate) value: i128,
}

/// What a side of a checkout did for a try: a row of `pay_transaction` or `stock_transaction`, as the chain sees it.
pub(crate) struct TryRow<'a> {
    pub(crate) table: &'a str,
    pub(crate) order: &'a str,
    pub(crate) tr: i64,
    pub(crate) is_rollback: bool,
    pub(crate) outcome: &'a str,
    /// Who pays, and how much; or the items.
    pub(crate) value: Option<&'a str>,
}

impl TryRow<'_> {
    pub(crate) fn hash(&self) -> [u8; 32] {
        let TryRow { table, order, tr, is_rollback, outcome, value } = *self;
        let mut bytes = Vec::with_capacity(128);
        for text in [table, order, outcome].into_iter().chain(value) {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(tr.to_le_bytes());
        bytes.push(u8::from(is_rollback));
        *blake3::hash(&bytes).as_bytes()
    }
}

/// The hash of what a batch appended. All lists are sorted first: tables have no order.
pub(crate) fn effects_hash(
    states: &mut [StateRow],
    changes: &mut [ChangeRow],
    tries: &mut [[u8; 32]],
) -> [u8; 32] {
    states.sort_unstable();
    changes.sort_unstable();
    tries.sort_unstable();
    let mut bytes = Vec::with_capacity(16 * states.len() + 48 * changes.len() + 8);
    bytes.extend((states.len() as u64).to_le_bytes());
    for row in states {
        bytes.extend(row.transfer_no.to_le_bytes());
        bytes.extend(row.state.to_le_bytes());
        bytes.extend(row.code.to_le_bytes());
        bytes.extend(row.reason.to_le_bytes());
    }
    for row in changes {
        bytes.extend(row.account.to_le_bytes());
        bytes.extend(row.change_no.to_le_bytes());
        bytes.extend(row.transfer_no.unwrap_or(-1).to_le_bytes());
        bytes.extend(row.change.to_le_bytes());
        bytes.extend(row.value.to_le_bytes());
    }
    let hash = *blake3::hash(&bytes).as_bytes();
    if tries.is_empty() {
        return hash;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&hash);
    for row in tries {
        hasher.update(row);
    }
    *hasher.finalize().as_bytes()
}

/// What a record says besides its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) segment_id: i32,
    pub(crate) audit_no: i64,
    pub(crate) batch_id: i64,
    pub(crate) epoch: i64,
    pub(crate) first_offset: i64,
    pub(crate) next_offset: i64,
    pub(crate) time: Millis,
    pub(crate) effects_hash: [u8; 32],
    /// Of the rows that may be overwritten; none if the batch has written none, or is of a program that did not hash them.
    pub(crate) rows_hash: Option<[u8; 32]>,
}

impl Record {
    pub(crate) fn new(guard: &Guard, next_offset: i64, time: Millis) -> Record {
        Record {
            segment_id: guard.segment_id,
            audit_no: guard.audit_next,
            batch_id: guard.batch_id,
            epoch: guard.epoch,
            first_offset: crate::guard::signed(guard.offset),
            next_offset,
            time,
            effects_hash: [0; 32],
            rows_hash: None,
        }
    }

    /// The hash after this record.
    pub(crate) fn hash(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(before);
        hasher.update(&self.segment_id.to_le_bytes());
        for number in
            [self.audit_no, self.batch_id, self.epoch, self.first_offset, self.next_offset, self.time]
        {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&self.effects_hash);
        if let Some(rows) = &self.rows_hash {
            hasher.update(rows);
        }
        *hasher.finalize().as_bytes()
    }
}
