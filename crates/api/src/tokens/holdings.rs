//! `GET /tokens` and `GET /tokens/balance`: what an owner has. Both show what is durable.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_tokens::{TokenId, TokenState};

use super::json::{self, Listed};
use super::query::{limit, owner, read, scope, values};
use super::refusal::Problem;
use super::{Wallets, answer};
use crate::views::filters::Parameters;

/// The tokens of an owner, page by page, in an order of the index's own. Only `"next": null` is the end.
pub(crate) async fn list(
    State(Wallets { desk, .. }): State<Wallets>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "externalId", "publicKey", "currency", "type", "state", "after", "limit"];
    let [wallet, external_id, public_key, currency, token_type, state, after, rows] =
        values(parameters, names)?;
    let scope = scope(owner([wallet, external_id, public_key])?, currency, token_type)?;
    let state = read("state", state, |text| match text {
        "free" => Ok(TokenState::Free),
        "locked" => Ok(TokenState::Locked),
        _ => Err("must be free or locked".to_owned()),
    })?;
    let after = read("after", after, json::name)?.map(|id| TokenId::from(&*id));
    let limit = limit(rows.as_deref())?;
    let page = desk.tokens(scope, state, after, limit).await?;
    Ok(answer(StatusCode::OK, &Listed(page)))
}

/// What an owner has, and in what pieces. An unknown owner has nothing.
pub(crate) async fn balance(
    State(Wallets { desk, .. }): State<Wallets>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "externalId", "publicKey", "currency", "type"];
    let [wallet, external_id, public_key, currency, token_type] = values(parameters, names)?;
    let scope = scope(owner([wallet, external_id, public_key])?, currency, token_type)?;
    Ok(answer(StatusCode::OK, &desk.holdings(scope).await?))
}
