//! The topic `orders`: what is asked of orders, in the order in which it is decided.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use holdfast_domain::ids::TransferId;
use holdfast_domain::shop::limits::{DEADLINE_MS_MAX, KEY_BYTES_MAX};
use holdfast_domain::shop::{CheckoutOrder, IdempotencyKey, OrderId, ShopCommand, TrNum};
use holdfast_tokens::Fingerprint;

use super::wire::Text;
use super::{Message, Poison, Topic, TraceId, check_text, read, write};

/// A message of the topic `orders`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderMessage {
    /// The request that it is; whoever waits for it is told under this.
    pub trace: TraceId,
    /// The order.
    pub order: OrderId,
    /// What is asked.
    pub command: OrderCommand,
}

/// What is asked of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderCommand {
    /// Check it out, or join the try that is under way.
    Checkout {
        /// How long it may stay undecided.
        deadline_ms: u32,
        /// Under which key it is asked for.
        key: Option<IdempotencyKey>,
    },
    /// End a try that is not decided.
    Cancel {
        /// That one and no other, should this come late or again. Commands of earlier programs name none.
        tr: Option<TrNum>,
    },
    /// Send again what was not answered, or check a failed order out anew.
    Retry {
        /// How long a new try may stay undecided.
        deadline_ms: u32,
    },
}

impl OrderMessage {
    /// The command that the shop decides.
    #[must_use]
    pub fn shop_command(&self) -> ShopCommand {
        let order = self.order.clone();
        match &self.command {
            OrderCommand::Checkout { deadline_ms, key } => ShopCommand::Checkout(CheckoutOrder {
                order,
                deadline_ms: *deadline_ms,
                key: key.clone(),
                chosen: None,
            }),
            OrderCommand::Cancel { tr: _ } => ShopCommand::Cancel { order },
            OrderCommand::Retry { deadline_ms } => ShopCommand::Retry { order, deadline_ms: *deadline_ms },
        }
    }
}

#[skip_serializing_none]
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", content = "body", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[serde(deny_unknown_fields)]
enum Body {
    Checkout { order: Text<OrderId>, deadline_ms: u32, key: Option<KeyBody> },
    Cancel { order: Text<OrderId>, tr: Option<TrNum> },
    Retry { order: Text<OrderId>, deadline_ms: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    key: String,
    /// The fingerprint of the request, as other numbers of 128 bits are written.
    body: TransferId,
}

impl KeyBody {
    fn of(key: &IdempotencyKey) -> KeyBody {
        KeyBody { key: key.key.to_string(), body: TransferId(key.body.0) }
    }

    fn read(self) -> Result<IdempotencyKey, Poison> {
        if !(1..=KEY_BYTES_MAX).contains(&self.key.len()) {
            return Err(Poison::field("key", format!("must have 1 to {KEY_BYTES_MAX} bytes")));
        }
        check_text("key", &self.key)?;
        Ok(IdempotencyKey { key: self.key.into(), body: Fingerprint(self.body.0) })
    }
}

fn deadline(deadline_ms: u32) -> Result<u32, Poison> {
    if (1..=DEADLINE_MS_MAX).contains(&deadline_ms) {
        Ok(deadline_ms)
    } else {
        Err(Poison::field("deadlineMs", format!("must be 1 to {DEADLINE_MS_MAX}")))
    }
}

impl Message for OrderMessage {
    const TOPIC: Topic = Topic::Orders;

    fn trace(&self) -> TraceId {
        self.trace
    }

    fn key(&self) -> String {
        self.order.as_str().to_owned()
    }

    fn to_json(&self) -> Vec<u8> {
        let order = Text(self.order.clone());
        let body = match &self.command {
            OrderCommand::Checkout { deadline_ms, key } => {
                Body::Checkout { order, deadline_ms: *deadline_ms, key: key.as_ref().map(KeyBody::of) }
            }
            OrderCommand::Cancel { tr } => Body::Cancel { order, tr: *tr },
            OrderCommand::Retry { deadline_ms } => Body::Retry { order, deadline_ms: *deadline_ms },
        };
        write(self.trace, body)
    }

    fn from_json(value: &[u8]) -> Result<OrderMessage, Poison> {
        let (trace, body) = read(value)?;
        let (Text(order), command) = match body {
            Body::Checkout { order, deadline_ms, key } => {
                let (deadline_ms, key) = (deadline(deadline_ms)?, key.map(KeyBody::read).transpose()?);
                (order, OrderCommand::Checkout { deadline_ms, key })
            }
            Body::Cancel { order, tr } => (order, OrderCommand::Cancel { tr }),
            Body::Retry { order, deadline_ms } => {
                (order, OrderCommand::Retry { deadline_ms: deadline(deadline_ms)? })
            }
        };
        check_text("order", order.as_str())?;
        Ok(OrderMessage { trace, order, command })
    }
}
