//! `POST /tokens/issue` and `/tokens/updates`: tokens that come, and that went elsewhere.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_wire::tokens::{Issue, Issued, Updated, Updates};

use super::receive::receive;
use super::refusal::Problem;
use super::{Wallets, answer, answered, uuid};

/// Issues tokens, all or none. Those without an id get one.
pub(crate) async fn issue(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let read = |body: Issue| body.ask(|| uuid(vault.new_id()).into());
    let tokens = receive(&edge, request, read).await?;
    // Cheap: ids and kinds are shared.
    answered(vault.issue(tokens.clone())).await?;
    Ok(answer(StatusCode::CREATED, &Issued::from(tokens.as_slice())))
}

/// Takes over what another ledger did, in any order.
pub(crate) async fn updates(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let (consumed, produced) = receive(&edge, request, Updates::ask).await?;
    let (produced, consumed) = answered(vault.update(consumed, produced)).await?;
    Ok(answer(StatusCode::OK, &Updated { produced, consumed }))
}
