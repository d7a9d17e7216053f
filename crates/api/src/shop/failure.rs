//! Why something was not done, before anybody says it: what it is called, its status, its words, its numbers.

use axum::http::StatusCode;
use holdfast_domain::shop::{OrderId, ShopRefusal, TrNum, Waits, Why};
use holdfast_engine::{Refusal as HubRefusal, ShopError};
use holdfast_wire::Instant;
use holdfast_wire::shop::{About, OrderState};

use super::standing::{self, Seen};
use crate::admin::shortened;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Not what the path takes.
    Invalid(String),
    /// A number that is none, or out of bounds.
    Number(String),
    /// The shop or the hub says no.
    Shop(ShopError),
    /// The checkout failed in this try, and everything is given back.
    Failed { order: OrderId, tr: TrNum, why: Why },
    /// The caller's wait is over, and the checkout is not. What the hub knows of it is in `seen`.
    Open { order: OrderId, tr: TrNum, waits: Waits, seen: Seen },
    /// The hub did not answer in time.
    NoAnswer,
}

impl From<ShopError> for Failure {
    fn from(error: ShopError) -> Failure {
        match error {
            ShopError::NoSuchPage(text) => {
                let text = shortened(&text);
                Failure::Invalid(format!("after: '{text}' is not the 'next' of an earlier page"))
            }
            error => Failure::Shop(error),
        }
    }
}

impl From<ShopRefusal> for Failure {
    fn from(refusal: ShopRefusal) -> Failure {
        Failure::Shop(ShopError::Refused(refusal))
    }
}

impl Failure {
    /// Its status where each kind has its own, its name for programs, and its title, which never changes.
    pub(super) const fn kind(&self) -> (u16, &'static str, &'static str) {
        match self {
            Failure::Invalid(_) => (400, "invalid", "The request is wrong"),
            Failure::Number(_) => (422, "invalid-number", "A number is not whole, or out of bounds"),
            Failure::Shop(ShopError::Refused(refusal)) => kind_of(refusal),
            Failure::Shop(ShopError::Hub(HubRefusal::Busy)) => (429, "busy", "The hub is busy"),
            Failure::Shop(ShopError::Hub(HubRefusal::TooMany(_) | HubRefusal::TooLarge(_))) => {
                (413, "too-large", "The request is too large")
            }
            Failure::Shop(_) => (503, "unavailable", "The shop is unavailable"),
            Failure::Failed { why, .. } => match why {
                Why::Pay => (402, "payment-refused", "The payment was refused"),
                Why::Stock => (402, "stock-refused", "The stock was refused"),
                Why::Both => (402, "payment-and-stock-refused", "Payment and stock were both refused"),
                Why::Cancelled => (409, "cancelled", "The checkout was cancelled"),
                Why::Deadline => (409, "deadline-passed", "The checkout took too long"),
            },
            Failure::Open { .. } => (504, "checkout-open", "The wait is over, the checkout is not"),
            Failure::NoAnswer => (504, "no-answer", "The outcome is unknown"),
        }
    }

    /// Its status where each kind has its own.
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind().0).expect("the table has common numbers only")
    }

    /// What happened and what to do, for people.
    pub(super) fn detail(&self) -> String {
        match self {
            Failure::Invalid(detail) | Failure::Number(detail) => detail.clone(),
            Failure::Shop(error) => error.to_string(),
            Failure::Failed { order, why, .. } => {
                let why = match why {
                    Why::Pay => "the payment side refused (too little to pay with, or no such user)",
                    Why::Stock => "the stock side refused (too few of an item, or no such item)",
                    Why::Both => "the payment side and the stock side refused",
                    Why::Cancelled => "an operator cancelled the checkout",
                    Why::Deadline => "the checkout was not decided before its deadline",
                };
                format!("order {order} is not paid: {why}. Whatever was taken is given back")
            }
            Failure::Open { order, waits, seen, .. } => {
                let (state, waits) = (standing::state_of(waits), standing::in_words(waits, seen));
                format!("order {order} is {state}: it {waits}. Check it out again to go on waiting")
            }
            Failure::NoAnswer => {
                "no answer came in time; the outcome is unknown: look, or repeat a checkout \
                                  with the same Idempotency-Key"
                    .to_owned()
            }
        }
    }

    /// What a program can go by, beside the name.
    pub(super) fn about(&self) -> About {
        match self {
            Failure::Shop(ShopError::Refused(refusal)) => about(refusal),
            Failure::Failed { order, tr, why } => About {
                state: Some(OrderState::NotPaid),
                why: Some(standing::shown_why(*why)),
                ..of_try(order, Some(*tr))
            },
            // The problem has a detail of its own.
            Failure::Open { order, tr, waits, .. } => About {
                state: Some(standing::state_of(waits)),
                since: Some(Instant(waits.since)),
                deadline: Some(Instant(waits.deadline)),
                waits_for: Some(standing::sides_of(waits.sides)),
                ..of_try(order, Some(*tr))
            },
            _ => About::default(),
        }
    }
}

fn of_order(order: &OrderId) -> About {
    About { order: Some(order.as_str().into()), ..About::default() }
}

fn of_try(order: &OrderId, tr: Option<TrNum>) -> About {
    About { tr: Some(tr.map(TrNum::get).into()), ..of_order(order) }
}

const fn kind_of(refusal: &ShopRefusal) -> (u16, &'static str, &'static str) {
    match refusal {
        ShopRefusal::UnknownUser(_) => (404, "unknown-user", "There is no such user"),
        ShopRefusal::UnknownItem(_) => (404, "unknown-item", "There is no such item"),
        ShopRefusal::UnknownOrder(_) => (404, "unknown-order", "There is no such order"),
        ShopRefusal::UnknownTry(_) => (404, "unknown-try", "There was no such try"),
        ShopRefusal::Exists { .. } => (409, "exists", "The id is taken"),
        ShopRefusal::NotNow { .. } => (409, "not-now", "The order does not stand where this can be done"),
        ShopRefusal::CheckoutsOpen { .. } => {
            (409, "checkouts-open", "Checkouts are open, and rows would be replaced")
        }
        ShopRefusal::Replaced(_) => (409, "replaced", "The order was made anew since"),
        ShopRefusal::TriesUsedUp(_) => (409, "tries-used-up", "The order was tried too often"),
        ShopRefusal::NotOutside(_) => (409, "not-outside", "The side is inside"),
        ShopRefusal::InsufficientCredit { .. } => (402, "insufficient-credit", "There is too little credit"),
        ShopRefusal::InsufficientStock { .. } => (402, "insufficient-stock", "There is too little stock"),
        ShopRefusal::TooLarge(_) => (422, "out-of-bounds", "A number or an order would grow too large"),
        ShopRefusal::Invalid(_) => (422, "contradiction", "The request contradicts itself"),
        ShopRefusal::KeyReused => (422, "key-reused", "The key came with another request before"),
        ShopRefusal::Full { .. } => (503, "full", "The shop is full"),
        ShopRefusal::ChooseTokens { .. } => {
            (503, "contention", "Others were faster with the tokens, time and again")
        }
    }
}

fn about(refusal: &ShopRefusal) -> About {
    match refusal {
        ShopRefusal::UnknownUser(user) => About { user: Some(user.as_str().into()), ..About::default() },
        ShopRefusal::UnknownItem(item) => About { item: Some(item.as_str().into()), ..About::default() },
        ShopRefusal::UnknownOrder(order)
        | ShopRefusal::UnknownTry(order)
        | ShopRefusal::Replaced(order)
        | ShopRefusal::ChooseTokens { order, .. }
        | ShopRefusal::TriesUsedUp(order) => of_order(order),
        ShopRefusal::CheckoutsOpen { open, .. } => About { open: Some(*open), ..About::default() },
        ShopRefusal::NotNow { order, state } => {
            About { state: Some(standing::shown_state(*state)), ..of_try(order, state.tr_num()) }
        }
        ShopRefusal::InsufficientCredit { user, credit } => {
            About { user: Some(user.as_str().into()), credit: Some(credit.get()), ..About::default() }
        }
        ShopRefusal::InsufficientStock { item, stock } => {
            About { item: Some(item.as_str().into()), stock: Some(stock.get()), ..About::default() }
        }
        _ => About::default(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Response;
    use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
    use holdfast_domain::shop::{OrderState, Side, Sides, Whole};
    use holdfast_engine::clock::ClockFault;

    use serde_json::json;

    use super::*;
    use crate::shop::dialect::Dialect;
    use crate::shop::{Course, Proper};

    fn open() -> Failure {
        let waits = Waits { sides: Sides::BOTH, cancelling: false, since: 0, deadline: 10_000 };
        let seen = Seen { now: 2_000, ..Seen::default() };
        Failure::Open { order: "o".parse().unwrap(), tr: TrNum::FIRST, waits, seen }
    }

    fn failed(why: Why) -> Failure {
        Failure::Failed { order: "o".parse().unwrap(), tr: TrNum::FIRST, why }
    }

    fn hub(refusal: HubRefusal) -> Failure {
        Failure::Shop(ShopError::Hub(refusal))
    }

    /// Every failure: its name, its status under /shop, its status as the course has it.
    fn all() -> Vec<(Failure, &'static str, u16, u16)> {
        let order: OrderId = "o".parse().unwrap();
        let not_now = ShopRefusal::NotNow { order: order.clone(), state: OrderState::Paid(TrNum::FIRST) };
        let clock = HubRefusal::Clock(ClockFault::Jumped { moved_ms: 20_000 });
        let credit = ShopRefusal::InsufficientCredit { user: "u".parse().unwrap(), credit: Whole::ZERO };
        let contention = ShopRefusal::ChooseTokens { order: order.clone(), why: "x", taken: None };
        let full = holdfast_tokens::Refusal::StoreUnavailable("x".into());
        let stock = ShopRefusal::InsufficientStock { item: "i".parse().unwrap(), stock: Whole::ZERO };
        vec![
            (Failure::Invalid("x".into()), "invalid", 400, 400),
            (Failure::Number("x".into()), "invalid-number", 422, 400),
            (ShopRefusal::UnknownUser("u".parse().unwrap()).into(), "unknown-user", 404, 400),
            (ShopRefusal::UnknownItem("i".parse().unwrap()).into(), "unknown-item", 404, 400),
            (ShopRefusal::UnknownOrder(order.clone()).into(), "unknown-order", 404, 400),
            (ShopRefusal::UnknownTry(order.clone()).into(), "unknown-try", 404, 400),
            (ShopRefusal::Exists { kind: "user", id: "u".into() }.into(), "exists", 409, 400),
            (not_now.into(), "not-now", 409, 400),
            (ShopRefusal::CheckoutsOpen { kind: "users", open: 1 }.into(), "checkouts-open", 409, 400),
            (ShopRefusal::Replaced(order.clone()).into(), "replaced", 409, 400),
            (ShopRefusal::TriesUsedUp(order).into(), "tries-used-up", 409, 400),
            (ShopRefusal::NotOutside(Side::Pay).into(), "not-outside", 409, 400),
            (credit.into(), "insufficient-credit", 402, 400),
            (stock.into(), "insufficient-stock", 402, 400),
            (ShopRefusal::TooLarge("x".into()).into(), "out-of-bounds", 422, 400),
            (ShopRefusal::Invalid("x").into(), "contradiction", 422, 400),
            (ShopRefusal::KeyReused.into(), "key-reused", 422, 400),
            (ShopRefusal::Full { what: "users", max: 1 }.into(), "full", 503, 400),
            (contention.into(), "contention", 503, 400),
            (failed(Why::Pay), "payment-refused", 402, 400),
            (failed(Why::Stock), "stock-refused", 402, 400),
            (failed(Why::Both), "payment-and-stock-refused", 402, 400),
            (failed(Why::Cancelled), "cancelled", 409, 400),
            (failed(Why::Deadline), "deadline-passed", 409, 400),
            (hub(HubRefusal::Busy), "busy", 429, 429),
            (hub(HubRefusal::TooLarge(9)), "too-large", 413, 413),
            (hub(clock), "unavailable", 503, 503),
            (hub(HubRefusal::Closed("x".into())), "unavailable", 503, 503),
            (hub(HubRefusal::Unknown("x".into())), "unavailable", 503, 503),
            (Failure::Shop(ShopError::Unreadable("x".into())), "unavailable", 503, 503),
            (Failure::Shop(ShopError::Vault(full)), "unavailable", 503, 503),
            (open(), "checkout-open", 504, 504),
            (Failure::NoAnswer, "no-answer", 504, 504),
        ]
    }

    #[test]
    fn each_failure_has_its_code_and_the_course_has_400_for_business() {
        let looks = |response: &Response<Body>| {
            let media_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
            let later = response.headers().contains_key(RETRY_AFTER);
            (response.status().as_u16(), media_type, later)
        };
        for (failure, name, proper, course) in all() {
            assert_eq!(failure.kind().1, name);
            let later = |status| status == 429 || status == 503;
            let answer = looks(&Proper::failed(&failure));
            assert_eq!(answer, (proper, "application/problem+json".to_owned(), later(proper)), "{name}");
            let answer = looks(&Course::failed(&failure));
            assert_eq!(answer, (course, "text/plain; charset=utf-8".to_owned(), later(course)), "{name}");
            assert!(!failure.detail().is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_open_is_told_in_words_and_in_members() {
        let detail = "order o is pending: it waits for pay and stock since 2 s, cancels in 8 s. Check it out again to go on waiting";
        assert_eq!(open().detail(), detail);
        let members = json!({"order": "o", "tr": 1, "state": "pending", "since": "1970-01-01T00:00:00.000Z",
            "deadline": "1970-01-01T00:00:10.000Z", "waitsFor": ["pay", "stock"]});
        assert_eq!(json!(open().about()), members, "the problem's own detail stays");
    }
}
