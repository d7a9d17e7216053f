//! What edges ask: users, items, orders and open checkouts as they are now. Nothing is locked.

use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::callers::{CheckoutState, OpenCheckout, OpenCheckouts, PAGE_MAX};
use holdfast_domain::shop::{CheckoutRow, ItemId, ItemRow, OrderId, OrderRow, UserId, UserRow};

use super::charges;
use super::load::{order_of, orders, whole};
use crate::Error;
use crate::guard::unsigned;
use crate::session::Store;
use crate::types::{Moment, most};

/// The most open checkouts that are counted for a gauge.
const OPEN_COUNTED_MAX: u32 = 100_000;

/// An order, its open checkout if one is under way, and the database's time.
pub type OrderNow = (OrderRow, Option<CheckoutRow>, Millis);

/// A page of open checkouts, by when they began.
pub type OpenPage = OpenCheckouts<(Millis, OrderId)>;

impl Store {
    /// A user.
    pub fn find_user(&mut self, id: &UserId) -> Result<Option<UserRow>, Error> {
        let sql = "SELECT credit FROM users WHERE user_id = $1";
        let row = self.query_opt(sql, &[&id.as_str()])?;
        row.map(|row| Ok(UserRow { id: id.clone(), credit: whole("users", row.get(0))? })).transpose()
    }

    /// An item.
    pub fn find_item(&mut self, id: &ItemId) -> Result<Option<ItemRow>, Error> {
        let sql = "SELECT stock, price FROM items WHERE item_id = $1";
        let row = self.query_opt(sql, &[&id.as_str()])?;
        row.map(|row| {
            let (stock, price) = (whole("items", row.get(0))?, whole("items", row.get(1))?);
            Ok(ItemRow { id: id.clone(), stock, price })
        })
        .transpose()
    }

    /// An order and, if one is under way, its open checkout.
    pub fn find_order(&mut self, id: &OrderId) -> Result<Option<(OrderRow, Option<CheckoutRow>)>, Error> {
        Ok(self.find_order_now(id)?.map(|(order, open, _)| (order, open)))
    }

    /// The same, and the database's time, to tell by what is left until a deadline.
    pub fn find_order_now(&mut self, id: &OrderId) -> Result<Option<OrderNow>, Error> {
        let sql = orders!(", hub_clock()", "WHERE order_id = $1");
        let Some(row) = self.query_opt(sql, &[&id.as_str()])? else { return Ok(None) };
        let (order, open) = order_of(&row)?;
        Ok(Some((order, open, row.get::<_, Moment>(19).0)))
    }

    /// The open checkouts of all nodes in short: how many, counted up to 100,000, and for how long the oldest is
    /// open.
    pub fn open_in_short(&mut self) -> Result<(u64, Duration), Error> {
        let sql = "SELECT (SELECT count(*) FROM (
                     SELECT FROM orders WHERE state IN ('pending', 'cancelling') LIMIT $1) AS counted),
                 (SELECT started_at FROM orders WHERE state IN ('pending', 'cancelling')
                     ORDER BY started_at, order_id LIMIT 1), hub_clock()";
        let row = self.query_one(sql, &[&i64::from(OPEN_COUNTED_MAX)])?;
        let (oldest, Moment(now)): (Option<Moment>, Moment) = (row.get(1), row.get(2));
        let age = oldest.map_or(0, |Moment(oldest)| now.saturating_sub(oldest));
        Ok((unsigned("orders", row.get(0))?, Duration::from_millis(u64::try_from(age).unwrap_or(0))))
    }

    /// Up to `limit` open checkouts (at most [`PAGE_MAX`]) of all nodes, the oldest first, those after that one.
    pub fn open_checkouts(
        &mut self,
        state: Option<CheckoutState>,
        after: Option<&(Millis, OrderId)>,
        limit: usize,
    ) -> Result<OpenPage, Error> {
        let limit = limit.clamp(1, PAGE_MAX);
        let state = state.map(|state| match state {
            CheckoutState::Pending => "pending",
            CheckoutState::Cancelling => "cancelling",
        });
        let (since, last) = after.map_or((Moment(Millis::MIN), ""), |(at, id)| (Moment(*at), id.as_str()));
        let sql = orders!(
            ", hub_clock()",
            "WHERE state IN ('pending', 'cancelling')
                 AND (started_at, order_id) > ($1, $2) AND ($3::text IS NULL OR state = $3)
             ORDER BY started_at, order_id LIMIT $4"
        );
        // One more than wanted tells whether there is another page.
        let rows = self.query(sql, &[&since, &last, &state, &most(limit + 1)])?;
        let mut page = OpenCheckouts { checkouts: Vec::with_capacity(rows.len()), next: None, now: 0 };
        let mut opened = Vec::with_capacity(rows.len());
        for row in rows.iter().take(limit) {
            let (order, open) = order_of(row)?;
            let open = open.ok_or_else(|| Error::corrupt("orders", "an open order without a try"))?;
            opened.push((order.order.key(open.tr), order, open));
        }
        let charged = charges::load(&mut self.client, &self.statements, opened.iter().map(|(key, ..)| key))?;
        for (key, order, open) in opened {
            let charge = charged.get(&key).map(|(charge, _)| *charge);
            page.checkouts.push(OpenCheckout { order, row: Arc::new(CheckoutRow { charge, ..open }) });
        }
        if rows.len() > page.checkouts.len() {
            page.next = page.checkouts.last().map(|open| (open.row.started_at, open.row.order.clone()));
        }
        page.now = match rows.first() {
            Some(row) => row.get::<_, Moment>(19).0,
            None => self.statements.clock(&mut self.client)?,
        };
        Ok(page)
    }
}
