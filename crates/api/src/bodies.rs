//! Bodies on their way in: announced, counted before they are read, and read within bounds.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use holdfast_engine::Refusal;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::Edge;
use crate::limits::{BODY_PERMIT_BYTES, BODY_READ_MAX, SMALL_BODY_BYTES};

/// How long the body is, as its sender says.
pub(crate) fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Room for so many bytes among all bodies, so that many large ones at once cannot fill the memory.
pub(crate) fn room_for(edge: &Edge, length: usize) -> Result<OwnedSemaphorePermit, Refusal> {
    let permits = u32::try_from(length.div_ceil(BODY_PERMIT_BYTES)).unwrap_or(u32::MAX);
    Arc::clone(&edge.bodies).try_acquire_many_owned(permits).map_err(|_| Refusal::Busy)
}

/// The same where small bodies need none: the number of connections bounds those.
pub(crate) fn room_if_large(edge: &Edge, length: usize) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
    (length > SMALL_BODY_BYTES).then(|| room_for(edge, length)).transpose()
}

/// Why there is no body.
pub(crate) enum NoBody {
    TooLarge,
    Slow,
    BrokeOff(String),
}

/// Reads a body of at most so many bytes. What comes in one piece, as almost all do, is not copied.
pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, NoBody> {
    match timeout(BODY_READ_MAX, Limited::new(body, bytes_max).collect()).await {
        Err(_) => Err(NoBody::Slow),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(NoBody::TooLarge),
        Ok(Err(error)) => Err(NoBody::BrokeOff(format!("the body broke off: {error}"))),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}
