//! What was done, and the two who say it.

use std::marker::PhantomData;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_domain::shop::{ItemId, ItemRow, OrderId, OrderRow, TrNum, UserRow, Waits};
use holdfast_engine::OrderView;
use holdfast_wire::shop::{Order, User};
use serde::Serialize;

use super::failure::Failure;
use super::standing::Seen;

/// What was done.
pub(crate) enum Done {
    UserMade(UserRow),
    ItemMade(ItemRow),
    OrderMade(OrderRow),
    /// Rows `0` to `count`, not included, were made or replaced.
    Filled {
        what: &'static str,
        count: u64,
    },
    User(UserRow),
    Item(ItemRow),
    Order {
        view: Box<OrderView>,
        seen: Seen,
    },
    CreditChanged(UserRow),
    StockChanged(ItemRow),
    LineAdded {
        order: OrderRow,
        item: ItemId,
    },
    /// The order is paid; `charged`: by this call.
    Paid {
        order: OrderId,
        tr: TrNum,
        charged: bool,
    },
    /// The checkout is under way, and its caller did not want to wait.
    Begun {
        order: OrderId,
        tr: TrNum,
        waits: Waits,
        seen: Seen,
    },
}

/// A way to answer.
pub(crate) trait Dialect: 'static {
    /// What was done.
    fn done(done: &Done) -> Response;
    /// Why nothing was.
    fn failed(failure: &Failure) -> Response;
}

/// The answer of a handler, in a dialect.
pub(crate) type Answer<D> = Result<Good<D>, Bad<D>>;

pub(crate) struct Good<D>(Done, PhantomData<fn() -> D>);

pub(crate) struct Bad<D>(Failure, PhantomData<fn() -> D>);

impl<D> From<Done> for Good<D> {
    fn from(done: Done) -> Good<D> {
        Good(done, PhantomData)
    }
}

impl<D, F: Into<Failure>> From<F> for Bad<D> {
    fn from(failure: F) -> Bad<D> {
        Bad(failure.into(), PhantomData)
    }
}

impl<D: Dialect> IntoResponse for Good<D> {
    fn into_response(self) -> Response {
        D::done(&self.0)
    }
}

impl<D: Dialect> IntoResponse for Bad<D> {
    fn into_response(self) -> Response {
        D::failed(&self.0)
    }
}

/// An answer in JSON.
pub(super) fn in_json(status: StatusCode, body: &impl Serialize) -> Response {
    let body = serde_json::to_vec(body).expect("answers have text keys, and memory does not fail");
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// A user, as both dialects show it.
pub(super) fn user(row: &UserRow) -> User {
    User { user_id: row.id.as_str().into(), credit: row.credit.get() }
}

/// An order, as both dialects show it.
pub(super) fn order(row: &OrderRow) -> Order {
    let order = &row.order;
    Order {
        order_id: order.order_id.as_str().into(),
        paid: row.is_paid(),
        items: order.items.lines().iter().map(|line| (line.id.as_str().into(), line.amnt.get())).collect(),
        user_id: order.user_id.as_str().into(),
        total_cost: order.amount.get(),
    }
}
