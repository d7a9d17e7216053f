//! As the course's template answers: 200 with JSON where it has values and with text where it has not, and 400 with text for
//! every business failure. Its tests take 4xx for a failure that has left nothing behind, so 400 never stands for an unknown
//! outcome: that is 503 or 504.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_engine::ShopError;
use serde_json::json;

use super::dialect::{Dialect, Done, in_json, order, user};
use super::failure::Failure;
use super::standing;
use crate::problem::retry_later;

/// The dialect of `/orders`, `/payment` and `/stock`.
pub(crate) struct Course;

impl Dialect for Course {
    fn done(done: &Done) -> Response {
        let good = StatusCode::OK;
        match done {
            Done::UserMade(row) => in_json(good, &json!({"user_id": row.id.as_str()})),
            Done::ItemMade(row) => in_json(good, &json!({"item_id": row.id.as_str()})),
            Done::OrderMade(row) => in_json(good, &json!({"order_id": row.order.order_id.as_str()})),
            Done::Filled { what, count: 1 } => {
                let one = what.trim_end_matches('s');
                in_json(good, &json!({"msg": format!("1 {one} is ready")}))
            }
            Done::Filled { what, count } => {
                in_json(good, &json!({"msg": format!("{count} {what} are ready")}))
            }
            Done::User(row) => in_json(good, &user(row)),
            Done::Item(row) => in_json(good, &json!({"stock": row.stock.get(), "price": row.price.get()})),
            Done::Order { view, .. } => in_json(good, &order(&view.row)),
            Done::CreditChanged(row) => text(good, format!("user {} has a credit of {}", row.id, row.credit)),
            Done::StockChanged(row) => text(good, format!("there are {} of item {}", row.stock, row.id)),
            Done::LineAdded { order, item } => {
                let (id, amount) = (&order.order.order_id, order.order.amount);
                text(good, format!("item {item} is in order {id}, which costs {amount}"))
            }
            Done::Paid { charged: true, .. } => text(good, "the order is paid".to_owned()),
            Done::Paid { charged: false, .. } => text(good, "the order was paid before".to_owned()),
            Done::Begun { waits, seen, .. } => {
                text(StatusCode::ACCEPTED, format!("the checkout {}", standing::in_words(waits, seen)))
            }
        }
    }

    fn failed(failure: &Failure) -> Response {
        let status = match failure {
            Failure::Invalid(_)
            | Failure::Number(_)
            | Failure::Failed { .. }
            | Failure::Shop(ShopError::Refused(_)) => StatusCode::BAD_REQUEST,
            Failure::Shop(_) | Failure::Open { .. } | Failure::NoAnswer => failure.status(),
        };
        retry_later(text(status, failure.detail()))
    }
}

fn text(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
