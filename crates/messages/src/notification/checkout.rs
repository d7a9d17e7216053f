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
    pub answer: Result<CheckoutAnswer, ShopRefusal>,
}

/// What there may be too many of.
const KEYS: &str = "keys for one checkout";

impl CheckoutNotice {
    /// The outcome as an embedded shop would give it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::of_shop(match &self.answer {
            Ok(answer) => ShopOutcome::Checkout(*answer),
            Err(refusal) => ShopOutcome::Refused(refusal.clone()),
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
            Err(ShopRefusal::UnknownOrder(_)) => body(Named::UnknownOrder, None),
            Err(ShopRefusal::NotNow { state, .. }) => {
                let named = Some(state.name().to_owned());
                CheckoutBody { state: named, ..body(Named::NotNow, state.tr_num()) }
            }
            Err(ShopRefusal::KeyReused) => body(Named::KeyReused, None),
            Err(ShopRefusal::Full { what: KEYS, .. }) => body(Named::KeysFull, None),
            Err(ShopRefusal::TriesUsedUp(_)) => body(Named::TriesUsedUp, None),
            // No command of the database profile is refused for anything else today.
            Err(other) => CheckoutBody { why: Some(other.to_string()), ..body(Named::Refused, None) },
        }
    }
}

impl TryFrom<CheckoutBody> for CheckoutNotice {
    type Error = Poison;

    fn try_from(body: CheckoutBody) -> Result<CheckoutNotice, Poison> {
        let order = || body.order.0.clone();
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
            Named::UnknownOrder => Err(ShopRefusal::UnknownOrder(order())),
            Named::NotNow => {
                let state = match body.state.as_deref() {
                    Some("not_paid") => OrderState::NotPaid(body.tr),
                    Some("pending") => OrderState::Pending(needed()?),
                    Some("paid") => OrderState::Paid(needed()?),
                    Some("cancelling") => OrderState::Cancelling(needed()?),
                    _ => return Err(Poison::field("state", "is not known")),
                };
                Err(ShopRefusal::NotNow { order: order(), state })
            }
            Named::KeyReused => Err(ShopRefusal::KeyReused),
            Named::KeysFull => Err(ShopRefusal::Full { what: KEYS, max: KEYS_PER_CHECKOUT_MAX }),
            Named::TriesUsedUp => Err(ShopRefusal::TriesUsedUp(order())),
            Named::Refused => Err(ShopRefusal::TooLarge(body.why.clone().unwrap_or_default())),
        };
        Ok(CheckoutNotice { order: body.order.0, answer })
    }
}
