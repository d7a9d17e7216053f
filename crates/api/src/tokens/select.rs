//! `POST /tokens/select`: tokens worth an amount, locked for a spender.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_wire::tokens::{Select, Selection};

use super::receive::receive;
use super::refusal::Problem;
use super::{Wallets, answer, answered_after};

/// Chooses and locks, and waits for what others hold if the caller says for how long. A caller that hangs up meanwhile
/// drops this, and its place in the queue with it.
pub(crate) async fn select(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let (request, wait_ms) = receive(&edge, request, Select::ask).await?;
    let selection = answered_after(wait_ms, vault.select(request, wait_ms)).await?;
    Ok(answer(StatusCode::OK, &Selection::from(&selection)))
}
