//! A body on its way in: announced, bounded, in memory, read. Its media type does not matter: it must be JSON.

use std::time::Instant;

use axum::extract::Request;
use holdfast_engine::TokenError;
use serde::de::DeserializeOwned;

use super::refusal::Problem;
use crate::Edge;
use crate::bodies::{self, NoBody, announced, room_if_large};
use crate::limits::TOKENS_BODY_MAX;

/// What `ask` makes of the body of a request. The body is gone when this returns, whatever is waited for then.
pub(super) async fn receive<B: DeserializeOwned, T>(
    edge: &Edge,
    request: Request,
    ask: impl FnOnce(B) -> Result<T, String>,
) -> Result<T, Problem> {
    let too_large = || Problem::too_large(&format!("a body has at most {TOKENS_BODY_MAX} bytes here"));
    let length = announced(request.headers()).unwrap_or(TOKENS_BODY_MAX);
    if length > TOKENS_BODY_MAX {
        return Err(too_large());
    }
    let _room = room_if_large(edge, length).map_err(TokenError::Hub)?;
    let body = bodies::read(request.into_body(), length).await.map_err(|error| match error {
        NoBody::TooLarge => too_large(),
        NoBody::Slow => Problem::slow_body(),
        NoBody::BrokeOff(detail) => Problem::invalid(detail),
    })?;
    let started = Instant::now();
    let content = holdfast_wire::read::body(&body).and_then(ask).map_err(Problem::invalid)?;
    edge.note_parsed(started);
    Ok(content)
}
