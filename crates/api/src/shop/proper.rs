//! In JSON, with a status for each kind of failure and problems of RFC 9457. Rows have the members that the other dialect
//! gives them, and some more.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::shop::{ItemRow, OrderRow, TrNum};
use holdfast_wire::problem::ProblemHead;
use holdfast_wire::shop::{Filled, Item, WholeOrder};
use serde_json::json;

use super::dialect::{Dialect, Done, in_json, order, user};
use super::failure::Failure;
use super::standing;
use crate::problem::Problem;

/// The dialect of `/shop`.
pub(crate) struct Proper;

impl Dialect for Proper {
    fn done(done: &Done) -> Response {
        match done {
            Done::UserMade(row) => in_json(StatusCode::CREATED, &user(row)),
            Done::ItemMade(row) => in_json(StatusCode::CREATED, &item(row)),
            Done::OrderMade(row) => in_json(StatusCode::CREATED, &whole_order(row)),
            Done::Filled { count, .. } => in_json(StatusCode::OK, &Filled { count: *count }),
            Done::User(row) | Done::CreditChanged(row) => in_json(StatusCode::OK, &user(row)),
            Done::Item(row) | Done::StockChanged(row) => in_json(StatusCode::OK, &item(row)),
            Done::Order { view, seen } => {
                let waits = view.open.as_ref().map(|open| standing::shown_waits(&open.waits(), seen));
                in_json(StatusCode::OK, &WholeOrder { waits, ..whole_order(&view.row) })
            }
            Done::LineAdded { order, .. } => in_json(StatusCode::OK, &whole_order(order)),
            Done::Paid { order, tr, charged } => {
                in_json(StatusCode::OK, &standing::paid(order, *tr, *charged))
            }
            Done::Begun { order, tr, waits, seen } => {
                in_json(StatusCode::ACCEPTED, &standing::open(order, *tr, waits, seen))
            }
        }
    }

    fn failed(failure: &Failure) -> Response {
        let (status, name, title) = failure.kind();
        let head = ProblemHead::new(name, title, status, &failure.detail());
        let body = json!(holdfast_wire::shop::Problem { head, about: failure.about() });
        Problem { status: failure.status(), body }.into_response()
    }
}

fn item(row: &ItemRow) -> Item {
    Item { item_id: row.id.as_str().into(), stock: row.stock.get(), price: row.price.get() }
}

/// An order with where it stands, its last try, and why that failed if it has.
fn whole_order(row: &OrderRow) -> WholeOrder {
    let state = row.order.state;
    WholeOrder {
        order: order(row),
        state: standing::shown_state(state),
        tr: state.tr_num().map(TrNum::get).into(),
        why: row.failed.map(standing::shown_why),
        waits: None,
    }
}
