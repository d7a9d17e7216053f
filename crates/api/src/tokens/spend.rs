//! `POST /tokens/spend`, `/tokens/redeem` and `/tokens/consolidate`: inputs go, outputs come, in one step.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_wire::tokens::{Consolidate, Redeem, Spend, Transaction};

use super::receive::receive;
use super::refusal::Problem;
use super::{Wallets, answer, answered, uuid};

/// Pays out what the spender has selected. A repeat gets the stored transaction.
pub(crate) async fn spend(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let request = receive(&edge, request, |body: Spend| Ok(body.ask())).await?;
    let transaction = answered(vault.spend(request)).await?;
    Ok(answer(StatusCode::OK, &Transaction::from(Some(&transaction))))
}

/// Takes a quantity of what the spender has selected out of the vault; the rest returns.
pub(crate) async fn redeem(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let request = receive(&edge, request, |body: Redeem| Ok(body.ask())).await?;
    let transaction = answered(vault.spend(request)).await?;
    Ok(answer(StatusCode::OK, &Transaction::from(Some(&transaction))))
}

/// Brings the small tokens of a wallet into few. Without a transaction if that would not leave fewer.
pub(crate) async fn consolidate(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let new_spender = || format!("consolidate-{}", uuid(vault.new_id())).into();
    let request = receive(&edge, request, |body: Consolidate| Ok(body.ask(new_spender))).await?;
    let transaction = answered(vault.consolidate(request)).await?;
    Ok(answer(StatusCode::OK, &Transaction::from(transaction.as_ref())))
}
