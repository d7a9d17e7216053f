//! `/tokens…`: wallets select, lock and spend. The shape of a request is tested here; the vault does the rest.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `refusal` | refusals as problems of RFC 9457 |
//! | `commands` | tokens issued, locked for a spender, paid out, redeemed, brought together, and what another ledger did |
//! | `locks` | who holds what; renewed or given back |
//! | `holdings` | tokens and balances of an owner |
//! | `query` | what stands in the query of a path |

pub(crate) mod commands;
pub(crate) mod holdings;
pub(crate) mod locks;
mod query;
mod refusal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_domain::ids::TransferId;
use holdfast_engine::TokenError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Edge;
use crate::bodies::{self, NoBody, announced, room_if_large};
use crate::limits::{ANSWER_WAIT_MAX, TOKENS_BODY_MAX};
use refusal::Problem;

/// What handlers of the token paths can reach.
#[derive(Clone)]
pub(crate) struct Wallets {
    edge: Edge,
    vault: Arc<dyn holdfast_engine::Wallets>,
}

impl Wallets {
    pub(crate) fn of(edge: &Edge) -> Option<Wallets> {
        edge.wallets.clone().map(|vault| Wallets { edge: edge.clone(), vault })
    }
}

/// What `ask` makes of the body of a request. The body is gone when this returns, whatever is waited for then.
async fn receive<B: DeserializeOwned, T>(
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

/// The bytes of most answers: one input or two.
const ANSWER_BYTES: usize = 512;

/// An answer in JSON.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(ANSWER_BYTES);
    serde_json::to_writer(&mut bytes, body).expect("answers have text keys, and memory does not fail");
    (status, [(CONTENT_TYPE, "application/json")], bytes).into_response()
}

/// Waits for the hub, and no longer than is sensible. Who stops waiting calls off what had not begun.
async fn answered<T>(asked: impl Future<Output = Result<T, TokenError>>) -> Result<T, Problem> {
    answered_after(0, asked).await
}

/// The same for a caller who is ready to wait for others first.
async fn answered_after<T>(
    wait_ms: i64,
    asked: impl Future<Output = Result<T, TokenError>>,
) -> Result<T, Problem> {
    let patience = ANSWER_WAIT_MAX.saturating_add(Duration::from_millis(wait_ms.unsigned_abs()));
    let answer = tokio::time::timeout(patience, asked).await.map_err(|_| Problem::no_answer())?;
    Ok(answer?)
}

/// A number that was drawn for a token or a spender, as a UUID is written.
fn uuid(number: u128) -> String {
    TransferId(number).to_string()
}
