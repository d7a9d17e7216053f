//! The topic `dead-letters`: what could not be taken, with the reason.

use serde::{Deserialize, Serialize};

use super::wire::opaque;
use super::{Message, Only, Place, Poison, Topic, TraceId, read_only, write};

/// The one type of message in this topic.
const TYPE: &str = "dead-letter";

/// How much of a value is repeated in its dead letter. Escaped it may be six times as long, and must still be sent.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// How much of a key is repeated.
const KEY_BYTES_MAX: usize = 4 << 10;
/// How much of a reason is kept.
const REASON_BYTES_MAX: usize = 4 << 10;

/// A message that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetter {
    /// The request it came with; 0 if the message does not tell.
    #[serde(skip)]
    pub trace: TraceId,
    /// Why it could not be taken.
    pub reason: String,
    /// The topic it lies in.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// The beginning of its key.
    #[serde(with = "opaque")]
    pub key: Vec<u8>,
    /// The beginning of its value: all of it, up to 64 KiB. The rest lies where it came from.
    #[serde(with = "opaque")]
    pub value: Vec<u8>,
    /// How long the value is.
    pub value_bytes: u64,
}

impl DeadLetter {
    /// The dead letter of a message that lies there in that topic.
    #[must_use]
    pub fn of(
        topic: impl Into<String>,
        place: Place,
        key: &[u8],
        value: &[u8],
        reason: impl Into<String>,
    ) -> DeadLetter {
        let beginning = |bytes: &[u8], max: usize| bytes[..bytes.len().min(max)].to_vec();
        let mut reason = reason.into();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        DeadLetter {
            trace: TraceId::told_by(value),
            reason,
            topic: topic.into(),
            partition: place.partition,
            offset: place.offset,
            key: beginning(key, KEY_BYTES_MAX),
            value: beginning(value, VALUE_BYTES_MAX),
            value_bytes: value.len() as u64,
        }
    }
}

impl Message for DeadLetter {
    const TOPIC: Topic = Topic::DeadLetters;

    fn trace(&self) -> TraceId {
        self.trace
    }

    /// Where it lies: the same message always has the same key, however often it is written.
    fn key(&self) -> String {
        format!("{}/{}/{}", self.topic, self.partition, self.offset)
    }

    fn to_json(&self) -> Vec<u8> {
        write(self.trace, Only { kind: TYPE, body: self })
    }

    fn from_json(value: &[u8]) -> Result<DeadLetter, Poison> {
        let (trace, letter) = read_only(TYPE, value)?;
        Ok(DeadLetter { trace, ..letter })
    }
}
