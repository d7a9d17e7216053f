//! `POST /tokens/issue`, `/select`, `/spend`, `/redeem`, `/updates` and `/consolidate`: tokens come, are locked for a spender,
//! and go.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_wire::tokens::{
    Consolidate, Issue, Issued, Redeem, Select, Selection, Spend, Transaction, Updated, Updates,
};

use super::refusal::Problem;
use super::{Wallets, answer, answered, answered_after, receive, uuid};

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

/// Takes over what another ledger did, in any order.
pub(crate) async fn updates(
    State(Wallets { edge, vault }): State<Wallets>,
    request: Request,
) -> Result<Response, Problem> {
    let (consumed, produced) = receive(&edge, request, Updates::ask).await?;
    let (produced, consumed) = answered(vault.update(consumed, produced)).await?;
    Ok(answer(StatusCode::OK, &Updated { produced, consumed }))
}
