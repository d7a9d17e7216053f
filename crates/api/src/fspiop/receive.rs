//! A request on its way in: the tests that all verbs share, in the order of the peer hub, up to a body in memory.
//!
//! Accept, Date, sizes, Content-Type, then the names in the headers; the body and the path are each verb's own. The
//! first failure answers, and nothing was stored by then.

use std::time::Instant;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use bytes::Bytes;
use holdfast_domain::ids::{Millis, ParticipantId};
use holdfast_domain::records::{PREPARE_LEN, RECORD_BYTES_MAX};
use holdfast_engine::clock::{Clock, SystemClock};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::headers::{self, Completion};
use super::media_type::{Accept, Version};
use super::names;
use super::prefer::Wait;
use crate::Edge;
use crate::bodies::{announced, room_if_large};
use crate::error::ApiError;
use crate::limits::{BODY_READ_MAX, FSPIOP_BODY_MAX};
use holdfast_wire::forward::Forwarded;

/// What a record can carry of a message. Records are a little shorter than the largest body of the standard.
const TAIL_BYTES_MAX: usize = RECORD_BYTES_MAX - PREPARE_LEN;

/// The verbs differ in which headers they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Post,
    Put,
}

/// A message with its body, whose headers are in order.
pub(super) struct Received {
    headers: HeaderMap,
    completion: Completion,
    /// Who sent it, in their own spelling.
    pub(super) source_name: String,
    /// The version under which the body is read.
    pub(super) version: Version,
    /// Whether the sender waits for the outcome.
    pub(super) wait: Option<Wait>,
    pub(super) body: Bytes,
    /// When it was all here, by the wall clock.
    pub(super) at: Millis,
    started: Instant,
    /// Counted until the message is decided: its copies live as long.
    _room: Option<OwnedSemaphorePermit>,
}

/// Takes in a POST or PUT up to its body.
pub(super) async fn receive(
    edge: &Edge,
    verb: Verb,
    headers: HeaderMap,
    body: Body,
) -> Result<Received, ApiError> {
    let wait = Wait::of(&headers);
    let waits = wait.is_some();
    let head = test_head(verb, &headers, waits);
    if headers.contains_key(EXPECT) {
        // The caller has not sent the body yet, and need not.
        head.clone()?;
    }
    // Also where the head is refused already: a client that is cut off while it sends does not hear why.
    let length = announced(&headers).unwrap_or(FSPIOP_BODY_MAX).min(FSPIOP_BODY_MAX);
    let room = room_if_large(edge, length)?;
    let body = timeout(BODY_READ_MAX, read(&headers, body)).await;
    let accept = head?;
    let body = body.map_err(|_| ApiError::slow_body())??;
    let started = Instant::now();
    let content_type = headers::content_type(&headers, waits)?;
    let source_name = headers::source(&headers)?.to_owned();
    let at = SystemClock::new().read().wall;
    let completion = Completion { content_type, accept, now: at };
    let version = content_type.version();
    Ok(Received { headers, completion, source_name, version, wait, body, at, started, _room: room })
}

/// What is tested before the body is looked at.
fn test_head(verb: Verb, headers: &HeaderMap, waits: bool) -> Result<Option<Accept>, ApiError> {
    let accept = match verb {
        Verb::Post => Some(headers::accept(headers, waits)?),
        Verb::Put => None,
    };
    headers::date(headers, waits)?;
    headers::size(headers)?;
    Ok(accept)
}

impl Received {
    /// The message as it travels on, for the tail of its record.
    pub(super) fn tail(&self) -> Result<Vec<u8>, ApiError> {
        self.tail_beside(0)
    }

    /// The same for a record that carries so many bytes besides.
    pub(super) fn tail_beside(&self, others: usize) -> Result<Vec<u8>, ApiError> {
        let max = TAIL_BYTES_MAX.saturating_sub(others);
        let headers = headers::travelling(&self.headers, &self.completion);
        let forwarded = Forwarded { headers, body: self.body.to_vec() };
        forwarded
            .encode()
            .filter(|tail| tail.len() <= max)
            .ok_or_else(|| ApiError::too_large(format!("headers and body together have at most {max} bytes")))
    }

    /// Notes how long the message took from its last byte to its record.
    pub(super) fn parsed(&self, edge: &Edge) {
        edge.note_parsed(self.started);
    }
}

/// The participant in FSPIOP-Source. Nobody else can be answered by a callback, so others are told at once.
pub(super) async fn sender(edge: &Edge, name: &str) -> Result<ParticipantId, ApiError> {
    let found = names::participant(edge, name).await?;
    found.ok_or_else(|| ApiError::invalid("FSPIOP-Source names nobody who takes part here"))
}

/// Reads a body up to the size that is allowed. What is somewhat larger is read to its end and thrown away, so that
/// its sender is still there to hear why.
async fn read(headers: &HeaderMap, mut body: Body) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::too_large(format!("a body has at most {FSPIOP_BODY_MAX} bytes"));
    let bound = if headers.contains_key(EXPECT) { FSPIOP_BODY_MAX } else { 2 * FSPIOP_BODY_MAX };
    if announced(headers).is_some_and(|length| length > bound) {
        return Err(too_large());
    }
    // Almost every message comes in one piece and needs no copy.
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::malformed(format!("the body broke off: {error}")))?;
        let Ok(piece) = frame.into_data() else { continue };
        length += piece.len();
        if length > 2 * FSPIOP_BODY_MAX {
            return Err(too_large());
        }
        if length > FSPIOP_BODY_MAX {
            (first, rest) = (Bytes::new(), Vec::new());
        } else if first.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&piece);
        }
    }
    if length > FSPIOP_BODY_MAX {
        return Err(too_large());
    }
    if rest.is_empty() { Ok(first) } else { Ok([&first[..], &rest[..]].concat().into()) }
}
