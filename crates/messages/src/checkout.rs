//! The topics `pay`, `stock`, `outcomes` and `outcome-offsets`. Anybody may read and write the first three, so they carry the
//! checkout's own shapes and no envelope: the key is `{"order_id","tr_num"}`, the value's `type` says which message it is.
//!
//! All messages of an order lie in the partition of its id, tries and all, and the three topics have equally many partitions.

use holdfast_checkout::codec;
use holdfast_domain::shop::{self, Answer, AskedStep, Body, Topic as Belongs};

use super::{Message, Poison, Topic, TraceId, check_text};

/// Who reads a value without its key does not know which try it is about.
const KEY_NEEDED: &str = "it says nothing without its key, which names the order and the try";

macro_rules! checkout_message {
    ($(#[$doc:meta])* $name:ident, $topic:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(shop::Message);

        impl $name {
            /// This message, if it belongs to the topic.
            #[must_use]
            pub fn new(message: shop::Message) -> Option<$name> {
                belongs(&message.body, Topic::$topic).then_some($name(message))
            }

            /// What it says.
            #[must_use]
            pub const fn said(&self) -> &shop::Message {
                &self.0
            }
        }

        impl Message for $name {
            const TOPIC: Topic = Topic::$topic;

            /// Outside participants know of none.
            fn trace(&self) -> TraceId {
                TraceId::NOBODY
            }

            fn key(&self) -> String {
                codec::encode_key(&self.0.key)
            }

            /// The order: all of its tries, wherever the number of a try would put them.
            fn partition_key(&self) -> Option<String> {
                Some(self.0.key.order_id.as_str().to_owned())
            }

            fn to_json(&self) -> Vec<u8> {
                codec::encode(&self.0).1
            }

            fn from_json(_: &[u8]) -> Result<$name, Poison> {
                Err(Poison::Shape(KEY_NEEDED.to_owned()))
            }

            /// Spaces and the order of fields do not matter, in the key as little as in the value.
            fn read(key: &[u8], value: &[u8]) -> Result<$name, Poison> {
                let message = codec::decode(key, value).map_err(|poison| Poison::Shape(poison.to_string()))?;
                check_ids(&message)?;
                let kind = message.body.type_name();
                $name::new(message).ok_or_else(|| Poison::Type(kind.to_owned()))
            }
        }
    };
}

checkout_message!(
    /// A message of the topic `pay`: `pay` or `can`.
    PayMessage,
    Pay
);
checkout_message!(
    /// A message of the topic `stock`: `sub` or `add`.
    StockMessage,
    Stock
);
checkout_message!(
    /// A message of the topic `outcomes`: what a side answers, `trsucc` or `trfail`.
    OutcomeMessage,
    Outcomes
);

/// Who writes to these topics is not ours, and an id that no row can have must not get as far as the rows.
fn check_ids(message: &shop::Message) -> Result<(), Poison> {
    check_text("order_id", message.key.order_id.as_str())?;
    match &message.body {
        Body::Pay(AskedStep::Forward(payment) | AskedStep::Rollback(payment))
        | Body::Paid(Answer::Taken(payment) | Answer::Refused(payment) | Answer::Undone(payment)) => {
            check_text("user_id", payment.user_id.as_str())
        }
        Body::Stock(AskedStep::Forward(items) | AskedStep::Rollback(items))
        | Body::Stocked(Answer::Taken(items) | Answer::Refused(items) | Answer::Undone(items)) => {
            items.lines().iter().try_for_each(|line| check_text("items", line.id.as_str()))
        }
        Body::Decided(_) => Ok(()),
    }
}

fn belongs(body: &Body, topic: Topic) -> bool {
    topic
        == match body.topic() {
            Belongs::Pay => Topic::Pay,
            Belongs::Stock => Topic::Stock,
            Belongs::Outcomes => Topic::Outcomes,
        }
}

/// A message of the topic `outcome-offsets`: from where a fresh order consumer has to read. The newest of a partition counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeOffset {
    /// The partition of `outcomes`.
    pub partition: u32,
    /// The start of its oldest open try, or the end of what was read.
    pub offset: u64,
}

impl Message for OutcomeOffset {
    const TOPIC: Topic = Topic::OutcomeOffsets;

    fn trace(&self) -> TraceId {
        TraceId::NOBODY
    }

    fn key(&self) -> String {
        self.partition.to_string()
    }

    fn to_json(&self) -> Vec<u8> {
        self.offset.to_string().into_bytes()
    }

    fn from_json(_: &[u8]) -> Result<OutcomeOffset, Poison> {
        Err(Poison::Shape("its key names the partition".to_owned()))
    }

    fn read(key: &[u8], value: &[u8]) -> Result<OutcomeOffset, Poison> {
        let number = |field, bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).ok();
            // Rust also reads a plus sign.
            let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
            number.ok_or_else(|| Poison::field(field, "is not a whole number"))
        };
        let partition = u32::try_from(number("the key", key)?)
            .map_err(|_| Poison::field("the key", "is no number of a partition"))?;
        Ok(OutcomeOffset { partition, offset: number("the value", value)? })
    }
}
