//! Funds in and out of a settlement account.
//!
//! In: the settlement value falls. Out: tested and taken by `recordFundsOutPrepareReserve`, then confirmed or given
//! back. Unlike central-ledger, which queues and may abort in silence, a 202 here means that it is done.

use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Currency, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::{Account, AccountKind};

use super::accounts::owned;
use super::extract::Place;
use super::fields::Fields;
use super::{about, change, not_possible, refusal, shortened};
use crate::Edge;
use crate::calls::submit;
use crate::error::ApiError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Movement {
    In,
    OutReserve,
}

/// `POST /participants/{name}/accounts/{id}`.
pub(crate) async fn record(
    State(edge): State<Edge>,
    Place((name, account)): Place<(String, u32)>,
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let actions = [("recordFundsIn", Movement::In), ("recordFundsOutPrepareReserve", Movement::OutReserve)];
    let movement = body.word("action", &actions)?;
    let id = body.text("transferId")?;
    let id = transfer_id(&id).ok_or_else(|| body.wrong("transferId", not_an_id(&id)))?;
    let (reference, reason) = (body.text("externalReference")?, body.text("reason")?);
    let money = body.object("amount")?;
    let (amount, currency) = (money.amount("amount")?, money.currency("currency")?);
    if amount <= Amount::ZERO {
        return Err(money.wrong("amount", "must be more than zero"));
    }
    body.check_extension_list()?;
    let row = settlement(&edge, &name, AccountId(account)).await?;
    let command = match movement {
        Movement::In => Admin::FundsIn { id, account: row.id, currency, amount },
        Movement::OutReserve => Admin::FundsOutReserve { id, account: row.id, currency, amount },
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
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let commit = body.word("action", &[("recordFundsOutCommit", true), ("recordFundsOutAbort", false)])?;
    body.text("reason")?;
    let id = transfer_id(&id).ok_or_else(|| ApiError::malformed(not_an_id(&id)))?;
    let account = settlement(&edge, &name, AccountId(account)).await?.id;
    let command = match commit {
        true => Admin::FundsOutCommit { id, account },
        false => Admin::FundsOutAbort { id, account },
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

fn not_an_id(text: &str) -> String {
    format!("'{}' is neither a lower-case UUID nor a ULID", shortened(text))
}

/// A UUID of any version in lower case, or the 128 bits of a ULID.
fn transfer_id(text: &str) -> Option<TransferId> {
    let of_ulid = || (text.len() == ULID_CHARS).then(|| ulid(text)).flatten().map(TransferId);
    text.parse().ok().or_else(of_ulid)
}

const ULID_CHARS: usize = 26;

/// Crockford's 32 letters, five bits each; 26 of them carry 130 bits, so the first two must be zero.
fn ulid(text: &str) -> Option<u128> {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut id: u128 = 0;
    for (at, byte) in text.bytes().enumerate() {
        let value = LETTERS.iter().position(|letter| *letter == byte)?;
        if at == 0 && value > 7 {
            return None;
        }
        id = id << 5 | value as u128;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_in_lower_case_or_ulids() {
        for (text, bits) in [
            ("00000000-0000-0000-0000-000000000001", 1),
            ("00000000000000000000000001", 1),
            ("0000000000000000000000000Z", 31),
            ("00000000000000000000000010", 32),
            ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", u128::MAX),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 0x0156_3e3a_b5d3_d676_4c61_efb9_9302_bd5b),
        ] {
            assert_eq!(transfer_id(text), Some(TransferId(bits)), "{text}");
        }
        for bad in [
            "",
            "0D6B1A2C-3F4E-4A5B-8C6D-7E8F9A0B1C2D",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01arz3ndektsv4rrffq69g5fav",
            "01ARZ3NDEKTSV4RRFFQ69G5FAI",
            "01ARZ3NDEKTSV4RRFFQ69G5FA",
            "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
            "ÄÄÄÄÄÄÄÄÄÄÄÄÄ",
        ] {
            assert_eq!(transfer_id(bad), None, "{bad}");
        }
    }
}
