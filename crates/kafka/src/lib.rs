//! The log of the database profile: Apache Kafka, through librdkafka. Nothing here knows SQL.
//!
//! A message goes `transfers` -> handler 1 -> outbox -> `position` -> handler 2 -> outbox -> `notifications`. This crate
//! carries it from topic to handler and from outbox to topic; what has been done with it is known only by the database.
//! So a [`GroupConsumer`] starts where its caller's stored offset says and never where Kafka's group offset says, and a
//! [`Producer`] that failed begins again at the first row it does not know to be written. Messages come at least
//! once; whoever takes them makes the effects exactly once. Keys and values are bytes here; `holdfast-messages` knows what
//! they say.
//!
//! Everything is synchronous: a handler owns its thread, its consumer and its producer. Every wait has a deadline.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `brokers` | where Kafka is, and what all clients have in common |
//! | `topics` | names, partition counts, and the check of them at start |
//! | `partition` | which partition a key belongs to |
//! | `consumer` | a member of a group: claims partitions, gives batches of one partition |
//! | `producer` | sends a batch in order and says how far it came |
//! | `reader` | reads a topic without a group: from the end for those who wait, from the start for the curious |
//! | `health` | whether a broker answers, learned from the client's own statistics |

mod brokers;
mod consumer;
mod error;
mod health;
mod partition;
mod producer;
mod reader;
mod topics;

pub use brokers::Brokers;
pub use consumer::{
    Batch, Caller, Claim, ConsumerNumbers, ConsumerSettings, Fault, GroupConsumer, Owner, PartitionNumbers,
    Release,
};
pub use error::KafkaError;
pub use health::Health;
pub use holdfast_messages::{PartitionBy, Topic};
pub use partition::{murmur2, partition_of};
pub use producer::{Outgoing, Producer, ProducerNumbers, ProducerSettings, SendCause, SendError};
pub use reader::{From, Reader};
pub use topics::TopicSettings;

/// One message as it lies in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The partition.
    pub partition: u32,
    /// Its place in the partition.
    pub offset: u64,
    /// The key; empty if it has none.
    pub key: Vec<u8>,
    /// The value; empty if it has none, which is then no message of ours.
    pub value: Vec<u8>,
    /// When its producer made it, in milliseconds since 1970; 0 if unknown.
    pub timestamp: i64,
}

impl Record {
    /// What counts against the bounds of batches.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.len().saturating_add(self.value.len())
    }

    fn of(message: &impl rdkafka::Message) -> Record {
        Record {
            partition: u32::try_from(message.partition()).expect("a fetched message has a partition"),
            offset: u64::try_from(message.offset()).expect("a fetched message has an offset"),
            key: message.key().unwrap_or_default().to_vec(),
            value: message.payload().unwrap_or_default().to_vec(),
            timestamp: message.timestamp().to_millis().unwrap_or(0),
        }
    }
}
