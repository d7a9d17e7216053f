//! Lock and load, by ascending id.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_checkout::codec::items_from_json;
use holdfast_checkout::participant::Pay;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutRow, ItemId, ItemRow, Items, KeyRow, Order, OrderId, OrderRow, OrderState,
    SideRow, SideSaid, Sides, TrNum, TryKey, UserId, UserRow, Whole, Why,
};
use holdfast_domain::tokens::{Fingerprint, Name};
use holdfast_messages::TraceId;
use postgres::Row;

use crate::Error;
use crate::load::Loader;
use crate::types::{Moment, Uuid};

/// Orders as [`order_of`] reads them, with what else is asked for behind that.
macro_rules! orders {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT order_id, user_id, items::text, amount, state, tr_num, why_failed, life, started_at, deadline,
                 waits_since, pay_outcome, stock_outcome, undo_pay, undo_stock, pay_undone, stock_undone,
                 idempotency_keys::text, started_by",
            $more,
            " FROM orders ",
            $rest
        )
    };
}
pub(super) use orders;

/// How rows are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Under lock, waited for.
    Wait,
    /// As they are.
    None,
}

impl Loader<'_, '_> {
    /// Loads orders with their open tries. Those that are not there are left out.
    pub(super) fn orders<'i>(
        &mut self,
        ids: impl IntoIterator<Item = &'i OrderId>,
        lock: Lock,
    ) -> Result<(), Error> {
        let ids: Vec<&str> = ids.into_iter().map(OrderId::as_str).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let sql = match lock {
            Lock::Wait => orders!("", "WHERE order_id = ANY($1) ORDER BY order_id FOR UPDATE"),
            Lock::None => orders!("", "WHERE order_id = ANY($1) ORDER BY order_id"),
        };
        for row in self.query(sql, &[&ids])? {
            let (order, open) = order_of(&row)?;
            let id = order.order.order_id.clone();
            if let Some(Uuid(trace)) = row.get(18) {
                self.loaded.shop.started_by.insert(id.clone(), TraceId(trace));
            }
            match open {
                Some(open) => drop(self.loaded.shop.checkouts.insert(id.clone(), Arc::new(open))),
                None => drop(self.loaded.shop.checkouts.remove(&id)),
            }
            self.loaded.shop.orders.load(id, order);
        }
        Ok(())
    }

    /// Locks idempotency keys: these, and those that wait for the open tries that were loaded.
    pub(super) fn keys<'k>(&mut self, named: impl IntoIterator<Item = &'k Name>) -> Result<(), Error> {
        let mut wanted: BTreeSet<&str> = named.into_iter().map(|key| &**key).collect();
        wanted.extend(self.loaded.shop.checkouts.values().flat_map(|open| &open.keys).map(|key| &**key));
        if wanted.is_empty() {
            return Ok(());
        }
        let wanted: Vec<&str> = wanted.into_iter().collect();
        let sql =
            "SELECT idempotency_key, body, order_id, answer, tr_num, why_failed, ends_at FROM idempotency_key
             WHERE idempotency_key = ANY($1) ORDER BY idempotency_key FOR UPDATE";
        for row in self.statements.query(self.tx, sql, &[&wanted])? {
            let key = key_of(&row)?;
            self.loaded.shop.keys.load(Name::clone(&key.key), Arc::new(key));
        }
        Ok(())
    }

    /// Locks and loads users.
    pub(super) fn users<'i>(&mut self, ids: impl IntoIterator<Item = &'i UserId>) -> Result<(), Error> {
        for (id, credit) in self.lock_balances::<Pay>(ids.into_iter().map(UserId::as_str))? {
            self.loaded.shop.users.load(id.clone(), UserRow { id, credit });
        }
        Ok(())
    }

    /// Loads items.
    pub(super) fn items<'i>(
        &mut self,
        ids: impl IntoIterator<Item = &'i ItemId>,
        lock: Lock,
    ) -> Result<(), Error> {
        let ids: Vec<&str> = ids.into_iter().map(ItemId::as_str).collect();
        let sql = match lock {
            Lock::None => "SELECT item_id, stock, price FROM items WHERE item_id = ANY($1) ORDER BY item_id",
            Lock::Wait => {
                "SELECT item_id, stock, price FROM items WHERE item_id = ANY($1) ORDER BY item_id FOR UPDATE"
            }
        };
        for row in self.query(sql, &[&ids])? {
            let id: ItemId = id("items", row.get(0))?;
            let (stock, price) = (whole("items", row.get(1))?, whole("items", row.get(2))?);
            self.loaded.shop.items.load(id.clone(), ItemRow { id, stock, price });
        }
        Ok(())
    }
}

pub(super) fn order_of(row: &Row) -> Result<(OrderRow, Option<CheckoutRow>), Error> {
    const TABLE: &str = "orders";
    let order_id: OrderId = id(TABLE, row.get(0))?;
    let last = tr_num(TABLE, row.get(5))?;
    let tried = || last.ok_or_else(|| Error::corrupt(TABLE, format!("'{order_id}' has a state of no try")));
    let state = match row.get(4) {
        "not_paid" => OrderState::NotPaid(last),
        "pending" => OrderState::Pending(tried()?),
        "paid" => OrderState::Paid(tried()?),
        "cancelling" => OrderState::Cancelling(tried()?),
        other => return Err(Error::corrupt(TABLE, format!("the state '{other}'"))),
    };
    let why = why(TABLE, row.get(6))?;
    let open = match state {
        OrderState::Pending(tr) | OrderState::Cancelling(tr) => Some(open_of(&order_id, tr, why, row)?),
        OrderState::NotPaid(_) | OrderState::Paid(_) => None,
    };
    let life: i64 = row.get(7);
    let life = u32::try_from(life).map_err(|_| Error::corrupt(TABLE, format!("the life {life}")))?;
    let order = Order {
        user_id: id(TABLE, row.get(1))?,
        items: items_of(TABLE, row.get(2))?,
        amount: whole(TABLE, row.get(3))?,
        order_id,
        state,
    };
    let failed = why.filter(|_| open.is_none());
    Ok((OrderRow { order, failed, life }, open))
}

fn open_of(order: &OrderId, tr: TrNum, why: Option<Why>, row: &Row) -> Result<CheckoutRow, Error> {
    let moment = |at: usize, what: &str| {
        let moment: Option<Moment> = row.get(at);
        moment
            .map(|moment| moment.0)
            .ok_or_else(|| Error::corrupt("orders", format!("'{order}' has no {what}")))
    };
    let side = |outcome: usize, undone: usize| {
        let said = match row.get(outcome) {
            None => None,
            Some("taken") => Some(SideSaid::Taken),
            Some("refused") => Some(SideSaid::Refused),
            Some(other) => return Err(Error::corrupt("orders", format!("the outcome '{other}'"))),
        };
        Ok(SideRow { said, undone: row.get(undone), branch: None })
    };
    let undo: (Option<bool>, Option<bool>) = (row.get(13), row.get(14));
    let keys: Vec<String> = serde_json::from_str(row.get(17))
        .map_err(|error| Error::corrupt("orders", format!("the keys of '{order}': {error}")))?;
    Ok(CheckoutRow {
        order: order.clone(),
        tr,
        start: 0,
        started_at: moment(8, "start")?,
        deadline: moment(9, "deadline")?,
        outside: Sides::BOTH,
        pay: side(11, 15)?,
        stock: side(12, 16)?,
        undo: undo.0.zip(undo.1).map(|(pay, stock)| Sides { pay, stock }),
        why,
        waits_since: moment(10, "wait")?,
        keys: keys.into_iter().map(Name::from).collect(),
        charge: None,
    })
}

fn key_of(row: &Row) -> Result<KeyRow, Error> {
    const TABLE: &str = "idempotency_key";
    let (key, Uuid(body), Moment(ends_at)) = (row.get::<_, &str>(0), row.get(1), row.get(6));
    let wrong = || Error::corrupt(TABLE, format!("the answer of '{key}'"));
    let answer = match (row.get::<_, Option<&str>>(3), tr_num(TABLE, row.get(4))?, why(TABLE, row.get(5))?) {
        (None, _, _) => None,
        (Some("paid"), Some(tr), _) => Some(CheckoutAnswer::Paid { tr }),
        (Some("already_paid"), Some(tr), _) => Some(CheckoutAnswer::AlreadyPaid { tr }),
        (Some("failed"), Some(tr), Some(why)) => Some(CheckoutAnswer::Failed { tr, why }),
        _ => return Err(wrong()),
    };
    let order = id(TABLE, row.get(2))?;
    Ok(KeyRow { key: key.into(), body: Fingerprint(body), order, answer, ends_at })
}

pub(super) fn id<T: std::str::FromStr<Err: std::fmt::Display>>(
    table: &'static str,
    text: &str,
) -> Result<T, Error> {
    text.parse().map_err(|error| Error::corrupt(table, error))
}

pub(super) fn whole(table: &'static str, number: i64) -> Result<Whole, Error> {
    let number = crate::guard::unsigned(table, number)?;
    Whole::new(number).map_err(|error| Error::corrupt(table, error))
}

pub(super) fn items_of(table: &'static str, text: &str) -> Result<Items, Error> {
    let json = serde_json::from_str(text).map_err(|error| Error::corrupt(table, error))?;
    items_from_json(&json).map_err(|error| Error::corrupt(table, error))
}

pub(super) fn tr_num(table: &'static str, number: Option<i64>) -> Result<Option<TrNum>, Error> {
    let Some(number) = number else { return Ok(None) };
    let number = crate::guard::unsigned(table, number)?;
    TrNum::try_from(number).map(Some).map_err(|error| Error::corrupt(table, error))
}

/// The try that a row's first two columns name.
pub(super) fn try_of(table: &'static str, row: &Row) -> Result<TryKey, Error> {
    let tr_num = tr_num(table, row.get(1))?.ok_or_else(|| Error::corrupt(table, "no try"))?;
    Ok(TryKey { order_id: id(table, row.get(0))?, tr_num })
}

pub(super) fn why(table: &'static str, name: Option<&str>) -> Result<Option<Why>, Error> {
    let Some(name) = name else { return Ok(None) };
    let found = Why::ALL.into_iter().find(|why| why.name() == name);
    found.map(Some).ok_or_else(|| Error::corrupt(table, format!("'{name}' is no reason")))
}
