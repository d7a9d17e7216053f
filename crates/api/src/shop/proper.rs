//! In JSON, with a status for each kind of failure and problems of RFC 9457. Rows have the members that the other dialect
//! gives them, and some more.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::shop::{ItemRow, OrderRow, TrNum};
use serde_json::{Value, json};

use super::dialect::{Dialect, Done, in_json, order, user};
use super::failure::Failure;
use super::standing;
use crate::problem::{self, Problem};

/// The dialect of `/shop`.
pub(crate) struct Proper;

impl Dialect for Proper {
    fn done(done: &Done) -> Response {
        match done {
            Done::UserMade(row) => in_json(StatusCode::CREATED, &user(row)),
            Done::ItemMade(row) => in_json(StatusCode::CREATED, &item(row)),
            Done::OrderMade(row) => in_json(StatusCode::CREATED, &whole_order(row)),
            Done::Filled { count, .. } => in_json(StatusCode::OK, &json!({"count": count})),
            Done::User(row) | Done::CreditChanged(row) => in_json(StatusCode::OK, &user(row)),
            Done::Item(row) | Done::StockChanged(row) => in_json(StatusCode::OK, &item(row)),
            Done::Order { view, seen } => {
                let mut shown = whole_order(&view.row);
                if let (Some(open), Value::Object(members)) = (&view.open, &mut shown) {
                    standing::add_waits(members, &open.waits(), seen);
                }
                in_json(StatusCode::OK, &shown)
            }
            Done::LineAdded { order, .. } => in_json(StatusCode::OK, &whole_order(order)),
            Done::Paid { order, tr, charged } => {
                in_json(StatusCode::OK, &Value::Object(standing::paid(order, *tr, *charged)))
            }
            Done::Begun { order, tr, waits, seen } => {
                in_json(StatusCode::ACCEPTED, &Value::Object(standing::open(order, *tr, waits, seen)))
            }
        }
    }

    fn failed(failure: &Failure) -> Response {
        let (status, name, title) = failure.kind();
        let mut body = problem::members(name, title, status.as_u16(), &failure.detail());
        body.extend(failure.members());
        Problem { status, body: Value::Object(body) }.into_response()
    }
}

fn item(row: &ItemRow) -> Value {
    json!({"item_id": row.id.as_str(), "stock": row.stock.get(), "price": row.price.get()})
}

/// An order with where it stands, its last try, and why that failed if it has.
fn whole_order(row: &OrderRow) -> Value {
    let mut shown = order(row);
    let state = row.order.state;
    shown["state"] = json!(state.name());
    shown["tr"] = json!(state.tr_num().map(TrNum::get));
    if let Some(why) = row.failed {
        shown["why"] = json!(why.name());
    }
    shown
}
