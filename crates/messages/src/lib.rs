//! What the nodes of a hub say to each other: the topics, and what lies in them, as JSON that a person can read.
//!
//! A message goes `transfers` -> handler 1 -> outbox -> `position` -> handler 2 -> outbox -> `notifications`; what cannot
//! be taken goes to `dead-letters`. Nothing here knows Kafka or SQL: the one carries these bytes, the other keeps them.
//!
//! Every value is `{"v":1,"trace":"…","type":"…","body":{…}}`. The version rises whenever a shape changes, so whatever
//! has an older version, another type, a field too many or too few, or a value out of its bounds is [`Poison`]: it goes
//! to the dead letters with the reason and stops nothing else. What has a [newer](Poison::newer) version is not for us to
//! bury: its partition stands still until a program comes that knows it. `tests/golden/` keeps the shapes from changing.
//!
//! The topics of a shop are the exception: outside participants read and write `pay`, `stock` and `outcomes`, so these have
//! the plain shapes of the checkout, without version and trace.
//!
//! Amounts are decimal strings, times milliseconds since 1970, 32-byte values base64url as FSPIOP writes conditions.
//! Bytes that are handed on unread are a string where they are text, else `{"base64":"…"}`.

mod callbacks;
mod checkout;
mod dead_letter;
mod notification;
mod order;
mod position;
mod token;
mod topic;
mod transfer;
mod wire;

pub use checkout::{OutcomeMessage, OutcomeOffset, PayMessage, StockMessage};
pub use dead_letter::DeadLetter;
pub use notification::{Alarm, Answer, CheckoutNotice, Notice, Notification, TransferNotice};
pub use order::{OrderCommand, OrderMessage};
pub use position::{PositionMessage, PositionWork, Step};
pub use token::{TokenEvent, TokenUpdate};
pub use topic::Topic;
pub use transfer::{TransferCommand, TransferMessage};

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use wire::Text;

/// The version of all shapes here.
pub const VERSION: u32 = 1;

/// Follows a request through all topics and logs: the 32 hex digits of a W3C trace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TraceId(pub u128);

impl TraceId {
    /// Stands where nobody asked: what ran out, alarms, and poison that does not tell.
    pub const NOBODY: TraceId = TraceId(0);

    /// The trace that a value tells, whatever else is wrong with it; [`TraceId::NOBODY`] if it tells none.
    #[must_use]
    pub fn told_by(value: &[u8]) -> TraceId {
        let told: Result<AnyTrace, _> = serde_json::from_slice(value);
        told.map_or(TraceId::NOBODY, |AnyTrace { trace }| trace.0)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TraceId {
    type Err = String;
    fn from_str(text: &str) -> Result<TraceId, String> {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(format!("'{text}' is not a trace id of 32 hex digits"));
        }
        u128::from_str_radix(text, 16).map(TraceId).map_err(|error| error.to_string())
    }
}

/// Where a message lies in its topic: its opaque parts are read from here when they are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The partition.
    pub partition: u32,
    /// The offset in it.
    pub offset: u64,
}

/// What decides on the partition of a message that is sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PartitionBy {
    /// Its key.
    #[default]
    Key,
    /// A part of its key, or something else.
    Other(String),
    /// Whoever sends it: an answer goes where the question came from.
    Number(u32),
}

impl PartitionBy {
    /// What decides on the partition of this message.
    #[must_use]
    pub fn of<M: Message>(message: &M) -> PartitionBy {
        message.partition_key().map_or(PartitionBy::Key, PartitionBy::Other)
    }
}

/// Why a message cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Poison {
    /// A version that this program does not know.
    #[error("version {0} is not known here; this program reads version {VERSION}")]
    Version(u64),
    /// Not JSON of the right shape.
    #[error("not a message of this topic: {0}")]
    Shape(String),
    /// A type that does not belong in this topic.
    #[error("'{0}' is not a type of message in this topic")]
    Type(String),
    /// A value out of its bounds.
    #[error("{field} {why}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The key is not that of the content: the message lies in a partition where it must not be decided.
    #[error("the key is '{found}' and the content belongs to '{wanted}'")]
    Key {
        /// The key.
        found: String,
        /// What it should be.
        wanted: String,
    },
}

impl Poison {
    /// The version, if it is newer than this program's: such a message waits for a program that knows it.
    #[must_use]
    pub fn newer(&self) -> Option<u64> {
        match *self {
            Poison::Version(version) if version > u64::from(VERSION) => Some(version),
            _ => None,
        }
    }

    fn field(field: &'static str, why: impl Into<String>) -> Poison {
        Poison::Field { field, why: why.into() }
    }
}

/// PostgreSQL's texts cannot hold every character.
fn check_text(field: &'static str, text: &str) -> Result<(), Poison> {
    if text.contains('\0') { Err(Poison::field(field, "contains a NUL character")) } else { Ok(()) }
}

/// A message of some topic.
pub trait Message: Sized {
    /// Where it belongs.
    const TOPIC: Topic;

    /// The request it came with.
    fn trace(&self) -> TraceId;

    /// The key, which also finds its partition unless [`Message::partition_key`] says otherwise.
    fn key(&self) -> String;

    /// What finds its partition, where that is not the whole key.
    fn partition_key(&self) -> Option<String> {
        None
    }

    /// The value.
    fn to_json(&self) -> Vec<u8>;

    /// Reads a value.
    ///
    /// # Errors
    /// Says what is wrong with it.
    fn from_json(value: &[u8]) -> Result<Self, Poison>;

    /// Reads a message whose key must be that of its content.
    ///
    /// # Errors
    /// As [`Message::from_json`], and if the key is another.
    fn read(key: &[u8], value: &[u8]) -> Result<Self, Poison> {
        let message = Self::from_json(value)?;
        let wanted = message.key();
        if wanted.as_bytes() == key {
            Ok(message)
        } else {
            Err(Poison::Key { found: String::from_utf8_lossy(key).into_owned(), wanted })
        }
    }
}

/// A message on its way out: what is said has a type and a body.
#[derive(Serialize)]
struct Written<T> {
    v: u32,
    trace: Text<TraceId>,
    #[serde(flatten)]
    said: T,
}

/// What a topic of one type says.
#[derive(Serialize)]
struct Only<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    body: &'a T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    v: u64,
    trace: Text<TraceId>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// As much of any version as tells which it is.
#[derive(Deserialize)]
struct AnyVersion {
    v: u64,
}

/// As much of any message as tells whose it is.
#[derive(Deserialize)]
struct AnyTrace {
    trace: Text<TraceId>,
}

/// Writes what has a type and a body.
fn write(trace: TraceId, said: impl Serialize) -> Vec<u8> {
    let written = Written { v: VERSION, trace: Text(trace), said };
    serde_json::to_vec(&written).expect("numbers, strings and structs can always be written")
}

/// Reads what has a type and a body.
fn read<T: DeserializeOwned>(value: &[u8]) -> Result<(TraceId, T), Poison> {
    let Envelope { trace, kind, body, .. } = open(value)?;
    let said = T::deserialize(MapAccessDeserializer::new(Said { kind: Some(kind), body: Some(body) }))?;
    Ok((trace.0, said))
}

/// Reads the body of a topic of one type.
fn read_only<T: DeserializeOwned>(only: &str, value: &[u8]) -> Result<(TraceId, T), Poison> {
    let Envelope { trace, kind, body, .. } = open(value)?;
    if kind != only {
        return Err(Poison::Type(kind.into_owned()));
    }
    Ok((trace.0, serde_json::from_str(body.get()).map_err(shape)?))
}

fn open(value: &[u8]) -> Result<Envelope<'_>, Poison> {
    let opened: Result<Envelope<'_>, _> = serde_json::from_slice(value);
    let version = match &opened {
        Ok(envelope) => Some(envelope.v),
        Err(_) => serde_json::from_slice(value).ok().map(|AnyVersion { v }| v),
    };
    match version {
        Some(version) if version != u64::from(VERSION) => Err(Poison::Version(version)),
        _ => opened.map_err(shape),
    }
}

/// Type and body of an envelope, in the order in which an enum wants to read them.
struct Said<'a> {
    kind: Option<Cow<'a, str>>,
    body: Option<&'a RawValue>,
}

impl<'de> MapAccess<'de> for Said<'de> {
    type Error = Poison;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Poison> {
        let key = match self {
            Said { kind: Some(_), .. } => "type",
            Said { body: Some(_), .. } => "body",
            Said { .. } => return Ok(None),
        };
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Poison> {
        match self.kind.take() {
            Some(kind) => seed.deserialize(kind.into_deserializer()),
            None => seed.deserialize(self.body.take().expect("its key was given")).map_err(shape),
        }
    }
}

impl serde::de::Error for Poison {
    fn custom<T: fmt::Display>(why: T) -> Poison {
        Poison::Shape(why.to_string())
    }

    /// Serde chooses a variant by the type alone; names inside of a body are read by `serde_json`.
    fn unknown_variant(kind: &str, _: &'static [&'static str]) -> Poison {
        Poison::Type(kind.to_owned())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "used by name where errors are mapped")]
fn shape(error: serde_json::Error) -> Poison {
    Poison::Shape(error.to_string())
}

#[cfg(test)]
mod tests;
