//! How a call can end without a reply. What an error says about the outcome is always true: only [`Unknown`]
//! leaves it open, and it does so as soon as one attempt may have reached the hub.
//!
//! [`Unknown`]: ClientError::Unknown

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The deadline passed and at least one attempt may have been carried out. Repeating the call with the same
    /// id tells.
    #[error("the outcome is unknown ({cause}): repeat with the same id")]
    Unknown {
        /// What went wrong last.
        cause: Cause,
    },
    /// The deadline passed and the hub refused every attempt because it was busy. Nothing happened.
    #[error("the hub stayed busy until the deadline; nothing happened")]
    Busy,
    /// The deadline passed and no attempt reached the hub. Nothing happened.
    #[error("the hub was not reached before the deadline ({cause}); nothing happened")]
    Unavailable {
        /// What went wrong last.
        cause: Cause,
    },
    /// The hub did not take the request for what it says. Nothing happened, and repeating is of no use.
    #[error("the hub refused the request with status {status}: {detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the hub said.
        detail: String,
    },
    /// As many calls wait as may. Nothing was sent.
    #[error("{calls_max} calls are waiting already; nothing was sent")]
    TooManyCalls {
        /// The bound.
        calls_max: usize,
    },
    /// The call cannot be written as a record. Nothing was sent.
    #[error("{0}; nothing was sent")]
    NotARecord(&'static str),
}

/// What went wrong with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// All connections were taken until the deadline.
    #[error("no connection was free")]
    Waiting,
    /// The connection could not be opened.
    #[error("cannot connect: {0}")]
    Connect(std::io::ErrorKind),
    /// The connection ended before the answer was complete.
    #[error("the connection was lost")]
    ConnectionLost,
    /// The answer did not come in time.
    #[error("no answer in time")]
    Timeout,
    /// An answer that leaves the outcome open.
    #[error("status {0}")]
    Status(u16),
    /// An answer that is not a reply to what was asked.
    #[error("the answer is not a reply to this batch")]
    NotAReply,
}
