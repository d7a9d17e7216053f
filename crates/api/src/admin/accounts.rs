//! `/participants/{name}/accounts`: balances, the Hub's accounts, and the flag of a position account.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::AccountId;
use holdfast_domain::money::Balance;
use holdfast_domain::participants::{Account, AccountKind};
use holdfast_domain::registry::Registry;
use serde::Serialize;
use serde_json::value::RawValue;

use super::entity::{Portrait, rows};
use super::extract::{Filter, Origin, Place};
use super::fields::Fields;
use super::hub_accounts::{self, HubAccount, HubAccountKind};
use super::numbers::number;
use super::{Whom, about, change, flag, not_possible, refusal, shortened};
use crate::error::ApiError;
use crate::{Edge, times};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: u32,
    ledger_account_type: &'static str,
    currency: String,
    is_active: u8,
    value: Box<RawValue>,
    reserved_value: Box<RawValue>,
    changed_date: String,
}

fn account(row: &Account) -> Shown {
    Shown {
        id: row.id.0,
        ledger_account_type: row.kind.name(),
        currency: row.currency.to_string(),
        is_active: flag(row.active),
        value: number(row.value),
        reserved_value: number(row.reserved),
        changed_date: times::format(row.changed_at),
    }
}

fn hub_account(row: &HubAccount) -> Shown {
    Shown {
        id: row.id,
        ledger_account_type: row.kind.name(),
        currency: row.currency.to_string(),
        is_active: flag(true),
        value: number(row.value),
        reserved_value: number(Balance::ZERO),
        changed_date: times::format(row.changed_at),
    }
}

/// Accounts appear with their first limit, as in central-ledger; and before, if somebody was paid already: money
/// is never hidden.
pub(super) fn is_in_use(store: &dyn Registry, row: &Account) -> bool {
    let position = match row.kind {
        AccountKind::Position => Some(row),
        AccountKind::Settlement => store.account(AccountId(row.id.0 - 1)),
    };
    position.is_some_and(|row| row.net_debit_cap.is_some() || row.value != Balance::ZERO)
}

/// `GET /participants/{name}/accounts[?currency=]`.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Response, ApiError> {
    let wanted = filter.currency()?;
    let is_wanted = move |currency| wanted.is_none_or(|wanted| wanted == currency);
    let accounts: Vec<Shown> = about(&edge, &name, move |store, whom| match whom {
        Whom::Hub => {
            let accounts = hub_accounts::list(store, None);
            accounts.iter().filter(|row| is_wanted(row.currency)).map(hub_account).collect()
        }
        Whom::Participant(row) => rows(store, row)
            .filter(|row| is_in_use(store, row) && is_wanted(row.currency))
            .map(account)
            .collect(),
    })
    .await?;
    Ok(Json(accounts).into_response())
}

/// `POST /participants/{name}/accounts`: the Hub's accounts exist already, so there is nothing to do but to say so.
pub(crate) async fn create(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    origin: Origin,
    body: Fields,
) -> Result<Response, ApiError> {
    let (currency, kind) = (body.currency("currency")?, body.text("type")?);
    let portrait = about(&edge, &name, move |store, whom| match whom {
        Whom::Hub => Some(Portrait::take(store, whom, Some(currency))),
        Whom::Participant(_) => None,
    });
    let Some(portrait) = portrait.await? else {
        let detail = format!("{name} is not the Hub; POST /participants adds a currency");
        return Err(refusal(ADD_PARTY_INFORMATION, detail));
    };
    if HubAccountKind::ALL.iter().all(|known| known.name() != kind) {
        let detail = format!("type: the Hub has no account of type '{}'", shortened(&kind));
        return Err(refusal(ADD_PARTY_INFORMATION, detail));
    }
    Ok((StatusCode::CREATED, Json(portrait.entity(&origin))).into_response())
}

/// The code with which central-ledger refuses accounts.
const ADD_PARTY_INFORMATION: u16 = 3003;

/// `PUT /participants/{name}/accounts/{id}`: a position account takes part in new transfers, or not.
pub(crate) async fn set_active(
    State(edge): State<Edge>,
    Place((name, id)): Place<(String, u32)>,
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let active = body.flag("isActive")?;
    let account = AccountId(id);
    let Some(row) = owned(&edge, &name, account).await?.filter(|row| row.kind == AccountKind::Position)
    else {
        return Err(not_possible(format!("account {id} is not a POSITION account of {name}")));
    };
    if active && row.net_debit_cap.is_none() {
        let detail = format!("account {id} has no limit yet; POST …/initialPositionAndLimits first");
        return Err(not_possible(detail));
    }
    let command = Admin::SetAccountActive { account, active };
    let done = change(&edge, Command::Admin(command), |_| format!("account {id} cannot be changed"));
    done.await.map(|_| StatusCode::OK)
}

/// The account, if it is that participant's. Whose an account is never changes.
pub(super) async fn owned(edge: &Edge, name: &str, account: AccountId) -> Result<Option<Account>, ApiError> {
    about(edge, name, move |store, whom| match whom {
        Whom::Hub => None,
        Whom::Participant(row) => rows(store, row).find(|row| row.id == account).copied(),
    })
    .await
}
