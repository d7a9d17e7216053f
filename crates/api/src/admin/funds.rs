//! Funds in and out of a settlement account.
//!
//! In: the settlement value falls. Out: tested and taken by `recordFundsOutPrepareReserve`, then confirmed or given
//! back. Unlike central-ledger, which queues and may abort in silence, a 202 here means that it is done.

use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Currency};
use holdfast_domain::money::Balance;
use holdfast_domain::participants::{Account, AccountKind};
use holdfast_wire::admin::{Funds, FundsAction, FundsEnd, FundsEndAction, MovementId};
use holdfast_wire::{Object, Rule};

use super::accounts::owned;
use super::body::Body;
use super::extract::Place;
use super::{about, change, not_possible, refusal};
use crate::Edge;
use crate::calls::submit;
use crate::error::ApiError;

/// `POST /participants/{name}/accounts/{id}`.
pub(crate) async fn record(
    State(edge): State<Edge>,
    Place((name, account)): Place<(String, u32)>,
    Body(body): Body<Funds>,
) -> Result<StatusCode, ApiError> {
    let (MovementId(id), Object(money)) = (body.transfer_id, body.amount);
    let (amount, currency) = (money.amount.0, money.currency.0);
    let (reference, reason) = (body.external_reference.0, body.reason.0);
    let row = settlement(&edge, &name, AccountId(account)).await?;
    let command = match body.action {
        FundsAction::In => Admin::FundsIn { id, account: row.id, currency, amount },
        FundsAction::OutReserve => Admin::FundsOutReserve { id, account: row.id, currency, amount },
    };
    let outcome = submit(&edge, Command::Admin(command)).await?;
    let Some(code) = outcome.code else {
        // The log keeps what moved; why it moved is kept here.
        tracing::info!(%id, participant = %name, account, %amount, %currency, reference, reason, "funds moved");
        return Ok(StatusCode::ACCEPTED);
    };
    let code = code.number();
    let detail = if code == ErrorCode::PayerInsufficientLiquidity.number() {
        let free = free_to_leave(&edge, &name, row.id).await?;
        format!("{amount} cannot leave account {account}: {free} is free")
    } else if code == ErrorCode::ModifiedRequest.number() {
        format!("{id} was used before with another amount, account or action")
    } else {
        why_not(&row, currency)
    };
    Err(refusal(code, detail))
}

/// `PUT /participants/{name}/accounts/{id}/transfers/{transferId}`.
pub(crate) async fn end(
    State(edge): State<Edge>,
    Place((name, account, id)): Place<(String, u32, String)>,
    Body(body): Body<FundsEnd>,
) -> Result<StatusCode, ApiError> {
    let MovementId(id) = MovementId::read(&id).map_err(ApiError::malformed)?;
    let account = settlement(&edge, &name, AccountId(account)).await?.id;
    let command = match body.action {
        FundsEndAction::Commit => Admin::FundsOutCommit { id, account },
        FundsEndAction::Abort => Admin::FundsOutAbort { id, account },
    };
    let done = change(&edge, Command::Admin(command), |code| {
        if code == ErrorCode::TransferIdNotFound.number() {
            format!("no funds out {id} on account {}", account.0)
        } else {
            format!("{id} is not funds out that await their end")
        }
    });
    done.await.map(|_| StatusCode::ACCEPTED)
}

/// The settlement account that the path must name; 500/2001 for any other.
async fn settlement(edge: &Edge, name: &str, account: AccountId) -> Result<Account, ApiError> {
    let row = owned(edge, name, account).await?.filter(|row| row.kind == AccountKind::Settlement);
    row.ok_or_else(|| not_possible(format!("account {} is not a SETTLEMENT account of {name}", account.0)))
}

fn why_not(row: &Account, currency: Currency) -> String {
    if row.currency == currency {
        format!("account {} is not active; POST …/initialPositionAndLimits first", row.id.0)
    } else {
        format!("account {} is in {}, not {currency}", row.id.0, row.currency)
    }
}

/// What may leave a settlement account now: what it holds, less what the position stands on.
async fn free_to_leave(edge: &Edge, name: &str, settlement: AccountId) -> Result<Balance, ApiError> {
    let accounts = about(edge, name, move |registry, _| {
        let account = |id| registry.account(id).copied();
        account(settlement).zip(account(AccountId(settlement.0 - 1)))
    });
    let (settlement, position) = accounts.await?.ok_or_else(ApiError::hub_stopped)?;
    let used = (position.value + position.reserved).max(Balance::ZERO);
    Ok((settlement.value.negated() + used.negated()).max(Balance::ZERO))
}
