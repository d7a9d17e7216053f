//! How a checkout stands, for whoever waits for it at a node: the answer to a command of the topic `orders` (under the
//! command's trace), and the end of a try (under no trace: everybody who waits for the order is meant).

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use holdfast_checkout::codec::encode_key;
use holdfast_domain::effects::Outcome;
use holdfast_domain::shop::limits::KEYS_PER_CHECKOUT_MAX;
use holdfast_domain::shop::{
    CheckoutAnswer, OrderId, OrderState, ShopOutcome, ShopRefusal, Sides, TrNum, TryKey, Waits, Why,
};

use super::super::Poison;
use super::super::wire::Text;

/// How the checkout of an order stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "CheckoutBody", try_from = "CheckoutBody")]
pub struct CheckoutNotice {
    /// The order.
    pub order: OrderId,
    /// How it stands, with its try; or why the command was refused.
    pub answer: Result<CheckoutAnswer, CheckoutRefusal>,
}

/// Why a command about an order was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckoutRefusal {
    /// There is no such order.
    UnknownOrder,
    /// It does not stand where this can be done.
    NotNow(OrderState),
    /// The idempotency key came with another request before.
    KeyReused,
    /// As many keys as may be wait for this checkout already.
    KeysFull,
    /// It was tried more often than can be counted.
    TriesUsedUp,
    /// Something that no command of the database profile is refused for today, in words.
    Other(String),
}

impl CheckoutRefusal {
    /// The refusal of a shop.
    #[must_use]
    pub fn of(refusal: &ShopRefusal) -> CheckoutRefusal {
        match refusal {
            ShopRefusal::UnknownOrder(_) => CheckoutRefusal::UnknownOrder,
            ShopRefusal::NotNow { state, .. } => CheckoutRefusal::NotNow(*state),
            ShopRefusal::KeyReused => CheckoutRefusal::KeyReused,
            ShopRefusal::TriesUsedUp(_) => CheckoutRefusal::TriesUsedUp,
            ShopRefusal::Full { what: KEYS, .. } => CheckoutRefusal::KeysFull,
            other => CheckoutRefusal::Other(other.to_string()),
        }
    }

    fn of_order(&self, order: &OrderId) -> ShopRefusal {
        let order = order.clone();
        match self {
            CheckoutRefusal::UnknownOrder => ShopRefusal::UnknownOrder(order),
            CheckoutRefusal::NotNow(state) => ShopRefusal::NotNow { order, state: *state },
            CheckoutRefusal::KeyReused => ShopRefusal::KeyReused,
            CheckoutRefusal::KeysFull => ShopRefusal::Full { what: KEYS, max: KEYS_PER_CHECKOUT_MAX },
            CheckoutRefusal::TriesUsedUp => ShopRefusal::TriesUsedUp(order),
            CheckoutRefusal::Other(why) => ShopRefusal::TooLarge(why.clone()),
        }
    }
}

/// What there may be too many of.
const KEYS: &str = "keys for one checkout";

impl CheckoutNotice {
    /// The outcome as an embedded shop would give it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of_shop(match &self.answer {
            Ok(answer) => ShopOutcome::Checkout(*answer),
            Err(refusal) => ShopOutcome::Refused(refusal.of_order(&self.order)),
        })
    }

    /// The try, as it is written in the topics of the checkout; a refusal names no try, and has the order as a JSON string.
    pub(super) fn key(&self) -> String {
        match &self.answer {
            Ok(answer) => encode_key(&TryKey { order_id: self.order.clone(), tr_num: answer.tr() }),
            Err(_) => serde_json::to_string(self.order.as_str()).expect("a string is JSON"),
        }
    }
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckoutBody {
    order: Text<OrderId>,
    tr: Option<TrNum>,
    answer: Named,
    why: Option<String>,
    waits: Option<WaitsBody>,
    state: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Named {
    Paid,
    AlreadyPaid,
    Failed,
    Open,
    UnknownOrder,
    NotNow,
    KeyReused,
    KeysFull,
    TriesUsedUp,
    Refused,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitsBody {
    pay: bool,
    stock: bool,
    cancelling: bool,
    since: i64,
    deadline: i64,
}

impl From<CheckoutNotice> for CheckoutBody {
    fn from(CheckoutNotice { order, answer }: CheckoutNotice) -> CheckoutBody {
        let body = |named, tr| CheckoutBody {
            order: Text(order),
            tr,
            answer: named,
            why: None,
            waits: None,
            state: None,
        };
        match answer {
            Ok(CheckoutAnswer::Paid { tr }) => body(Named::Paid, Some(tr)),
            Ok(CheckoutAnswer::AlreadyPaid { tr }) => body(Named::AlreadyPaid, Some(tr)),
            Ok(CheckoutAnswer::Failed { tr, why }) => {
                CheckoutBody { why: Some(why.name().to_owned()), ..body(Named::Failed, Some(tr)) }
            }
            Ok(CheckoutAnswer::Open { tr, waits }) => {
                let Waits { sides: Sides { pay, stock }, cancelling, since, deadline } = waits;
                let waits = Some(WaitsBody { pay, stock, cancelling, since, deadline });
                CheckoutBody { waits, ..body(Named::Open, Some(tr)) }
            }
            Err(CheckoutRefusal::UnknownOrder) => body(Named::UnknownOrder, None),
            Err(CheckoutRefusal::NotNow(state)) => {
                let named = Some(state.name().to_owned());
                CheckoutBody { state: named, ..body(Named::NotNow, state.tr_num()) }
            }
            Err(CheckoutRefusal::KeyReused) => body(Named::KeyReused, None),
            Err(CheckoutRefusal::KeysFull) => body(Named::KeysFull, None),
            Err(CheckoutRefusal::TriesUsedUp) => body(Named::TriesUsedUp, None),
            Err(CheckoutRefusal::Other(why)) => CheckoutBody { why: Some(why), ..body(Named::Refused, None) },
        }
    }
}

impl TryFrom<CheckoutBody> for CheckoutNotice {
    type Error = Poison;

    fn try_from(body: CheckoutBody) -> Result<CheckoutNotice, Poison> {
        let needed = || body.tr.ok_or_else(|| Poison::field("tr", "is missing"));
        let answer = match body.answer {
            Named::Paid => Ok(CheckoutAnswer::Paid { tr: needed()? }),
            Named::AlreadyPaid => Ok(CheckoutAnswer::AlreadyPaid { tr: needed()? }),
            Named::Failed => {
                let named = |why: &Why| Some(why.name()) == body.why.as_deref();
                let why = Why::ALL.into_iter().find(named);
                let why = why.ok_or_else(|| Poison::field("why", "is not known"))?;
                Ok(CheckoutAnswer::Failed { tr: needed()?, why })
            }
            Named::Open => {
                let waits = body.waits.ok_or_else(|| Poison::field("waits", "is missing"))?;
                let WaitsBody { pay, stock, cancelling, since, deadline } = waits;
                let waits = Waits { sides: Sides { pay, stock }, cancelling, since, deadline };
                Ok(CheckoutAnswer::Open { tr: needed()?, waits })
            }
            Named::UnknownOrder => Err(CheckoutRefusal::UnknownOrder),
            Named::NotNow => Err(CheckoutRefusal::NotNow(match body.state.as_deref() {
                Some("not_paid") => OrderState::NotPaid(body.tr),
                Some("pending") => OrderState::Pending(needed()?),
                Some("paid") => OrderState::Paid(needed()?),
                Some("cancelling") => OrderState::Cancelling(needed()?),
                _ => return Err(Poison::field("state", "is not known")),
            })),
            Named::KeyReused => Err(CheckoutRefusal::KeyReused),
            Named::KeysFull => Err(CheckoutRefusal::KeysFull),
            Named::TriesUsedUp => Err(CheckoutRefusal::TriesUsedUp),
            Named::Refused => Err(CheckoutRefusal::Other(body.why.unwrap_or_default())),
        };
        Ok(CheckoutNotice { order: body.order.0, answer })
    }
}
