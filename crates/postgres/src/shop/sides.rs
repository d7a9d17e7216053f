//! What the two participants have in common: their tables, the tries' rows and the holders' balances.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Row as BranchRow, Side, Stock};
use holdfast_domain::shop::{self, ItemId, Items, Payment, TryKey, UserId, Whole};
use holdfast_messages::OutcomeMessage;
use postgres::Row;

use super::load::{id, items_of, tr_num, whole};
use super::write::{number, tr, written};
use crate::audit::TryRow;
use crate::load::Loader;
use crate::outbox::Outbox;
use crate::step::Opened;
use crate::written::RowWriter;
use crate::{Error, Source};

/// A side's tables.
pub(super) trait Kept: Side<Holder: AsId> + Sized {
    const TABLE: &'static str;
    const BRANCHES: &'static str;
    const LOCK_BALANCES: &'static str;
    const SET_BALANCES: &'static str;

    /// The value of a row whose columns begin there; `None` if it has none.
    fn value(row: &Row, at: usize) -> Result<Option<Self::Value>, Error>;

    /// The value as the audit chain sees it: one text of its columns.
    fn text(value: &Self::Value) -> String;

    /// Adds rows.
    fn insert(
        writer: &mut RowWriter<'_, '_>,
        rows: &NewRows<'_>,
        values: &[Option<&Self::Value>],
    ) -> Result<(), Error>;
}

pub(super) trait AsId: std::str::FromStr<Err: std::fmt::Display> {
    fn id(&self) -> &str;
}

impl AsId for UserId {
    fn id(&self) -> &str {
        self.as_str()
    }
}

impl AsId for ItemId {
    fn id(&self) -> &str {
        self.as_str()
    }
}

/// Rows to be added, without their values.
pub(super) struct NewRows<'a> {
    /// The number of the batch that adds them.
    batch: i64,
    orders: Vec<&'a str>,
    tries: Vec<i64>,
    rollbacks: Vec<bool>,
    outcomes: Vec<&'static str>,
}

impl Kept for Pay {
    const TABLE: &'static str = "pay_transaction";
    const BRANCHES: &'static str = "SELECT p.order_id, p.tr_num, p.is_rollback, p.outcome, p.user_id, p.amnt
         FROM unnest($1::text[], $2::bigint[]) AS w (order_id, tr_num)
         CROSS JOIN LATERAL (
             SELECT * FROM pay_transaction WHERE order_id = w.order_id AND tr_num = w.tr_num OFFSET 0) p
         ORDER BY p.is_rollback";
    const LOCK_BALANCES: &'static str =
        "SELECT user_id, credit FROM users WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE";
    const SET_BALANCES: &'static str = "UPDATE users t SET credit = u.credit
         FROM unnest($1::text[], $2::bigint[]) AS u (id, credit) WHERE t.user_id = u.id";

    fn value(row: &Row, at: usize) -> Result<Option<Payment>, Error> {
        let (user, amnt): (Option<&str>, Option<i64>) = (row.get(at), row.get(at + 1));
        let Some((user, amnt)) = user.zip(amnt) else { return Ok(None) };
        Ok(Some(Payment { user_id: id(Pay::TABLE, user)?, amnt: whole(Pay::TABLE, amnt)? }))
    }

    fn text(value: &Payment) -> String {
        format!("{} {}", value.user_id.as_str(), number(value.amnt))
    }

    fn insert(
        writer: &mut RowWriter<'_, '_>,
        rows: &NewRows<'_>,
        values: &[Option<&Payment>],
    ) -> Result<(), Error> {
        let NewRows { batch, orders, tries, rollbacks, outcomes } = rows;
        let users: Vec<Option<&str>> =
            values.iter().map(|value| value.map(|value| value.user_id.as_str())).collect();
        let amounts: Vec<Option<i64>> =
            values.iter().map(|value| value.map(|value| number(value.amnt))).collect();
        let sql =
            "INSERT INTO pay_transaction (order_id, tr_num, is_rollback, outcome, user_id, amnt, batch_id)
             SELECT u.*, $7::bigint
             FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::bigint[]) AS u";
        writer.append(sql, orders.len(), &[orders, tries, rollbacks, outcomes, &users, &amounts, batch])
    }
}

impl Kept for Stock {
    const TABLE: &'static str = "stock_transaction";
    const BRANCHES: &'static str = "SELECT p.order_id, p.tr_num, p.is_rollback, p.outcome, p.items::text
         FROM unnest($1::text[], $2::bigint[]) AS w (order_id, tr_num)
         CROSS JOIN LATERAL (
             SELECT * FROM stock_transaction WHERE order_id = w.order_id AND tr_num = w.tr_num OFFSET 0) p
         ORDER BY p.is_rollback";
    const LOCK_BALANCES: &'static str =
        "SELECT item_id, stock FROM items WHERE item_id = ANY($1) ORDER BY item_id FOR UPDATE";
    const SET_BALANCES: &'static str = "UPDATE items t SET stock = u.stock
         FROM unnest($1::text[], $2::bigint[]) AS u (id, stock) WHERE t.item_id = u.id";

    fn value(row: &Row, at: usize) -> Result<Option<Items>, Error> {
        let items: Option<&str> = row.get(at);
        items.map(|items| items_of(Stock::TABLE, items)).transpose()
    }

    fn text(value: &Items) -> String {
        written(value)
    }

    fn insert(
        writer: &mut RowWriter<'_, '_>,
        rows: &NewRows<'_>,
        values: &[Option<&Items>],
    ) -> Result<(), Error> {
        let NewRows { batch, orders, tries, rollbacks, outcomes } = rows;
        let items: Vec<Option<String>> = values.iter().map(|value| value.map(written)).collect();
        let sql = "INSERT INTO stock_transaction (order_id, tr_num, is_rollback, outcome, items, batch_id)
             SELECT u.o, u.t, u.r, u.c, u.i::json, $6::bigint
             FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::text[], $5::text[]) AS u (o, t, r, c, i)";
        writer.append(sql, orders.len(), &[orders, tries, rollbacks, outcomes, &items, batch])
    }
}

impl Loader<'_, '_> {
    /// The rows of the tries that messages are about.
    pub(super) fn branches<S: Kept>(
        &mut self,
        asked: &[&shop::Message],
    ) -> Result<BTreeMap<TryKey, Branch<S::Value>>, Error> {
        let mut branches: BTreeMap<TryKey, Branch<S::Value>> = BTreeMap::new();
        if asked.is_empty() {
            return Ok(branches);
        }
        let keys: BTreeSet<&TryKey> = asked.iter().map(|message| &message.key).collect();
        let orders: Vec<&str> = keys.iter().map(|key| key.order_id.as_str()).collect();
        let tries: Vec<i64> = keys.iter().map(|key| tr(key.tr_num)).collect();
        let statement = self.statements.asked.prepared(self.tx, S::BRANCHES)?;
        // The forward rows come first, as `Branch::with_row` wants them.
        for row in self.tx.query(&statement, &[&orders, &tries])? {
            let tr_num = tr_num(S::TABLE, row.get(1))?.ok_or_else(|| Error::corrupt(S::TABLE, "no try"))?;
            let key = TryKey { order_id: id(S::TABLE, row.get(0))?, tr_num };
            let found = branch_row::<S>(&row)?;
            let branch = Branch::with_row(branches.remove(&key), found, S::same)
                .map_err(|error| Error::corrupt(S::TABLE, format!("{key}: {error}")))?;
            branches.insert(key, branch);
        }
        Ok(branches)
    }

    /// Locks and reads what holders have.
    pub(super) fn lock_balances<S: Kept>(
        &mut self,
        holders: BTreeSet<&str>,
    ) -> Result<BTreeMap<S::Holder, Whole>, Error> {
        let mut balances: BTreeMap<S::Holder, Whole> = BTreeMap::new();
        if holders.is_empty() {
            return Ok(balances);
        }
        let holders: Vec<&str> = holders.into_iter().collect();
        let statement = self.statements.asked.prepared(self.tx, S::LOCK_BALANCES)?;
        for row in self.tx.query(&statement, &[&holders])? {
            balances.insert(id(S::TABLE, row.get(0))?, whole(S::TABLE, row.get(1))?);
        }
        Ok(balances)
    }
}

impl Outbox<'_> {
    /// Answers on the partition of `outcomes` that has the number of the one the message was read from.
    pub(super) fn answer(&mut self, source: Source, answer: Option<shop::Message>) {
        if let Some(answer) = answer {
            let answer = OutcomeMessage::new(answer).expect("a side answers on outcomes");
            self.send_to(source.number(), &answer);
        }
    }
}

fn branch_row<S: Kept>(row: &Row) -> Result<BranchRow<S::Value>, Error> {
    let (is_rollback, outcome): (bool, &str) = (row.get(2), row.get(3));
    match (is_rollback, outcome, S::value(row, 4)?) {
        (false, "taken", Some(value)) => Ok(BranchRow::Forward(Forward::Taken(value))),
        (false, "refused", Some(value)) => Ok(BranchRow::Forward(Forward::Refused(value))),
        (true, "undone", value) => Ok(BranchRow::Rollback(value)),
        _ => Err(Error::corrupt(S::TABLE, format!("the outcome '{outcome}' where it cannot be"))),
    }
}

/// What a batch of a side began with, and what came of it.
pub(super) struct Taken<S: Side> {
    pub(super) before: Ledger<S>,
    pub(super) after: Ledger<S>,
}

impl<S: Kept> Taken<S> {
    /// Writes the rows that were added and the balances that changed.
    pub(super) fn write(self, step: &mut Opened<'_>) -> Result<(), Error> {
        let Taken { before, after } = self;
        let added: Vec<(&TryKey, BranchRow<S::Value>)> = after
            .branches
            .iter()
            .flat_map(|(key, branch)| {
                let known = before.branches.get(key).map(Branch::rows).unwrap_or_default();
                let is_new =
                    move |row: &BranchRow<S::Value>| !known.iter().any(|known| same_kind(known, row));
                branch.rows().into_iter().filter(is_new).map(move |row| (key, row))
            })
            .collect();
        let (batch, mut writer) = (step.guard.batch_id, step.writer());
        let (orders, tries, rollbacks, outcomes) = Default::default();
        let mut rows = NewRows { batch, orders, tries, rollbacks, outcomes };
        let mut values: Vec<Option<&S::Value>> = Vec::with_capacity(added.len());
        for (key, row) in &added {
            rows.orders.push(key.order_id.as_str());
            rows.tries.push(tr(key.tr_num));
            let (is_rollback, outcome, value) = match row {
                BranchRow::Forward(Forward::Taken(value)) => (false, "taken", Some(value)),
                BranchRow::Forward(Forward::Refused(value)) => (false, "refused", Some(value)),
                BranchRow::Rollback(value) => (true, "undone", value.as_ref()),
            };
            rows.rollbacks.push(is_rollback);
            rows.outcomes.push(outcome);
            values.push(value);
            let (order, tr, value) = (key.order_id.as_str(), tr(key.tr_num), value.map(S::text));
            let row = TryRow { table: S::TABLE, order, tr, is_rollback, outcome, value: value.as_deref() };
            writer.written.appended.push(row.hash());
        }
        S::insert(&mut writer, &rows, &values)?;
        let changed: Vec<(&S::Holder, Whole)> = after
            .balances
            .iter()
            .filter(|(holder, balance)| before.balances.get(holder) != Some(balance))
            .map(|(holder, balance)| (holder, *balance))
            .collect();
        let ids: Vec<&str> = changed.iter().map(|(holder, _)| holder.id()).collect();
        let balances: Vec<i64> = changed.iter().map(|(_, balance)| number(*balance)).collect();
        writer.rows(S::SET_BALANCES, ids.len(), &[&ids, &balances])
    }
}

const fn same_kind<V>(one: &BranchRow<V>, other: &BranchRow<V>) -> bool {
    matches!(
        (one, other),
        (BranchRow::Forward(_), BranchRow::Forward(_)) | (BranchRow::Rollback(_), BranchRow::Rollback(_))
    )
}
