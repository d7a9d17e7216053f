//! `GET /tokens` and `GET /tokens/balance`: what an owner has. Both show what is durable.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_tokens::{TokenId, TokenState};
use holdfast_wire::Name;
use holdfast_wire::tokens::{Balance, State as Standing, TokenPage};

use super::query::{limit, owner, read, scope, values};
use super::refusal::Problem;
use super::{Wallets, answer};
use crate::views::filters::Parameters;

/// The tokens of an owner, page by page, in an order of the index's own. Only `"next": null` is the end.
pub(crate) async fn list(
    State(Wallets { vault, .. }): State<Wallets>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "externalId", "publicKey", "currency", "type", "state", "after", "limit"];
    let [wallet, external_id, public_key, currency, token_type, state, after, rows] =
        values(parameters, names)?;
    let scope = scope(owner([wallet, external_id, public_key])?, currency, token_type)?;
    let state = read("state", state)?.map(|state| match state {
        Standing::Free => TokenState::Free,
        Standing::Locked => TokenState::Locked,
    });
    let after = read::<Name>("after", after)?.map(|id| TokenId::from(id.as_str()));
    let limit = limit(rows.as_deref())?;
    let page = vault.tokens(scope, state, after, limit).await?;
    Ok(answer(StatusCode::OK, &TokenPage::from(&page)))
}

/// What an owner has, and in what pieces. An unknown owner has nothing.
pub(crate) async fn balance(
    State(Wallets { vault, .. }): State<Wallets>,
    parameters: Parameters,
) -> Result<Response, Problem> {
    let names = ["wallet", "externalId", "publicKey", "currency", "type"];
    let [wallet, external_id, public_key, currency, token_type] = values(parameters, names)?;
    let scope = scope(owner([wallet, external_id, public_key])?, currency, token_type)?;
    let (balance, fragmentation) = vault.holdings(scope).await?;
    Ok(answer(StatusCode::OK, &Balance::of(&balance, &fragmentation)))
}
