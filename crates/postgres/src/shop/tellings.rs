//! Ends of checkouts that the webhook is to be told of, at least once, by whichever node comes first: a row from the end itself
//! until it was told or given up. Whoever takes a row in hand has it for a while; others pass it over until that while is over.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{CheckoutAnswer, CheckoutEnd, TryKey};
use postgres::Row;

use super::load::{try_of, why};
use super::write::tr;
use crate::Error;
use crate::guard::{signed, unsigned};
use crate::load::number;
use crate::session::Store;
use crate::types::{Moment, list, most};
use crate::written::RowWriter;

const TABLE: &str = "checkout_outcome";

/// An end that is to be told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueOutcome {
    /// Its number.
    pub id: u64,
    /// What ended, and how.
    pub end: CheckoutEnd,
    /// When.
    pub at: Millis,
    /// Attempts that failed so far.
    pub attempts: u32,
}

/// An attempt to tell that is over, without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedTelling {
    /// Of which row.
    pub id: u64,
    /// Attempts that failed by now.
    pub attempts: u32,
    /// When it may be tried again, from now on.
    pub pause: Duration,
}

/// Writes down ends, for whoever tells them.
pub(super) fn write(writer: &mut RowWriter<'_, '_>, ended: &[CheckoutEnd], now: Millis) -> Result<(), Error> {
    let told: Vec<(&CheckoutEnd, &str, Option<&str>)> = ended
        .iter()
        .filter_map(|end| match end.answer {
            CheckoutAnswer::Paid { .. } => Some((end, "paid", None)),
            CheckoutAnswer::Failed { why, .. } => Some((end, "not_paid", Some(why.name()))),
            CheckoutAnswer::AlreadyPaid { .. } | CheckoutAnswer::Open { .. } => None,
        })
        .collect();
    let orders = list(&told, |(end, ..)| end.order.as_str());
    let tries = list(&told, |(end, ..)| tr(end.answer.tr()));
    let states = list(&told, |(_, state, _)| *state);
    let whys = list(&told, |(.., why)| *why);
    let sql = "INSERT INTO checkout_outcome (order_id, tr_num, state, why_failed, ended_at, due_date)
         SELECT u.o, u.t, u.s, u.w, $5, $5 FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS u (o, t, s, w)";
    writer.rows(sql, told.len(), &[&orders, &tries, &states, &whys, &Moment(now)])
}

impl Store {
    /// Takes up to `max` ends in hand that are to be told now, the longest due first. For as long as `lease` says nobody else
    /// is given them.
    ///
    /// # Errors
    /// If the database fails, or a row makes no sense.
    pub fn take_outcomes(&mut self, max: usize, lease: Duration) -> Result<Vec<DueOutcome>, Error> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let rows = self.query(
            "UPDATE checkout_outcome o SET due_date = hub_clock() + $2::double precision * interval '1 second'
             FROM (SELECT checkout_outcome_id FROM checkout_outcome WHERE due_date <= (SELECT hub_clock())
                   ORDER BY due_date, checkout_outcome_id LIMIT $1 FOR UPDATE SKIP LOCKED) AS due
             WHERE o.checkout_outcome_id = due.checkout_outcome_id
             RETURNING o.order_id, o.tr_num, o.state, o.why_failed, o.ended_at, o.checkout_outcome_id, o.attempts",
            &[&most(max), &lease.as_secs_f64()],
        )?;
        rows.iter().map(due_of).collect()
    }

    /// These were told, or are given up: they go.
    pub fn remove_outcomes(&mut self, ids: &[u64]) -> Result<(), Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = "DELETE FROM checkout_outcome WHERE checkout_outcome_id = ANY($1)";
        self.execute(sql, &[&list(ids, |id| signed(*id))])?;
        Ok(())
    }

    /// These could not be told, and are due again after their pauses.
    pub fn outcomes_failed(&mut self, failed: &[FailedTelling]) -> Result<(), Error> {
        if failed.is_empty() {
            return Ok(());
        }
        self.execute(
            "UPDATE checkout_outcome o SET attempts = u.attempts, due_date = hub_clock() + u.pause * interval '1 second'
             FROM unnest($1::bigint[], $2::int[], $3::double precision[]) AS u (id, attempts, pause)
             WHERE o.checkout_outcome_id = u.id",
            &[
                &list(failed, |row| signed(row.id)),
                &list(failed, |row| i32::try_from(row.attempts).unwrap_or(i32::MAX)),
                &list(failed, |row| row.pause.as_secs_f64()),
            ],
        )?;
        Ok(())
    }

    /// How many ends wait to be told; counted up to `max`.
    pub fn count_outcomes(&mut self, max: u32) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM checkout_outcome LIMIT $1) AS waiting";
        unsigned(TABLE, self.query_one(sql, &[&i64::from(max)])?.get(0))
    }
}

fn due_of(row: &Row) -> Result<DueOutcome, Error> {
    let TryKey { order_id: order, tr_num: tr } = try_of(TABLE, row)?;
    let answer = match (row.get(2), why(TABLE, row.get(3))?) {
        ("paid", None) => CheckoutAnswer::Paid { tr },
        ("not_paid", Some(why)) => CheckoutAnswer::Failed { tr, why },
        (other, _) => return Err(Error::corrupt(TABLE, format!("the end '{other}' of '{order}'"))),
    };
    let Moment(at) = row.get(4);
    let id = unsigned(TABLE, row.get(5))?;
    Ok(DueOutcome { id, end: CheckoutEnd { order, answer }, at, attempts: number(TABLE, row.get(6))? })
}
