//! What the two participants have in common: their tables, the tries' rows and the holders' balances; and the topic `stock`, which
//! needs no more than that. A batch is one transaction: the tries' rows are read, the items locked by ascending id, each message
//! is decided after the other by the pure participant, and rows, balances, answers and offset are written together. A repeat
//! finds its row and gets the same answer again.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Row as BranchRow, Side, Stock};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{self, ItemId, Items, Payment, TryKey, UserId, Whole};
use holdfast_messages::{OutcomeMessage, StockMessage};
use postgres::Row;

use super::load::{id, items_of, try_of, whole};
use super::write::{number, tr, try_lists, written};
use crate::audit::TryRow;
use crate::batch::{Batch, Reading};
use crate::load::Loader;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::types::list;
use crate::written::RowWriter;
use crate::{Claim, Error, Source};

/// A side's tables.
pub(super) trait Kept: Side<Holder: std::str::FromStr<Err: std::fmt::Display>> + Sized {
    const TABLE: &'static str;
    const BRANCHES: &'static str;
    /// The table of those whose balances it keeps.
    const HOLDERS: &'static str;
    const LOCK_BALANCES: &'static str;
    const SET_BALANCES: &'static str;

    fn name(holder: &Self::Holder) -> &str;

    /// The value of a row whose columns begin there; `None` if it has none.
    fn value(row: &Row, at: usize) -> Result<Option<Self::Value>, Error>;

    /// The value as the audit chain sees it: one text of its columns.
    fn text(value: &Self::Value) -> String;

    /// Adds rows of a batch.
    fn insert(
        writer: &mut RowWriter<'_, '_>,
        rows: &[NewRow<'_, Self::Value>],
        batch: i64,
    ) -> Result<(), Error>;
}

/// A row to be added.
pub(super) struct NewRow<'a, V> {
    key: &'a TryKey,
    is_rollback: bool,
    outcome: &'static str,
    value: Option<&'a V>,
}

/// The rows of tries, the forward rows first, as `Branch::with_row` wants them.
macro_rules! branches {
    ($table:literal, $value:literal) => {
        concat!(
            "SELECT p.order_id, p.tr_num, p.is_rollback, p.outcome, ",
            $value,
            " FROM unnest($1::text[], $2::bigint[]) AS w (order_id, tr_num)
             CROSS JOIN LATERAL (SELECT * FROM ",
            $table,
            " WHERE order_id = w.order_id AND tr_num = w.tr_num OFFSET 0) p
             ORDER BY p.is_rollback"
        )
    };
}

impl Kept for Pay {
    const TABLE: &'static str = "pay_transaction";
    const BRANCHES: &'static str = branches!("pay_transaction", "p.user_id, p.amnt");
    const HOLDERS: &'static str = "users";
    const LOCK_BALANCES: &'static str =
        "SELECT user_id, credit FROM users WHERE user_id = ANY($1) ORDER BY user_id FOR UPDATE";
    const SET_BALANCES: &'static str = "UPDATE users t SET credit = u.credit
         FROM unnest($1::text[], $2::bigint[]) AS u (id, credit) WHERE t.user_id = u.id";

    fn name(holder: &UserId) -> &str {
        holder.as_str()
    }

    fn value(row: &Row, at: usize) -> Result<Option<Payment>, Error> {
        let (user, amnt): (Option<&str>, Option<i64>) = (row.get(at), row.get(at + 1));
        let Some((user, amnt)) = user.zip(amnt) else { return Ok(None) };
        Ok(Some(Payment { user_id: id(Pay::TABLE, user)?, amnt: whole(Pay::TABLE, amnt)? }))
    }

    fn text(value: &Payment) -> String {
        format!("{} {}", value.user_id.as_str(), number(value.amnt))
    }

    fn insert(writer: &mut RowWriter<'_, '_>, rows: &[NewRow<'_, Payment>], batch: i64) -> Result<(), Error> {
        let (orders, tries) = try_lists(rows.iter().map(|row| row.key));
        let rollbacks = list(rows, |row| row.is_rollback);
        let outcomes = list(rows, |row| row.outcome);
        let users = list(rows, |row| row.value.map(|value| value.user_id.as_str()));
        let amounts = list(rows, |row| row.value.map(|value| number(value.amnt)));
        let sql =
            "INSERT INTO pay_transaction (order_id, tr_num, is_rollback, outcome, user_id, amnt, batch_id)
             SELECT u.*, $7::bigint
             FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::text[], $5::text[], $6::bigint[]) AS u";
        writer.append(sql, rows.len(), &[&orders, &tries, &rollbacks, &outcomes, &users, &amounts, &batch])
    }
}

impl Kept for Stock {
    const TABLE: &'static str = "stock_transaction";
    const BRANCHES: &'static str = branches!("stock_transaction", "p.items::text");
    const HOLDERS: &'static str = "items";
    const LOCK_BALANCES: &'static str =
        "SELECT item_id, stock FROM items WHERE item_id = ANY($1) ORDER BY item_id FOR UPDATE";
    const SET_BALANCES: &'static str = "UPDATE items t SET stock = u.stock
         FROM unnest($1::text[], $2::bigint[]) AS u (id, stock) WHERE t.item_id = u.id";

    fn name(holder: &ItemId) -> &str {
        holder.as_str()
    }

    fn value(row: &Row, at: usize) -> Result<Option<Items>, Error> {
        let items: Option<&str> = row.get(at);
        items.map(|items| items_of(Stock::TABLE, items)).transpose()
    }

    fn text(value: &Items) -> String {
        written(value)
    }

    fn insert(writer: &mut RowWriter<'_, '_>, rows: &[NewRow<'_, Items>], batch: i64) -> Result<(), Error> {
        let (orders, tries) = try_lists(rows.iter().map(|row| row.key));
        let rollbacks = list(rows, |row| row.is_rollback);
        let outcomes = list(rows, |row| row.outcome);
        let items = list(rows, |row| row.value.map(written));
        let sql = "INSERT INTO stock_transaction (order_id, tr_num, is_rollback, outcome, items, batch_id)
             SELECT u.o, u.t, u.r, u.c, u.i::json, $6::bigint
             FROM unnest($1::text[], $2::bigint[], $3::boolean[], $4::text[], $5::text[]) AS u (o, t, r, c, i)";
        writer.append(sql, rows.len(), &[&orders, &tries, &rollbacks, &outcomes, &items, &batch])
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
        let (orders, tries) = try_lists(keys);
        for row in self.query(S::BRANCHES, &[&orders, &tries])? {
            let key = try_of(S::TABLE, &row)?;
            let found = branch_row::<S>(&row)?;
            let branch = Branch::with_row(branches.remove(&key), found, S::same)
                .map_err(|error| Error::corrupt(S::TABLE, format!("{key}: {error}")))?;
            branches.insert(key, branch);
        }
        Ok(branches)
    }

    /// Locks and reads what holders have.
    pub(super) fn lock_balances<'h, S: Kept>(
        &mut self,
        holders: impl IntoIterator<Item = &'h str>,
    ) -> Result<BTreeMap<S::Holder, Whole>, Error> {
        let holders: Vec<&str> = holders.into_iter().collect();
        if holders.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.query(S::LOCK_BALANCES, &[&holders])?;
        rows.iter().map(|row| Ok((id(S::HOLDERS, row.get(0))?, whole(S::HOLDERS, row.get(1))?))).collect()
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
        let rows = list(&added, |(key, row)| {
            let (is_rollback, outcome, value) = match row {
                BranchRow::Forward(Forward::Taken(value)) => (false, "taken", Some(value)),
                BranchRow::Forward(Forward::Refused(value)) => (false, "refused", Some(value)),
                BranchRow::Rollback(value) => (true, "undone", value.as_ref()),
            };
            NewRow { key, is_rollback, outcome, value }
        });
        let (batch, mut writer) = (step.guard.batch_id, step.writer());
        for NewRow { key, is_rollback, outcome, value } in &rows {
            let (table, order, tr) = (S::TABLE, key.order_id.as_str(), tr(key.tr_num));
            let (is_rollback, value) = (*is_rollback, value.map(S::text));
            let row = TryRow { table, order, tr, is_rollback, outcome, value: value.as_deref() };
            writer.written.appended.push(row.hash());
        }
        S::insert(&mut writer, &rows, batch)?;
        let changed: Vec<(&S::Holder, &Whole)> =
            after.balances.iter().filter(|(holder, now)| before.balances.get(holder) != Some(now)).collect();
        let ids = list(&changed, |(holder, _)| S::name(holder));
        let balances = list(&changed, |(_, balance)| number(**balance));
        writer.rows(S::SET_BALANCES, ids.len(), &[&ids, &balances])
    }
}

const fn same_kind<V>(one: &BranchRow<V>, other: &BranchRow<V>) -> bool {
    matches!(
        (one, other),
        (BranchRow::Forward(_), BranchRow::Forward(_)) | (BranchRow::Rollback(_), BranchRow::Rollback(_))
    )
}

impl Store {
    /// The stock side over a batch of `stock`: stock is taken and given back. Each message is answered on the partition of
    /// `outcomes` that has the number of the one it was read from.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn stock(&mut self, claim: &Claim, batch: &Batch<'_, StockMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| part.step(store, Taking(part.read())))
    }
}

struct Taking<'p, 'm>(Reading<'p, 'm, StockMessage>);

impl<'m> Work<'m> for Taking<'_, 'm> {
    type Known = (Ledger<Stock>, Millis);
    type Rows = Taken<Stock>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<(Ledger<Stock>, Millis), Error> {
        // The stock side knows no time: it only says when it did what it did.
        let asked: Vec<&shop::Message> = self.0.messages.iter().map(|(_, message)| message.said()).collect();
        Ok((load(&mut step.loader(), &asked)?, step.guard.asked_at))
    }

    fn decide(self, (before, now): (Ledger<Stock>, Millis), _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Reading { part, messages, mut outbox } = self.0;
        let (mut after, mut alarms) = (before.clone(), Vec::new());
        for (_, message) in messages {
            let (sent, mut more) = after.take(message.said());
            alarms.append(&mut more);
            outbox.answer(part.claim.source, sent);
        }
        let mut decided = part.decided(now, outbox, Taken { before, after });
        decided.done.alarms = alarms;
        Some(decided)
    }

    fn write(taken: Taken<Stock>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        taken.write(step)
    }
}

/// The rows of the tries, and the balances of all holders that these or the messages name, locked.
fn load(loader: &mut Loader<'_, '_>, asked: &[&shop::Message]) -> Result<Ledger<Stock>, Error> {
    let branches = loader.branches::<Stock>(asked)?;
    let mut holders: BTreeSet<&str> = BTreeSet::new();
    for message in asked {
        if let Some(shop::AskedStep::Forward(value) | shop::AskedStep::Rollback(value)) =
            Stock::step(&message.body)
        {
            holders.extend(Stock::parts(value).map(|(holder, _)| Stock::name(holder)));
        }
    }
    for branch in branches.values() {
        if let Branch::Done(Forward::Taken(value)) = branch {
            holders.extend(Stock::parts(value).map(|(holder, _)| Stock::name(holder)));
        }
    }
    let balances = loader.lock_balances::<Stock>(holders)?;
    Ok(Ledger { branches, balances })
}
