//! Why something was not taken, or cannot be told: the same words whatever engine says it.

use crate::clock::ClockFault;

/// Why commands were not taken. Nothing of them was stored, except after [`Refusal::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too much is waiting.
    #[error("the hub is busy; try again after a moment")]
    Busy,
    /// More records than one request may carry.
    #[error("{0} records are too many for one request")]
    TooMany(usize),
    /// More bytes than one request may carry.
    #[error("{0} bytes of records are too many for one request")]
    TooLarge(usize),
    /// The wall clock is not believed.
    #[error("no commands are taken: {0}")]
    Clock(ClockFault),
    /// The engine is ending, has stopped, or takes no commands here.
    #[error("no commands are taken: {0}")]
    Closed(String),
    /// The log failed while the commands were being written, or their outcome did not come: they may be found later or not.
    #[error("{0}; outcome unknown, repeat with the same ids")]
    Unknown(String),
}

/// Why an engine could not tell what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The question was not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is stored cannot be read now.
    #[error("{0} (the store cannot be read)")]
    Unreadable(String),
    /// A file of the engine's own cannot be read or written; the log says why.
    #[error("{0}")]
    Broken(&'static str),
    /// The threads that would have answered are gone.
    #[error("the hub has stopped; see /health")]
    Stopped,
    /// The text is not the `next` of a page that this engine gave.
    #[error("'{0}' is not the 'next' of an earlier page")]
    NoSuchPage(String),
}
