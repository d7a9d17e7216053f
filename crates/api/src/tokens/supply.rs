//! `POST /tokens/issue` and `/tokens/updates`: tokens that come, and that went elsewhere.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::json::{self, Issued, Updated};
use super::receive::receive;
use super::refusal::Problem;
use super::{Wallets, answer, answered, uuid};

/// Issues tokens, all or none. Those without an id get one.
pub(crate) async fn issue(
    State(Wallets { edge, desk }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let read = |body: &[u8]| json::read_issue(body, || uuid(desk.new_id()).into());
    let tokens = receive(&edge, request, read).await?;
    // Cheap: ids and kinds are shared.
    answered(desk.issue(tokens.clone())).await?;
    Ok(answer(StatusCode::CREATED, &Issued(&tokens)))
}

/// Takes over what another ledger did, in any order.
pub(crate) async fn updates(
    State(Wallets { edge, desk }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let (consumed, produced) = receive(&edge, request, json::read_updates).await?;
    let (produced, consumed) = answered(desk.update(consumed, produced)).await?;
    Ok(answer(StatusCode::OK, &Updated { produced, consumed }))
}
