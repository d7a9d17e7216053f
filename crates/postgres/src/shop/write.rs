//! What was changed becomes rows: one statement per table, however many rows.

use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, Items, KeyRow, OrderId, OrderRow, OrderState, SideRow, SideSaid, Sides,
    TrNum, TryKey, Whole,
};
use holdfast_domain::view::Checkouts;

use super::rows::ShopRows;
use super::{outside, tellings};
use crate::Error;
use crate::guard::signed;
use crate::session::Settings;
use crate::types::{Moment, Uuid, list};
use crate::written::RowWriter;

/// Writes all rows that were changed since they were loaded.
pub(crate) fn write(
    writer: &mut RowWriter<'_, '_>,
    rows: &ShopRows,
    settings: &Settings,
    now: Millis,
) -> Result<(), Error> {
    users(writer, rows)?;
    items(writer, rows)?;
    for (sql, changed) in [(INSERT_ORDERS, rows.orders.added()), (UPDATE_ORDERS, rows.orders.updated())] {
        orders(writer, sql, &changed, rows, settings.expiry_shards)?;
    }
    outside::mark(writer, &rows.began, settings.serving())?;
    keys(writer, INSERT_KEYS, &rows.keys.added())?;
    keys(writer, UPDATE_KEYS, &rows.keys.updated())?;
    if settings.tells_outcomes {
        tellings::write(writer, &rows.ended, now)?;
    }
    Ok(())
}

fn users(writer: &mut RowWriter<'_, '_>, rows: &ShopRows) -> Result<(), Error> {
    let (added, updated) = (rows.users.added(), rows.users.updated());
    for (sql, changed) in [
        (
            // A plain insert: if another was first, this transaction must look again.
            "INSERT INTO users (user_id, credit, funded)
             SELECT u.id, u.credit, u.credit FROM unnest($1::text[], $2::bigint[]) AS u (id, credit)",
            added,
        ),
        (
            "UPDATE users t SET funded = t.funded + u.credit - t.credit, credit = u.credit
             FROM unnest($1::text[], $2::bigint[]) AS u (id, credit) WHERE t.user_id = u.id",
            updated,
        ),
    ] {
        let ids = column(&changed, |row| row.id.as_str());
        writer.rows(sql, ids.len(), &[&ids, &column(&changed, |row| number(row.credit))])?;
    }
    Ok(())
}

fn items(writer: &mut RowWriter<'_, '_>, rows: &ShopRows) -> Result<(), Error> {
    let (added, updated) = (rows.items.added(), rows.items.updated());
    for (sql, changed) in [
        (
            "INSERT INTO items (item_id, stock, price, supplied) SELECT u.id, u.stock, u.price, u.stock
             FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (id, stock, price)",
            added,
        ),
        (
            "UPDATE items t SET supplied = t.supplied + u.stock - t.stock, stock = u.stock, price = u.price
             FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (id, stock, price) WHERE t.item_id = u.id",
            updated,
        ),
    ] {
        let ids = column(&changed, |row| row.id.as_str());
        let stocks = column(&changed, |row| number(row.stock));
        let prices = column(&changed, |row| number(row.price));
        writer.rows(sql, ids.len(), &[&ids, &stocks, &prices])?;
    }
    Ok(())
}

/// One column of changed rows.
fn column<'r, R, T>(changed: &[&'r R], column: impl FnMut(&'r R) -> T) -> Vec<T> {
    list(changed.iter().copied(), column)
}

/// The lists of an order's columns, under the names of the columns.
macro_rules! order_lists {
    () => {
        "unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[],
             $9::timestamptz[], $10::timestamptz[], $11::smallint[], $12::timestamptz[], $13::text[], $14::text[],
             $15::boolean[], $16::boolean[], $17::boolean[], $18::boolean[], $19::text[], $20::uuid[])
         AS u (order_id, user_id, items, amount, state, tr_num, why_failed, life, started_at, deadline, shard,
             waits_since, pay_outcome, stock_outcome, undo_pay, undo_stock, pay_undone, stock_undone, keys, started_by)"
    };
}

const INSERT_ORDERS: &str = concat!(
    "INSERT INTO orders (order_id, user_id, items, amount, state, tr_num, why_failed, life, started_at, deadline, shard,
         waits_since, pay_outcome, stock_outcome, undo_pay, undo_stock, pay_undone, stock_undone, idempotency_keys,
         started_by)
     SELECT u.order_id, u.user_id, u.items::json, u.amount, u.state, u.tr_num, u.why_failed, u.life, u.started_at,
         u.deadline, u.shard, u.waits_since, u.pay_outcome, u.stock_outcome, u.undo_pay, u.undo_stock, u.pay_undone,
         u.stock_undone, u.keys::json, u.started_by FROM ",
    order_lists!()
);
const UPDATE_ORDERS: &str = concat!(
    "UPDATE orders t SET user_id = u.user_id, items = u.items::json, amount = u.amount, state = u.state,
         tr_num = u.tr_num, why_failed = u.why_failed, life = u.life, started_at = u.started_at, deadline = u.deadline,
         shard = u.shard, waits_since = u.waits_since, pay_outcome = u.pay_outcome, stock_outcome = u.stock_outcome,
         undo_pay = u.undo_pay, undo_stock = u.undo_stock, pay_undone = u.pay_undone, stock_undone = u.stock_undone,
         idempotency_keys = u.keys::json, started_by = u.started_by
     FROM ",
    order_lists!(),
    " WHERE t.order_id = u.order_id"
);

fn orders(
    writer: &mut RowWriter<'_, '_>,
    sql: &'static str,
    changed: &[&OrderRow],
    rows: &ShopRows,
    shards: i16,
) -> Result<(), Error> {
    let open = |row: &OrderRow| rows.checkout(&row.order.order_id).map(Arc::as_ref);
    let of_open = |of: fn(&CheckoutRow) -> Option<Moment>| column(changed, |row| open(row).and_then(of));
    let side = |of: fn(&CheckoutRow) -> &SideRow| {
        let sides: Vec<Option<&SideRow>> = column(changed, |row| open(row).map(of));
        let outcomes = list(&sides, |side| side.and_then(|side| outcome(side.said)));
        (outcomes, list(&sides, |side| side.is_some_and(|side| side.undone)))
    };
    let undo = |of: fn(Sides) -> bool| column(changed, |row| open(row).and_then(|open| open.undo).map(of));
    let (pay_outcomes, pay_undone) = side(|open| &open.pay);
    let (stock_outcomes, stock_undone) = side(|open| &open.stock);
    let why = |row: &OrderRow| open(row).map_or(row.failed, |open| open.why).map(|why| why.name());
    let keys = |row: &OrderRow| {
        let keys: Vec<&str> =
            open(row).map_or_else(Vec::new, |open| open.keys.iter().map(|key| &**key).collect());
        serde_json::to_string(&keys).expect("strings are JSON")
    };
    writer.rows(
        sql,
        changed.len(),
        &[
            &column(changed, |row| row.order.order_id.as_str()),
            &column(changed, |row| row.order.user_id.as_str()),
            &column(changed, |row| written(&row.order.items)),
            &column(changed, |row| number(row.order.amount)),
            &column(changed, |row| row.order.state.name()),
            &column(changed, |row| row.order.state.tr_num().map(tr)),
            &column(changed, why),
            &column(changed, |row| i64::from(row.life)),
            &of_open(|open| Some(Moment(open.started_at))),
            &of_open(|open| Some(Moment(open.deadline))),
            &column(changed, |row| open(row).map(|open| shard_of(&open.order, shards))),
            &of_open(|open| Some(Moment(open.waits_since))),
            &pay_outcomes,
            &stock_outcomes,
            &undo(|undo| undo.pay),
            &undo(|undo| undo.stock),
            &pay_undone,
            &stock_undone,
            &column(changed, keys),
            &column(changed, |row| rows.started_by.get(&row.order.order_id).map(|trace| Uuid(trace.0))),
        ],
    )
}

const INSERT_KEYS: &str =
    "INSERT INTO idempotency_key (idempotency_key, body, order_id, answer, tr_num, why_failed, ends_at)
     SELECT u.* FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[],
         $7::timestamptz[]) AS u";
const UPDATE_KEYS: &str =
    "UPDATE idempotency_key t SET body = u.body, order_id = u.order_id, answer = u.answer,
         tr_num = u.tr_num, why_failed = u.why_failed, ends_at = u.ends_at
     FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::timestamptz[])
         AS u (key, body, order_id, answer, tr_num, why_failed, ends_at)
     WHERE t.idempotency_key = u.key";

fn keys(writer: &mut RowWriter<'_, '_>, sql: &'static str, changed: &[&Arc<KeyRow>]) -> Result<(), Error> {
    let why = |row: &Arc<KeyRow>| match row.answer {
        Some(CheckoutAnswer::Failed { why, .. }) => Some(why.name()),
        _ => None,
    };
    writer.rows(
        sql,
        changed.len(),
        &[
            &column(changed, |row| &*row.key),
            &column(changed, |row| Uuid(row.body.0)),
            &column(changed, |row| row.order.as_str()),
            &column(changed, |row| row.answer.as_ref().map(answer_name)),
            &column(changed, |row| row.answer.map(|answer| tr(answer.tr()))),
            &column(changed, why),
            &column(changed, |row| Moment(row.ends_at)),
        ],
    )
}

fn answer_name(answer: &CheckoutAnswer) -> &'static str {
    match answer {
        CheckoutAnswer::Paid { .. } => "paid",
        CheckoutAnswer::AlreadyPaid { .. } => "already_paid",
        CheckoutAnswer::Failed { .. } => "failed",
        CheckoutAnswer::Open { .. } => unreachable!("a key has no answer while its checkout is open"),
    }
}

const fn outcome(said: Option<SideSaid>) -> Option<&'static str> {
    match said {
        None => None,
        Some(SideSaid::Taken) => Some("taken"),
        Some(SideSaid::Refused) => Some("refused"),
    }
}

/// Items as they are stored: the lines of a message.
pub(super) fn written(items: &Items) -> String {
    serde_json::to_string(items).expect("items are JSON")
}

pub(super) fn number(number: Whole) -> i64 {
    signed(number.get())
}

pub(super) fn tr(tr: TrNum) -> i64 {
    i64::from(tr.get())
}

/// Tries as one list of orders and one of numbers.
pub(super) fn try_lists<'k>(keys: impl IntoIterator<Item = &'k TryKey>) -> (Vec<&'k str>, Vec<i64>) {
    keys.into_iter().map(|key| (key.order_id.as_str(), tr(key.tr_num))).unzip()
}

/// The shard of the scan for deadlines that an order belongs to. Ids are chosen by clients, so all their bits take part.
fn shard_of(order: &OrderId, shards: i16) -> i16 {
    let hash = blake3::hash(order.as_str().as_bytes());
    let number = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
    let shards = u64::try_from(shards).expect("a count of shards is positive");
    i16::try_from(number % shards).expect("below the count")
}

/// Whether a checkout is open in that state.
pub(super) const fn is_open(state: OrderState) -> bool {
    matches!(state, OrderState::Pending(_) | OrderState::Cancelling(_))
}
