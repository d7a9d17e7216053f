//! Alarms: what should never be, and was met nevertheless. An alarm stops nothing; somebody has to look.

use crate::ids::{Key, Offset};
use crate::message::Topic;

/// Something that needs a person. Of most the try is told, and the type of the message that was met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each alarm's text says what its fields are")]
pub enum Alarm {
    /// A repeat or a rollback speaks of something else than what is recorded. What is recorded counts.
    #[error("{key}: this {message} differs from the value that is recorded, which counts")]
    Differs { key: Key, message: &'static str },
    /// What was taken cannot be given back now: its owner is not there, or its balance would be too large.
    #[error(
        "{key}: this {message} cannot give back to {holder}; nothing was changed, send it again when it can"
    )]
    Stuck { key: Key, message: &'static str, holder: String },
    /// A message that does not belong to the topic it was read from. It was passed over.
    #[error("{key}: {message} does not belong to the topic {topic}; it was passed over", topic = topic.name())]
    Misplaced { key: Key, message: &'static str, topic: Topic },
    /// A message in another partition than its order's. It was passed over: whoever decides the order does not read it there.
    #[error("{key}: {message} lies in partition {partition} and belongs into {wanted}; it was passed over")]
    OtherPartition { key: Key, message: &'static str, partition: u32, wanted: u32 },
    /// An outcome of an order that is not there. It was passed over.
    #[error("{key}: {message} is about an order that is not there; it was passed over")]
    UnknownOrder { key: Key, message: &'static str },
    /// An outcome of a try that the order has never started. It was passed over.
    #[error("{key}: {message} is about a try that was never started; it was passed over")]
    NeverStarted { key: Key, message: &'static str },
    /// An outcome that speaks of something else than what was asked for. It does not count.
    #[error("{key}: {message} is about another value than the order has; it does not count")]
    OtherValue { key: Key, message: &'static str },
    /// An outcome against what is recorded already. What was recorded first counts.
    #[error("{key}: {message} contradicts {recorded}, which was first and counts")]
    Contradiction { key: Key, message: &'static str, recorded: &'static str },
    /// Something was given back that nobody asked to give back.
    #[error("{key}: {message} answers a cancellation that was never asked for")]
    Unasked { key: Key, message: &'static str },
    /// A decision that the order has not made. Whoever decides moves the order first: this one was written by somebody else, or the
    /// database was set back.
    #[error(
        "{key}: {message} tells of a decision that its order does not know; {what}", what = match *message {
            "trsucc" => "not both sides are known to have taken, and it does not count",
            _ => "both sides are asked to give back",
        }
    )]
    Undecided { key: Key, message: &'static str },
    /// The log no longer has what a rebuild needs.
    #[error(
        "outcome_offset {stored} is below the log's start {start}: checkouts that were open there may be lost"
    )]
    OffsetBelowLog { stored: Offset, start: Offset },
    /// The log does not reach as far as it once did.
    #[error("outcome_offset {stored} is above the log's end {end}: the log has lost records")]
    OffsetAboveLog { stored: Offset, end: Offset },
}

impl Alarm {
    /// The alarm's name, for metrics and machines.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Alarm::Differs { .. } => "differs",
            Alarm::Stuck { .. } => "stuck",
            Alarm::Misplaced { .. } | Alarm::OtherPartition { .. } => "misplaced",
            Alarm::UnknownOrder { .. } => "unknown-order",
            Alarm::NeverStarted { .. } => "never-started",
            Alarm::OtherValue { .. } => "other-value",
            Alarm::Contradiction { .. } => "contradiction",
            Alarm::Unasked { .. } => "unasked",
            Alarm::Undecided { .. } => "undecided",
            Alarm::OffsetBelowLog { .. } => "offset-below-log",
            Alarm::OffsetAboveLog { .. } => "offset-above-log",
        }
    }

    /// The try that it is about, if it is about one.
    #[must_use]
    pub const fn key(&self) -> Option<&Key> {
        match self {
            Alarm::Differs { key, .. }
            | Alarm::Stuck { key, .. }
            | Alarm::Misplaced { key, .. }
            | Alarm::OtherPartition { key, .. }
            | Alarm::UnknownOrder { key, .. }
            | Alarm::NeverStarted { key, .. }
            | Alarm::OtherValue { key, .. }
            | Alarm::Contradiction { key, .. }
            | Alarm::Unasked { key, .. }
            | Alarm::Undecided { key, .. } => Some(key),
            Alarm::OffsetBelowLog { .. } | Alarm::OffsetAboveLog { .. } => None,
        }
    }
}
