//! `/orders/…` and `/shop/orders/…`: orders, their lines, and the checkout.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use holdfast_domain::shop::callers::WAIT_MS_MAX;
use holdfast_domain::shop::limits::{DEADLINE_MS_MAX, ITEMS_MAX, ORDERS_MAX, USERS_MAX};
use holdfast_domain::shop::{CheckoutAnswer, OrderId, ShopCommand, ShopRefusal};
use holdfast_engine::CheckoutRequest;

use super::dialect::{Answer, Dialect, Done};
use super::failure::Failure;
use super::path::{self, Place};
use super::rows::Shop;
use super::standing::Seen;
use super::{Course, Proper, answered, answered_within, filled, key};
use crate::limits::{ANSWER_WAIT_MAX, SHOP_INIT_MAX};
use crate::views::filters::{Parameters, filters};

/// A new order without items. Whether there is such a user shows at the checkout.
pub(crate) async fn create<D: Dialect>(State(shop): State<Shop>, place: Place<String>) -> Answer<D> {
    let user = path::id("user_id", &path::texts(place)?)?;
    let id = shop.new_id().parse().expect("a UUID is an id");
    let row = shop.row_after(ShopCommand::CreateOrder { id, user }).await?;
    Ok(Done::OrderMade(row).into())
}

/// Orders `0` to `n`, not included: each of any of the users, with two lines of quantity 1 of any of the items.
pub(crate) async fn batch_init<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String, String, String)>,
) -> Answer<D> {
    let (n, n_items, n_users, item_price) = path::texts(place)?;
    let count = path::count("n", &n, SHOP_INIT_MAX.min(ORDERS_MAX as u64))?;
    let items = path::count("n_items", &n_items, ITEMS_MAX as u64)?;
    let users = path::count("n_users", &n_users, USERS_MAX as u64)?;
    let price = path::number("item_price", &item_price)?;
    let seed = shop.draw();
    let command = |first, count| ShopCommand::InitOrders { first, count, items, users, price, seed };
    filled(shop.init(count, command)).await?;
    Ok(Done::Filled { what: "orders", count }.into())
}

/// An order, paid or not.
pub(crate) async fn find<D: Dialect>(State(shop): State<Shop>, place: Place<String>) -> Answer<D> {
    let id: OrderId = path::id("order_id", &path::texts(place)?)?;
    let view = answered(shop.order(id.clone())).await?.ok_or(ShopRefusal::UnknownOrder(id))?;
    Ok(Done::Order { view: Box::new(view), seen: Seen::at(&shop) }.into())
}

/// A line more.
pub(crate) async fn add_item<D: Dialect>(
    State(shop): State<Shop>,
    place: Place<(String, String, String)>,
) -> Answer<D> {
    let (order, item, quantity) = path::texts(place)?;
    let (order, item) = (path::id("order_id", &order)?, path::id("item_id", &item)?);
    let quantity = path::number("quantity", &quantity)?;
    let command = ShopCommand::AddItem { order, item: Clone::clone(&item), quantity };
    Ok(Done::LineAdded { order: shop.row_after(command).await?, item }.into())
}

/// Checks an order out as the course has it: nothing but its id, and the hub's own deadline and wait.
pub(crate) async fn checkout(
    State(shop): State<Shop>,
    place: Place<String>,
    headers: HeaderMap,
) -> Answer<Course> {
    let order: OrderId = path::id("order_id", &path::texts(place)?)?;
    let key = key::of(&headers, &order, None)?;
    let request = CheckoutRequest { key, ..CheckoutRequest::new(order) };
    Ok(check_out(&shop, request).await?.into())
}

/// The same, for callers who may say how long it may stay open (`deadlineMs`) and how long they wait for it (`waitMs`).
pub(crate) async fn checkout_properly(
    State(shop): State<Shop>,
    place: Place<String>,
    parameters: Parameters,
    headers: HeaderMap,
) -> Answer<Proper> {
    let order: OrderId = path::id("order_id", &path::texts(place)?)?;
    let [deadline, wait] =
        filters(parameters, ["deadlineMs", "waitMs"]).map_err(|error| Failure::Invalid(error.detail))?;
    let deadline_ms = milliseconds("deadlineMs", deadline.as_deref(), 1, DEADLINE_MS_MAX)?;
    let wait_ms = milliseconds("waitMs", wait.as_deref(), 0, WAIT_MS_MAX)?;
    let key = key::of(&headers, &order, deadline_ms)?;
    let request = CheckoutRequest { deadline_ms, wait_ms, key, ..CheckoutRequest::new(order) };
    Ok(check_out(&shop, request).await?.into())
}

fn milliseconds(name: &str, text: Option<&str>, min: u32, max: u32) -> Result<Option<u32>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let number = path::count(name, text, u64::from(max))?;
    match u32::try_from(number) {
        Ok(number) if number >= min => Ok(Some(number)),
        _ => Err(Failure::Number(format!("{name}: {number} is not from {min} to {max}"))),
    }
}

/// Paid, now or before; or the failure, when everything is given back; or, when the wait is over first, where it stands.
async fn check_out(shop: &Shop, request: CheckoutRequest) -> Result<Done, Failure> {
    let order = request.order.clone();
    let wait_ms = request.wait_ms.unwrap_or_else(|| shop.times().wait_ms);
    let patience = ANSWER_WAIT_MAX.saturating_add(Duration::from_millis(u64::from(wait_ms)));
    let waits_not_at_all = request.wait_ms == Some(0);
    match answered_within(patience, shop.checkout(request)).await? {
        CheckoutAnswer::Paid { tr } => Ok(Done::Paid { order, tr, charged: true }),
        CheckoutAnswer::AlreadyPaid { tr } => Ok(Done::Paid { order, tr, charged: false }),
        CheckoutAnswer::Failed { tr, why } => Err(Failure::Failed { order, tr, why }),
        CheckoutAnswer::Open { tr, waits } => {
            let seen = Seen::at(shop);
            if waits_not_at_all {
                return Ok(Done::Begun { order, tr, waits, seen });
            }
            Err(Failure::Open { order, tr, waits, seen })
        }
    }
}
