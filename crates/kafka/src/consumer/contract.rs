//! What a consumer and its caller promise each other.

use std::time::Duration;

use crate::{Brokers, Record};

/// How long a member may be silent before its partitions go to others. Kafka's own lower bound, as it comes.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a handler may be away from [`GroupConsumer::poll`] before its partitions go to others.
const POLL_EVERY_MAX: Duration = Duration::from_secs(60);
/// The most bytes in a batch.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// How to take part in a group.
#[derive(Debug, Clone)]
pub struct ConsumerSettings {
    /// Where Kafka is.
    pub brokers: Brokers,
    /// The group: all nodes' handlers of one topic.
    pub group: String,
    /// The topic's full name.
    pub topic: String,
    /// How long a member may be silent before its partitions go to others.
    pub session_timeout: Duration,
    /// How long a handler may be away before its partitions go to others.
    pub poll_every_max: Duration,
    /// The most bytes in a batch; a single larger message comes alone.
    pub batch_bytes_max: usize,
}

impl ConsumerSettings {
    /// As usual.
    #[must_use]
    pub fn new(brokers: Brokers, group: impl Into<String>, topic: impl Into<String>) -> ConsumerSettings {
        ConsumerSettings {
            brokers,
            group: group.into(),
            topic: topic.into(),
            session_timeout: SESSION_TIMEOUT,
            poll_every_max: POLL_EVERY_MAX,
            batch_bytes_max: BATCH_BYTES_MAX,
        }
    }
}

/// A claimed partition: who writes its effects now, and from where on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Fences whoever had it before.
    pub epoch: i64,
    /// The first offset whose effects are not stored.
    pub next_offset: u64,
}

/// Why a partition is no longer ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The group gives it to somebody else, who gets it when this has been told.
    Revoked,
    /// Somebody else may have it already: we were silent for too long.
    Lost,
    /// We leave the group.
    Left,
}

/// Why nothing more can be read of a partition. It stays assigned and silent until an operator has looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The stored offset is no longer, or not yet, in the log.
    #[error(
        "the stored next offset is {wanted} and Kafka has {first} to {end}: messages are lost, or this is not the log that the \
         database belongs to"
    )]
    OutsideLog {
        /// The stored offset.
        wanted: u64,
        /// The first offset of the log; 0 if Kafka did not say.
        first: u64,
        /// The offset after the last; 0 if Kafka did not say.
        end: u64,
    },
}

/// The caller's side of partitions.
pub trait Owner {
    /// The group gave a partition: claim it.
    ///
    /// # Errors
    /// If it cannot be claimed now; it is tried again soon.
    fn claim(&mut self, partition: u32) -> Result<Claim, Box<dyn std::error::Error + Send + Sync>>;

    /// A claimed partition is no longer ours. Nothing more comes of it before it is claimed again.
    fn released(&mut self, partition: u32, why: Release);

    /// Nothing more can be read of a claimed partition.
    fn faulted(&mut self, partition: u32, fault: Fault);
}

/// Messages of one partition in order, none missing in between. Their offsets may have holes: Kafka's transactions leave marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which partition.
    pub partition: u32,
    /// The epoch of its claim.
    pub epoch: i64,
    /// The offset that was due: behind the last one of the batch before.
    pub from: u64,
    /// The messages; at least one.
    pub records: Vec<Record>,
}

impl Batch {
    /// The offset after the last.
    #[must_use]
    pub fn next_offset(&self) -> u64 {
        self.records.last().map_or(self.from, |record| record.offset + 1)
    }
}

/// What a consumer has done, to be published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConsumerNumbers {
    /// How often the group gave or took partitions.
    pub rebalances: u64,
    /// Claims that failed.
    pub claim_failures: u64,
    /// Offsets that Kafka was not told of. They are for display, and the next ones repair it.
    pub commit_failures: u64,
    /// Batches handed out.
    pub batches: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The most messages in one batch.
    pub largest_batch: usize,
    /// The claimed partitions.
    pub partitions: Vec<PartitionNumbers>,
}

/// Where a claimed partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionNumbers {
    /// Which.
    pub partition: u32,
    /// The epoch of its claim.
    pub epoch: i64,
    /// The first offset that is not reported done.
    pub next_offset: u64,
    /// How many messages lie behind that; `None` before Kafka has told.
    pub lag: Option<u64>,
    /// Whether it is paused.
    pub paused: bool,
    /// Why nothing more comes of it.
    pub fault: Option<Fault>,
}
