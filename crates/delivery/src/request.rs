//! What goes out over HTTP, and why it failed.

use bytes::Bytes;
use hyper::http::{HeaderMap, Method, Uri};

/// A request, but for its address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A request that is ready to go.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) uri: Uri,
    pub(crate) message: Outgoing,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) why: String,
    pub(crate) blame: Blame,
    /// Where the attempt went, if that is written down with the failure.
    pub(crate) url: Option<String>,
}

/// Whose failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The receiver's, for now: an attempt that counts.
    Passing,
    /// Trying again cannot help.
    ForGood,
    /// Our own shortage: no attempt was made, and none is counted against the receiver.
    Ours,
}

impl Failure {
    pub(crate) fn passing(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), blame: Blame::Passing, url: None }
    }

    pub(crate) fn for_good(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), blame: Blame::ForGood, url: None }
    }

    pub(crate) fn ours(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), blame: Blame::Ours, url: None }
    }
}
