//! `/tokens…`: wallets select, lock and spend. The shape of a request is tested here; the vault does the rest.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `receive` | a body in memory, within bounds |
//! | `refusal` | refusals as problems of RFC 9457 |
//! | `commands` | tokens issued, locked for a spender, paid out, redeemed, brought together, and what another ledger did |
//! | `locks` | who holds what; renewed or given back |
//! | `holdings` | tokens and balances of an owner |
//! | `query` | what stands in the query of a path |

pub(crate) mod commands;
pub(crate) mod holdings;
pub(crate) mod locks;
mod query;
mod receive;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use holdfast_domain::ids::TransferId;
use holdfast_engine::TokenError;
use serde::Serialize;

use crate::Edge;
use crate::limits::ANSWER_WAIT_MAX;
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
