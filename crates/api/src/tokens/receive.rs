//! A body on its way in: announced, bounded, in memory, read. Its media type does not matter: it must be JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::refusal::Problem;
use crate::Edge;
use crate::limits::{BODY_PERMIT_BYTES, BODY_READ_MAX, SMALL_BODY_BYTES, TOKENS_BODY_MAX};

/// What `ask` makes of the body of a request. The body is gone when this returns, whatever is waited for then.
pub(super) async fn receive<B: DeserializeOwned, T>(
    edge: &Edge,
    request: Request,
    ask: impl FnOnce(B) -> Result<T, String>,
) -> Result<T, Problem> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = announced.and_then(|text| text.parse().ok()).unwrap_or(TOKENS_BODY_MAX);
    if length > TOKENS_BODY_MAX {
        return Err(too_large());
    }
    let _room = room_for(edge, length)?;
    let body = bytes(request.into_body(), length).await?;
    let started = Instant::now();
    let content = holdfast_wire::read::body(&body).and_then(ask).map_err(Problem::invalid)?;
    edge.parse.increment(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    Ok(content)
}

fn too_large() -> Problem {
    Problem::too_large(&format!("a body has at most {TOKENS_BODY_MAX} bytes here"))
}

async fn bytes(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    match timeout(BODY_READ_MAX, Limited::new(body, bytes_max).collect()).await {
        Err(_) => Err(Problem::slow_body()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Problem::invalid(format!("the body broke off: {error}"))),
        // What comes in one piece, as almost all do, is not copied.
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// Large bodies are counted before they are read, so that many of them at once cannot fill the memory; what is small
/// is bounded by the number of connections.
fn room_for(edge: &Edge, length: usize) -> Result<Option<OwnedSemaphorePermit>, Problem> {
    if length <= SMALL_BODY_BYTES {
        return Ok(None);
    }
    let permits = u32::try_from(length.div_ceil(BODY_PERMIT_BYTES)).unwrap_or(u32::MAX);
    let room = Arc::clone(&edge.bodies).try_acquire_many_owned(permits);
    room.map(Some).map_err(|_| Problem::busy())
}
