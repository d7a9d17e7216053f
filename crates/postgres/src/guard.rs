//! Guards: one row in `segment` per partition or shard. Whoever holds the row locked, with its own epoch in it, may work.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_messages::Topic;
use postgres::{Client, Row, Transaction};

use crate::Error;
use crate::audit::Record;
use crate::hung::end_hung;
use crate::outbox::OutboxPiece;
use crate::session::Statements;
use crate::types::{Moment, list};

/// What a guard row guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A partition of a topic.
    Consumer(Topic, u32),
    /// A shard of the expiry scan.
    Timeout(i32),
    /// Whoever fills the tables with a data set.
    Generate,
    /// A shard of the callbacks.
    Callback(i32),
    /// Whoever tells Kafka what happened to tokens, and removes what is over.
    Tokens,
    /// A shard of the scan for the deadlines of checkouts.
    Deadline(i32),
}

impl Source {
    pub(crate) const fn segment_type(self) -> &'static str {
        match self {
            Source::Consumer(..) => "consumer",
            Source::Timeout(_) => "timeout",
            Source::Generate => "generate",
            Source::Callback(_) => "callback",
            Source::Tokens => "tokens",
            Source::Deadline(_) => "deadline",
        }
    }

    /// The topic, or the table.
    pub(crate) const fn table_name(self) -> &'static str {
        match self {
            Source::Consumer(topic, _) => topic.name(),
            Source::Timeout(_) => "transfer_timeout",
            Source::Generate => "transfer",
            Source::Callback(_) => "callback",
            Source::Tokens => "token_change",
            Source::Deadline(_) => "orders",
        }
    }

    /// The partition or shard as the database counts it.
    pub(crate) fn enumeration(self) -> i32 {
        i32::try_from(self.number()).expect("partitions are counted in 31 bits")
    }

    /// The partition or shard.
    pub(crate) fn number(self) -> u32 {
        match self {
            Source::Consumer(_, partition) => partition,
            Source::Timeout(shard) | Source::Callback(shard) | Source::Deadline(shard) => {
                u32::try_from(shard).expect("shards are counted from 0")
            }
            Source::Generate | Source::Tokens => 0,
        }
    }
}

/// The right to work on a source, until somebody else claims it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// What was claimed.
    pub source: Source,
    /// The source's number.
    pub segment_id: i32,
    /// Whose turn it is. Every claim has a higher one.
    pub epoch: i64,
    /// The next offset at the time of the claim.
    pub offset: u64,
}

impl Claim {
    /// Of a row with the guard's number, its epoch and its offset.
    pub(crate) fn of(source: Source, row: &Row) -> Result<Claim, Error> {
        let offset = unsigned("segment", row.get(2))?;
        Ok(Claim { source, segment_id: row.get(0), epoch: row.get(1), offset })
    }
}

/// Takes over a source. It waits for a transaction of the owner before; that one's next finds itself fenced. An owner that
/// hangs is waited for no longer than `patience`.
pub(crate) fn claim(client: &mut Client, source: Source, patience: Duration) -> Result<Claim, Error> {
    match take(client, source, patience) {
        Err(Error::Busy { .. }) => {
            end_hung(client, patience)?;
            take(client, source, patience)
        }
        taken => taken,
    }
}

fn take(client: &mut Client, source: Source, patience: Duration) -> Result<Claim, Error> {
    let number = source.enumeration();
    let mut tx = client.transaction()?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = {}", patience.as_millis()))?;
    let row = tx.query_one(
        "INSERT INTO segment (segment_type, table_name, enumeration) VALUES ($1, $2, $3)
         ON CONFLICT (segment_type, table_name, enumeration)
         DO UPDATE SET epoch = segment.epoch + 1, changed_date = hub_clock()
         RETURNING segment_id, epoch, value",
        &[&source.segment_type(), &source.table_name(), &number],
    )?;
    tx.commit()?;
    Claim::of(source, &row)
}

/// A guard row under our lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    pub(crate) segment_id: i32,
    pub(crate) epoch: i64,
    pub(crate) offset: u64,
    pub(crate) outbox_next: i64,
    pub(crate) audit_next: i64,
    pub(crate) audit_hash: [u8; 32],
    /// The number of this batch, in the rows that it appends.
    pub(crate) batch_id: i64,
    /// The clock when the row was asked for. It was not read after the locks, so nothing may be decided by it.
    pub(crate) asked_at: Millis,
}

/// What a batch has appended, as its record counts it, and what is appended with that.
pub(crate) struct Appended<'a> {
    pub(crate) states: usize,
    pub(crate) changes: usize,
    pub(crate) outbox: &'a [OutboxPiece],
    /// Whether it must be on the disk when the transaction is.
    pub(crate) lasts: bool,
}

impl Guard {
    /// Locks the row; `None` if the claim is no longer the latest one.
    pub(crate) fn lock(
        tx: &mut Transaction<'_>,
        statements: &Statements,
        claim: &Claim,
    ) -> Result<Option<Guard>, Error> {
        let row = statements.query_opt(
            tx,
            "SELECT value, outbox_next, audit_next, audit_hash, nextval('batch_id'), hub_clock() FROM segment
             WHERE segment_id = $1 AND epoch = $2 FOR UPDATE",
            &[&claim.segment_id, &claim.epoch],
        )?;
        let Some(row) = row else { return Ok(None) };
        let hash: &[u8] = row.get(3);
        Ok(Some(Guard {
            segment_id: claim.segment_id,
            epoch: claim.epoch,
            offset: unsigned("segment", row.get(0))?,
            outbox_next: row.get(1),
            audit_next: row.get(2),
            audit_hash: hash.try_into().map_err(|_| Error::corrupt("segment", "an audit hash"))?,
            batch_id: row.get(4),
            asked_at: row.get::<_, Moment>(5).0,
        }))
    }

    /// Where the source stands after the batch of that record.
    pub(crate) fn move_on(&mut self, record: &Record, next_offset: u64) {
        self.audit_hash = record.hash(&self.audit_hash);
        self.audit_next += 1;
        self.offset = next_offset;
    }

    /// Writes the batch's record, its messages and what has moved on, and lets go of all below `sent` in the outbox. In the
    /// same transaction as the effects, or not at all.
    pub(crate) fn store(
        self,
        tx: &mut Transaction<'_>,
        statements: &Statements,
        record: &Record,
        appended: &Appended<'_>,
        sent: u64,
    ) -> Result<(), Error> {
        let count = |number: usize| i32::try_from(number).expect("a batch is bounded");
        // One statement: each costs a way to the server and back.
        let rows = statements.execute(
            tx,
            "WITH written AS (
                 INSERT INTO audit (segment_id, audit_no, batch_id, epoch, first_offset, next_offset,
                     state_changes, position_changes, effects_hash, hash, created_date, rows_hash)
                 VALUES ($1, $8, $9, $2, $10, $3, $11, $12, $13, $6, $14, $19)
             ), gone AS (
                 DELETE FROM outbox WHERE segment_id = $1 AND outbox_no + messages <= $7
             ), put AS (
                 INSERT INTO outbox (segment_id, outbox_no, messages, body)
                 SELECT $1, o.* FROM unnest($15::bigint[], $16::int[], $17::text[]) AS o
             )
             UPDATE segment SET value = $3, outbox_next = $4, audit_next = $5, audit_hash = $6,
                 outbox_sent = greatest(outbox_sent, $7), changed_date = hub_clock()
             WHERE segment_id = $1 AND epoch = $2
             RETURNING CASE WHEN NOT $18::boolean THEN set_config('synchronous_commit', 'off', true) END",
            &[
                &self.segment_id,
                &self.epoch,
                &signed(self.offset),
                &self.outbox_next,
                &self.audit_next,
                &&self.audit_hash[..],
                &signed(sent),
                &record.audit_no,
                &record.batch_id,
                &record.first_offset,
                &count(appended.states),
                &count(appended.changes),
                &&record.effects_hash[..],
                &Moment(record.time),
                &list(appended.outbox, |piece| piece.number),
                &list(appended.outbox, |piece| piece.messages),
                &list(appended.outbox, |piece| &*piece.body),
                &appended.lasts,
                &record.rows_hash.as_ref().map(<[u8; 32]>::as_slice),
            ],
        )?;
        assert_eq!(rows, 1, "the guard row is locked by this transaction");
        Ok(())
    }
}

pub(crate) fn unsigned(table: &'static str, number: i64) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::corrupt(table, format!("{number} where a count is expected")))
}

/// Offsets and numbers are far below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("a number of rows or messages fits 63 bits")
}
