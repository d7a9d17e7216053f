//! `/participants/{name}/accounts` and `/positions`: balances, the Hub's accounts, and the flag of a position account.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::AccountId;
use holdfast_domain::money::Balance;
use holdfast_domain::participants::{Account, AccountKind};
use holdfast_domain::registry::Registry;
use holdfast_wire::Instant;
use holdfast_wire::admin::{
    Account as Shown, Activity, Bit, NewAccount, OneOrList, Participant, Position, ShownCurrency,
};
use holdfast_wire::amount::{Amounts, Decimal};

use super::body::Body;
use super::entity::{addressed, copied, kind_of, rows};
use super::extract::{Filter, Origin, Place};
use super::hub_accounts::{self, HubAccount};
use super::{Whom, about, change, not_of_the_hub, not_possible, refusal, shortened};
use crate::Edge;
use crate::error::ApiError;

fn account(row: &Account, amounts: Amounts) -> Shown {
    Shown {
        id: row.id.0,
        ledger_account_type: kind_of(row.kind),
        currency: ShownCurrency(row.currency),
        is_active: Bit(row.active),
        value: Decimal::new(row.value, amounts),
        reserved_value: Decimal::new(row.reserved, amounts),
        changed_date: Instant(row.changed_at),
    }
}

fn hub_account(row: &HubAccount, amounts: Amounts) -> Shown {
    Shown {
        id: row.id,
        ledger_account_type: row.kind,
        currency: ShownCurrency(row.currency),
        is_active: Bit(true),
        value: Decimal::new(row.value, amounts),
        reserved_value: Decimal::new(Balance::ZERO, amounts),
        changed_date: Instant(row.changed_at),
    }
}

/// Accounts appear with their first limit, as in central-ledger; and before, if somebody was paid already: money
/// is never hidden.
fn is_in_use(store: &dyn Registry, row: &Account) -> bool {
    let position = match row.kind {
        AccountKind::Position => Some(row),
        AccountKind::Settlement => store.account(AccountId(row.id.0 - 1)),
    };
    position.is_some_and(|row| row.net_debit_cap.is_some() || row.value != Balance::ZERO)
}

/// `GET /participants/{name}/accounts[?currency=&amounts=]`.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Json<Vec<Shown>>, ApiError> {
    let (wanted, amounts) = (filter.currency()?, filter.amounts()?);
    let is_wanted = move |currency| wanted.is_none_or(|wanted| wanted == currency);
    let accounts = about(&edge, &name, move |store, whom| match whom {
        Whom::Hub => {
            let accounts = hub_accounts::list(store, None).into_iter();
            accounts.filter(|row| is_wanted(row.currency)).map(|row| hub_account(&row, amounts)).collect()
        }
        Whom::Participant(row) => rows(store, row)
            .filter(|row| is_in_use(store, row) && is_wanted(row.currency))
            .map(|row| account(row, amounts))
            .collect(),
    });
    accounts.await.map(Json)
}

fn position(row: &Account, amounts: Amounts) -> Position {
    Position {
        currency: ShownCurrency(row.currency),
        value: Decimal::new(row.value, amounts),
        changed_date: Instant(row.changed_at),
    }
}

/// `GET /participants/{name}/positions`: what a participant owes (> 0) or is owed, per currency. With a currency one object, empty if there is none; without, a list.
pub(crate) async fn positions(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Json<OneOrList<Position>>, ApiError> {
    let (wanted, amounts) = (filter.currency()?, filter.amounts()?);
    let is_shown = move |currency| wanted.is_none_or(|wanted| wanted == currency);
    let positions: Vec<Position> = about(&edge, &name, move |store, whom| {
        let accounts = whom.participant().into_iter().flat_map(|row| rows(store, row));
        let accounts = accounts.filter(|row| row.kind == AccountKind::Position && is_in_use(store, row));
        accounts.filter(|row| is_shown(row.currency)).map(|row| position(row, amounts)).collect()
    })
    .await?;
    Ok(Json(if wanted.is_some() { OneOrList::one(positions) } else { OneOrList::List(positions) }))
}

/// `POST /participants/{name}/accounts`: the Hub's accounts exist already, so there is nothing to do but to say so.
pub(crate) async fn create(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    origin: Origin,
    Body(body): Body<NewAccount>,
) -> Result<(StatusCode, Json<Participant>), ApiError> {
    let (currency, kind) = (body.currency.0, body.kind.0);
    let entity = about(&edge, &name, move |store, whom| match whom {
        Whom::Hub => Some(copied(store, whom, Some(currency))),
        Whom::Participant(_) => None,
    });
    let Some(entity) = entity.await? else {
        let detail = format!("{name} is not the Hub; POST /participants adds a currency");
        return Err(refusal(ADD_PARTY_INFORMATION, detail));
    };
    if hub_accounts::KINDS.iter().all(|known| known.word() != kind) {
        let detail = format!("type: the Hub has no account of type '{}'", shortened(&kind));
        return Err(refusal(ADD_PARTY_INFORMATION, detail));
    }
    Ok((StatusCode::CREATED, Json(addressed(entity, &origin))))
}

/// The code with which central-ledger refuses accounts.
const ADD_PARTY_INFORMATION: u16 = 3003;

/// `PUT /participants/{name}/accounts/{id}`: a position account takes part in new transfers, or not.
pub(crate) async fn set_active(
    State(edge): State<Edge>,
    Place((name, id)): Place<(String, u32)>,
    Body(Activity { is_active: active }): Body<Activity>,
) -> Result<StatusCode, ApiError> {
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

/// The account, if it is that participant's. Whose an account is never changes. 400/3100 for the Hub, whose accounts are
/// neither paid into nor switched.
pub(super) async fn owned(edge: &Edge, name: &str, account: AccountId) -> Result<Option<Account>, ApiError> {
    let found = about(edge, name, move |store, whom| {
        whom.participant().map(|row| rows(store, row).find(|row| row.id == account).copied())
    });
    let of_hub = || not_of_the_hub(format!("the Hub has no account {} of its own", account.0));
    found.await?.ok_or_else(of_hub)
}
