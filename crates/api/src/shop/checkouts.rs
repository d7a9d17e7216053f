//! `/hub/checkouts…`: which are open and what they wait for; cancelled, tried again; and what an outside participant
//! answers.

use axum::Json;
use axum::extract::State;
use holdfast_domain::shop::callers::CheckoutState;
use holdfast_domain::shop::{Charge, CheckoutRow, OrderId, OrderRow, Said, ShopRefusal, Side, TrNum, TryKey};
use holdfast_engine::ShopError;
use holdfast_wire::shop::{
    Checkout, CheckoutPage, CheckoutStory, OpenState, PayOutcome, PaySaid, StockOutcome, StockSaid,
};
use holdfast_wire::{Instant, Rule};

use super::answered;
use super::failure::Failure;
use super::path::{self, Place};
use super::rows::Shop;
use super::standing::{self, Seen};
use crate::admin::body::Body;
use crate::error::ApiError;
use crate::views::filters::{self, Parameters, filters};

/// Open checkouts, the oldest first.
pub(crate) async fn list(
    State(shop): State<Shop>,
    parameters: Parameters,
) -> Result<Json<CheckoutPage>, ApiError> {
    let [state, after, limit] = filters(parameters, ["state", "after", "limit"])?;
    let state = state.as_deref().map(read_state).transpose()?;
    let limit = filters::rows(limit.as_deref())?;
    let page = answered(shop.open_checkouts(state, after, limit)).await?;
    let seen = Seen { now: page.now, troubles: shop.troubles() };
    let checkouts = page.checkouts.iter().map(|open| shown(&open.order, Some(&open.row), &seen)).collect();
    Ok(Json(CheckoutPage { checkouts, next: page.next.into() }))
}

fn read_state(text: &str) -> Result<CheckoutState, ApiError> {
    match OpenState::read(text) {
        Ok(OpenState::Pending) => Ok(CheckoutState::Pending),
        Ok(OpenState::Cancelling) => Ok(CheckoutState::Cancelling),
        Err(problem) => Err(ApiError::malformed(format!("state: {problem}"))),
    }
}

/// An order as its checkouts see it, and the open one if there is one.
fn shown(row: &OrderRow, open: Option<&CheckoutRow>, seen: &Seen) -> CheckoutStory {
    let order = &row.order;
    let charge = open.and_then(|open| open.charge.as_ref());
    CheckoutStory {
        order: order.order_id.as_str().into(),
        tr: order.state.tr_num().map(TrNum::get).into(),
        state: standing::shown_state(order.state),
        user: order.user_id.as_str().into(),
        amount: order.amount.to_string(),
        why: open.and_then(|open| open.why).or(row.failed).map(standing::shown_why),
        started_at: open.map(|open| Instant(open.started_at)),
        transfer: charge.and_then(|charge| match charge {
            Charge::Transfer { transfer, .. } => Some(transfer.to_string()),
            Charge::Tokens { .. } => None,
        }),
        spender: charge.and_then(|charge| match charge {
            Charge::Tokens { spender } => Some(spender.to_string()),
            Charge::Transfer { .. } => None,
        }),
        waits: open.map(|open| standing::shown_waits(&open.waits(), seen)),
    }
}

fn order_in(place: Place<String>) -> Result<OrderId, Failure> {
    path::id("order", &path::texts(place)?)
}

/// One order, whether a checkout of it is open or not.
pub(crate) async fn show(
    State(shop): State<Shop>,
    place: Place<String>,
) -> Result<Json<CheckoutStory>, ApiError> {
    let id = order_in(place)?;
    let view = answered(shop.order(id.clone())).await?;
    let view = view.ok_or_else(|| Failure::from(ShopRefusal::UnknownOrder(id)))?;
    Ok(Json(shown(&view.row, view.open.as_deref(), &Seen::at(&shop))))
}

/// Ends a checkout that is not decided.
pub(crate) async fn cancel(
    State(shop): State<Shop>,
    place: Place<String>,
) -> Result<Json<Checkout>, ApiError> {
    let order = order_in(place)?;
    let answer = answered(shop.cancel(order.clone())).await?;
    Ok(Json(standing::answer(&order, &answer, &Seen::at(&shop))))
}

/// Has what was not answered sent again, or a failed order checked out anew.
pub(crate) async fn retry(
    State(shop): State<Shop>,
    place: Place<String>,
) -> Result<Json<Checkout>, ApiError> {
    let order = order_in(place)?;
    let answer = answered(shop.retry(order.clone())).await?;
    Ok(Json(standing::answer(&order, &answer, &Seen::at(&shop))))
}

/// What the payment side says about a try.
pub(crate) async fn pay_answers(
    state: State<Shop>,
    place: Place<(String, String)>,
    Body(PayOutcome { outcome }): Body<PayOutcome>,
) -> Result<Json<Checkout>, ApiError> {
    let said = match outcome {
        PaySaid::Taken => Said::Taken,
        PaySaid::Refused => Said::Refused,
        PaySaid::Undone => Said::Undone,
    };
    hear(state, place, Side::Pay, said).await
}

/// What the stock side says about a try.
pub(crate) async fn stock_answers(
    state: State<Shop>,
    place: Place<(String, String)>,
    Body(StockOutcome { outcome }): Body<StockOutcome>,
) -> Result<Json<Checkout>, ApiError> {
    let said = match outcome {
        StockSaid::Taken => Said::Taken,
        StockSaid::Refused => Said::Refused,
        StockSaid::Undone => Said::Undone,
    };
    hear(state, place, Side::Stock, said).await
}

/// A repeat, and what comes after the try is over, is heard and changes nothing.
async fn hear(
    State(shop): State<Shop>,
    place: Place<(String, String)>,
    side: Side,
    said: Said,
) -> Result<Json<Checkout>, ApiError> {
    let (order, tr) = path::texts(place)?;
    let order_id: OrderId = path::id("order", &order)?;
    let tr_num = TrNum::try_from(path::count("tr", &tr, u64::from(u32::MAX))?)
        .map_err(|error| Failure::Number(format!("tr: {error}")))?;
    let key = TryKey { order_id: order_id.clone(), tr_num };
    let (counts, answer) = answered(shop.answer(key, side, said)).await?;
    let checkout = standing::answer(&order_id, &answer, &Seen::at(&shop));
    Ok(Json(Checkout { counted: Some(counts), ..checkout }))
}

/// Under `/hub` refusals have the standard's form.
impl From<Failure> for ApiError {
    fn from(failure: Failure) -> ApiError {
        let code = match &failure {
            Failure::Invalid(detail) | Failure::Number(detail) => return ApiError::malformed(detail.clone()),
            Failure::Shop(ShopError::Hub(refusal)) => return refusal.clone().into(),
            Failure::NoAnswer => return ApiError::no_answer(),
            _ => match failure.kind().0 {
                404 => 3200,
                503 => 2003,
                504 => 2004,
                _ => 3100,
            },
        };
        ApiError::new(failure.status(), code, failure.detail())
    }
}
