//! Does everything still add up? Every account is computed again from its change rows, every batch's hash from the rows
//! that it appended, money is counted, and every hold is looked up in the expiry table.

mod chain;

use std::collections::{BTreeMap, VecDeque};

use postgres::types::ToSql;
use postgres::{Portal, Row, Transaction};

use self::chain::chain;
use crate::Error;
use crate::guard::unsigned;
use crate::reads::Snapshot;
use crate::session::Store;
use crate::shop::SHOP_QUESTIONS;
use crate::tokens::TOKEN_QUESTIONS;
use crate::types::Decimal;

/// How many rows are in memory at a time.
const CHUNK: i32 = 10_000;
/// After so many findings the rest is only counted.
const FINDINGS_MAX: usize = 100;

/// Something that should not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub table: &'static str,
    /// What.
    pub what: String,
}

/// What `verify` saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Accounts computed again.
    pub accounts: u64,
    /// Change rows read.
    pub position_changes: u64,
    /// State changes read.
    pub state_changes: u64,
    /// Batches of the audit chain.
    pub batches: u64,
    /// Tokens looked at.
    pub tokens: u64,
    /// Orders looked at.
    pub orders: u64,
    /// The first faults, at most a hundred.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub faults: u64,
}

impl Verified {
    fn fault(&mut self, table: &'static str, what: String) {
        self.faults += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { table, what });
        }
    }
}

impl Store {
    /// Reads everything, as of one instant, and tells what does not add up. The hub may go on working meanwhile.
    pub fn verify(&mut self) -> Result<Verified, Error> {
        let Snapshot { mut tx, .. } = Snapshot::of(self)?;
        // This reads whole tables, unlike the handlers.
        tx.batch_execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on;
             SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on",
        )?;
        let mut seen = Verified::default();
        accounts(&mut tx, &mut seen)?;
        chain(&mut tx, &mut seen)?;
        money(&mut tx, &mut seen)?;
        holds(&mut tx, &mut seen)?;
        states(&mut tx, &mut seen)?;
        ask_all(&mut tx, &TOKEN_QUESTIONS, &mut seen)?;
        ask_all(&mut tx, &SHOP_QUESTIONS, &mut seen)?;
        let counts =
            tx.query_one("SELECT (SELECT count(*) FROM token), (SELECT count(*) FROM orders)", &[])?;
        (seen.tokens, seen.orders) = (unsigned("token", counts.get(0))?, unsigned("orders", counts.get(1))?);
        tx.rollback()?;
        Ok(seen)
    }
}

/// Rows of one query, a chunk at a time.
struct Stream {
    portal: Portal,
    rows: VecDeque<Row>,
}

impl Stream {
    fn open(tx: &mut Transaction<'_>, sql: &str) -> Result<Stream, Error> {
        let none: &[&(dyn ToSql + Sync)] = &[];
        Ok(Stream { portal: tx.bind(sql, none)?, rows: VecDeque::new() })
    }

    fn peek(&mut self, tx: &mut Transaction<'_>) -> Result<Option<&Row>, Error> {
        if self.rows.is_empty() {
            self.rows.extend(tx.query_portal(&self.portal, CHUNK)?);
        }
        Ok(self.rows.front())
    }

    fn next(&mut self, tx: &mut Transaction<'_>) -> Result<Option<Row>, Error> {
        self.peek(tx)?;
        Ok(self.rows.pop_front())
    }

    /// The rows whose first column is `batch`; those below it belong to no batch.
    fn of_batch(
        &mut self,
        tx: &mut Transaction<'_>,
        batch: i64,
        mut orphan: impl FnMut(&Row),
    ) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        while let Some(row) = self.peek(tx)? {
            let of: i64 = row.get(0);
            if of > batch {
                break;
            }
            let row = self.next(tx)?.expect("it was just seen");
            if of == batch { rows.push(row) } else { orphan(&row) }
        }
        Ok(rows)
    }
}

fn accounts(tx: &mut Transaction<'_>, seen: &mut Verified) -> Result<(), Error> {
    let mut stored: BTreeMap<i32, (i128, i64)> = BTreeMap::new();
    for row in tx.query("SELECT participant_currency_id, value, changes FROM participant_position", &[])? {
        let value: Decimal = row.get(1);
        stored.insert(row.get(0), (value.0, row.get(2)));
    }
    seen.accounts = stored.len() as u64;
    let mut running: BTreeMap<i32, (i128, i64)> = BTreeMap::new();
    let mut changes = Stream::open(
        tx,
        "SELECT participant_currency_id, change_no, change, value FROM participant_position_change
         ORDER BY participant_currency_id, change_no",
    )?;
    while let Some(row) = changes.next(tx)? {
        seen.position_changes += 1;
        let (account, number): (i32, i64) = (row.get(0), row.get(1));
        let (change, value): (Decimal, Decimal) = (row.get(2), row.get(3));
        let (sum, next) = running.entry(account).or_default();
        *sum += change.0;
        if number != *next || *sum != value.0 {
            seen.fault(
                "participant_position_change",
                format!(
                    "account {account}, change {number}: {next} and the value {sum} would follow, not {}",
                    value.0
                ),
            );
            *sum = value.0;
        }
        *next = number + 1;
    }
    for (account, (value, changes)) in &stored {
        let (sum, count) = running.remove(account).unwrap_or_default();
        if (sum, count) != (*value, *changes) {
            seen.fault(
                "participant_position",
                format!("account {account} stands at {value} after {changes} changes; its rows give {sum} after {count}"),
            );
        }
    }
    for account in running.keys() {
        seen.fault(
            "participant_position_change",
            format!("changes of account {account}, which is not there"),
        );
    }
    Ok(())
}

/// A table, what is wrong where the question finds something, and the question. Its rows are told by their first column.
pub(crate) type Question = (&'static str, &'static str, &'static str);

/// Asks questions that find nothing where all is well; tells table, and what is wrong.
fn ask_all(tx: &mut Transaction<'_>, questions: &[Question], seen: &mut Verified) -> Result<(), Error> {
    for (table, wrong, question) in questions {
        for row in tx.query(*question, &[])? {
            seen.fault(table, format!("'{}' {wrong}", row.get::<_, &str>(0)));
        }
    }
    Ok(())
}

/// Invariant 1: positions less what is held, plus settlements, changes only by the operator.
fn money(tx: &mut Transaction<'_>, seen: &mut Verified) -> Result<(), Error> {
    let rows = tx.query(
        "SELECT currency_id, sum(standing), sum(held), sum(by_operator) FROM (
             SELECT c.currency_id, p.value AS standing, 0 AS held, 0 AS by_operator
             FROM participant_position p JOIN participant_currency c USING (participant_currency_id)
             UNION ALL
             SELECT currency_id, 0, amount, 0 FROM transfer
             WHERE current_state IN (3, 4, 6, 9) AND payer_account IS NOT NULL
             UNION ALL
             SELECT c.currency_id, 0, 0, n.change
             FROM participant_position_change n JOIN participant_currency c USING (participant_currency_id)
             WHERE n.transfer_no IS NULL
         ) AS parts GROUP BY currency_id ORDER BY currency_id",
        &[],
    )?;
    for row in rows {
        let (standing, held, operator): (Decimal, Decimal, Decimal) = (row.get(1), row.get(2), row.get(3));
        if standing.0 - held.0 != operator.0 {
            seen.fault(
                "participant_position",
                format!(
                    "{}: accounts hold {} less {} held by transfers, but the operator brought {}",
                    row.get::<_, &str>(0),
                    standing.0,
                    held.0,
                    operator.0
                ),
            );
        }
    }
    let rows = tx.query(
        "SELECT p.participant_currency_id, p.value, coalesce(f.moved, 0)
         FROM participant_position p
         JOIN participant_currency c USING (participant_currency_id)
         LEFT JOIN (
             SELECT participant_currency_id,
                 sum(CASE funds_state_id WHEN 1 THEN -amount WHEN 4 THEN 0 ELSE amount END) AS moved
             FROM participant_funds GROUP BY participant_currency_id
         ) f USING (participant_currency_id)
         WHERE c.ledger_account_type = 'SETTLEMENT' AND p.value <> coalesce(f.moved, 0)",
        &[],
    )?;
    for row in rows {
        let (value, moved): (Decimal, Decimal) = (row.get(1), row.get(2));
        let account: i32 = row.get(0);
        seen.fault(
            "participant_funds",
            format!("settlement account {account} stands at {}, its funds give {}", value.0, moved.0),
        );
    }
    Ok(())
}

/// Every hold has its timeout row, and there is no other.
fn holds(tx: &mut Transaction<'_>, seen: &mut Verified) -> Result<(), Error> {
    let rows = tx.query(
        "SELECT coalesce(t.transfer_no, o.transfer_no), t.transfer_no IS NOT NULL, o.transfer_no IS NOT NULL
         FROM (SELECT transfer_no, expiration_date FROM transfer WHERE current_state IN (1, 3)) t
         FULL JOIN transfer_timeout o ON o.transfer_no = t.transfer_no
         WHERE t.transfer_no IS NULL OR o.transfer_no IS NULL OR o.expiration_date <> t.expiration_date
         LIMIT 1000",
        &[],
    )?;
    for row in rows {
        let (no, is_hold, has_row): (i64, bool, bool) = (row.get(0), row.get(1), row.get(2));
        let what = match (is_hold, has_row) {
            (true, false) => "is a hold that can never expire: it has no row here",
            (false, _) => "is no hold and has a row here",
            (true, true) => "runs out at another time than its row here says",
        };
        seen.fault("transfer_timeout", format!("transfer number {no} {what}"));
    }
    Ok(())
}

/// The last row of a transfer's history is its current state.
fn states(tx: &mut Transaction<'_>, seen: &mut Verified) -> Result<(), Error> {
    let rows = tx.query(
        "SELECT coalesce(t.transfer_no, h.transfer_no), t.current_state, h.last
         FROM transfer t
         FULL JOIN (
             SELECT transfer_no,
                 (array_agg(transfer_state_id ORDER BY transfer_state_change_id DESC))[1] AS last
             FROM transfer_state_change GROUP BY transfer_no
         ) h ON h.transfer_no = t.transfer_no
         WHERE t.current_state IS DISTINCT FROM h.last LIMIT 1000",
        &[],
    )?;
    for row in rows {
        let (no, current, last): (i64, Option<i16>, Option<i16>) = (row.get(0), row.get(1), row.get(2));
        seen.fault("transfer", format!("number {no} is in state {current:?}, its history ends in {last:?}"));
    }
    Ok(())
}
