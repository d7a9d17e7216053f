//! The topic `orders`: what is asked of orders, in the order in which it is decided.

use serde::{Deserialize, Serialize};

use holdfast_domain::ids::TransferId;
use holdfast_domain::shop::limits::{DEADLINE_MS_MAX, KEY_BYTES_MAX};
use holdfast_domain::shop::{CheckoutOrder, IdempotencyKey, OrderId, ShopCommand, TrNum};
use holdfast_tokens::Fingerprint;

use super::wire::Text;
use super::{Message, Poison, Topic, TraceId, check_text, open, write};

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

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CheckoutBody {
    order: Text<OrderId>,
    deadline_ms: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<KeyBody>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    key: String,
    /// The fingerprint of the request, as other numbers of 128 bits are written.
    body: Text<TransferId>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    order: Text<OrderId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tr: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RetryBody {
    order: Text<OrderId>,
    deadline_ms: u32,
}

impl KeyBody {
    fn of(key: &IdempotencyKey) -> KeyBody {
        KeyBody { key: key.key.to_string(), body: Text(TransferId(key.body.0)) }
    }

    fn read(self) -> Result<IdempotencyKey, Poison> {
        if !(1..=KEY_BYTES_MAX).contains(&self.key.len()) {
            return Err(Poison::field("key", format!("must have 1 to {KEY_BYTES_MAX} bytes")));
        }
        check_text("key", &self.key)?;
        Ok(IdempotencyKey { key: self.key.into(), body: Fingerprint(self.body.0.0) })
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
        match &self.command {
            OrderCommand::Checkout { deadline_ms, key } => {
                let (deadline_ms, key) = (*deadline_ms, key.as_ref().map(KeyBody::of));
                write(self.trace, "checkout", &CheckoutBody { order, deadline_ms, key })
            }
            OrderCommand::Cancel { tr } => {
                write(self.trace, "cancel", &CancelBody { order, tr: tr.map(|tr| u64::from(tr.get())) })
            }
            OrderCommand::Retry { deadline_ms } => {
                write(self.trace, "retry", &RetryBody { order, deadline_ms: *deadline_ms })
            }
        }
    }

    fn from_json(value: &[u8]) -> Result<OrderMessage, Poison> {
        let envelope = open(value)?;
        let (order, command) = match &*envelope.kind {
            "checkout" => {
                let CheckoutBody { order, deadline_ms, key } = envelope.body()?;
                let (deadline_ms, key) = (deadline(deadline_ms)?, key.map(KeyBody::read).transpose()?);
                (order, OrderCommand::Checkout { deadline_ms, key })
            }
            "cancel" => {
                let CancelBody { order, tr } = envelope.body()?;
                let tr = tr.map(TrNum::try_from).transpose();
                let tr = tr.map_err(|error| Poison::field("tr", error.to_string()))?;
                (order, OrderCommand::Cancel { tr })
            }
            "retry" => {
                let RetryBody { order, deadline_ms } = envelope.body()?;
                (order, OrderCommand::Retry { deadline_ms: deadline(deadline_ms)? })
            }
            _ => return envelope.unknown_type(),
        };
        check_text("order", order.0.as_str())?;
        Ok(OrderMessage { trace: envelope.trace.0, order: order.0, command })
    }
}
