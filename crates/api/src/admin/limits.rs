//! Limits: the first one with the initial position, later ones, and lists of them.
//!
//! There is one type, `NET_DEBIT_CAP`. A cap may be lowered below what is in use: it stops new prepares only.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{Currency, ParticipantId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::{Account, Participant};
use holdfast_domain::registry::{Registry, Whose};
use serde::Serialize;
use serde_json::value::RawValue;

use super::extract::{Filter, Place};
use super::fields::Fields;
use super::numbers::number;
use super::{Whom, about, change, not_possible};
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;

const NET_DEBIT_CAP: &str = "NET_DEBIT_CAP";

/// A limit as it is shown; `name` only in the list of all participants.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    currency: String,
    limit: ShownLimit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownLimit {
    #[serde(rename = "type")]
    kind: &'static str,
    value: Box<RawValue>,
    alarm_percentage: u16,
}

fn shown(name: Option<&str>, currency: Currency, cap: Amount, alarm_percentage: u16) -> Shown {
    Shown {
        name: name.map(str::to_owned),
        currency: currency.to_string(),
        limit: ShownLimit { kind: NET_DEBIT_CAP, value: number(cap), alarm_percentage },
    }
}

/// The limits of one participant that the filter lets through.
fn limits_of<'a>(
    store: &'a dyn Registry,
    row: &'a Participant,
    wanted: Option<Currency>,
) -> impl Iterator<Item = (&'a Account, Amount)> {
    let in_currency =
        row.accounts.iter().filter(move |(currency, _)| wanted.is_none_or(|it| it == *currency));
    in_currency.filter_map(|(_, account)| {
        let account = store.account(*account).expect("a participant names accounts that exist");
        account.net_debit_cap.map(|cap| (account, cap))
    })
}

fn of_known_type(filter: &Filter) -> bool {
    filter.kind.as_ref().is_none_or(|kind| kind == NET_DEBIT_CAP)
}

/// `GET /participants/{name}/limits[?currency=&type=]`.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Response, ApiError> {
    let (wanted, known_type) = (filter.currency()?, of_known_type(&filter));
    let limits: Vec<Shown> = about(&edge, &name, move |store, whom| match whom {
        Whom::Participant(row) if known_type => limits_of(store, row, wanted)
            .map(|(account, cap)| shown(None, account.currency, cap, account.alarm_percentage))
            .collect(),
        _ => Vec::new(),
    })
    .await?;
    Ok(Json(limits).into_response())
}

/// `GET /participants/limits[?currency=&type=]`: everybody's.
pub(crate) async fn list_all(State(edge): State<Edge>, filter: Filter) -> Result<Response, ApiError> {
    let (wanted, known_type) = (filter.currency()?, of_known_type(&filter));
    let limits: Vec<Shown> = ask(&edge, Whose::Everybody, move |store| {
        let everybody = store.participants().into_iter().filter(|_| known_type);
        let limits = everybody.flat_map(|row| limits_of(store, row, wanted).map(move |limit| (row, limit)));
        let show = |(row, (account, cap)): (&Participant, (&Account, Amount))| {
            shown(Some(row.name.as_str()), account.currency, cap, account.alarm_percentage)
        };
        limits.map(show).collect()
    })
    .await?;
    Ok(Json(limits).into_response())
}

/// Which limit a body speaks of, and its value.
struct Asked {
    currency: Currency,
    limit: Fields,
    cap: Amount,
}

fn asked(body: &Fields) -> Result<Asked, ApiError> {
    let currency = body.currency("currency")?;
    let limit = body.object("limit")?;
    limit.word("type", &[(NET_DEBIT_CAP, ())])?;
    let cap = limit.amount("value")?;
    if cap < Amount::ZERO {
        return Err(limit.wrong("value", "must not be below zero"));
    }
    Ok(Asked { currency, limit, cap })
}

/// The participant, if it has accounts in that currency; 500/2001 if not.
async fn with_accounts(edge: &Edge, name: &str, currency: Currency) -> Result<ParticipantId, ApiError> {
    let found = about(edge, name, move |_, whom| match whom {
        Whom::Participant(row) if row.position_account(currency).is_some() => Some(row.id),
        _ => None,
    });
    found.await?.ok_or_else(|| not_possible(format!("{name} has no {currency} accounts to set limits on")))
}

/// `POST /participants/{name}/initialPositionAndLimits`: the first limit; makes both accounts active.
pub(crate) async fn initialize(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let Asked { currency, cap: net_debit_cap, .. } = asked(&body)?;
    let initial_position = body.optional_amount("initialPosition")?.unwrap_or(Amount::ZERO);
    let participant = with_accounts(&edge, &name, currency).await?;
    let command = Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position };
    let done = change(&edge, Command::Admin(command), |_| {
        format!("{name} has its first {currency} limit already; change it with PUT …/limits")
    });
    done.await.map(|_| StatusCode::CREATED)
}

/// `PUT /participants/{name}/limits`: another cap, also with transfers in flight.
pub(crate) async fn set(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    body: Fields,
) -> Result<Response, ApiError> {
    let Asked { currency, limit, cap: net_debit_cap } = asked(&body)?;
    let alarm_percentage = percentage(&limit)?;
    let participant = with_accounts(&edge, &name, currency).await?;
    let command = Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage };
    let done = change(&edge, Command::Admin(command), |_| {
        format!("{name} has no {currency} limit yet; POST …/initialPositionAndLimits first")
    });
    done.await?;
    Ok(Json(shown(None, currency, net_debit_cap, alarm_percentage)).into_response())
}

/// Whole percents from 0 to 100.
fn percentage(limit: &Fields) -> Result<u16, ApiError> {
    const NAME: &str = "alarmPercentage";
    let (percent, one) = (limit.amount(NAME)?, 10_i64.pow(holdfast_domain::money::SCALE));
    let whole = (percent.0 % one == 0).then_some(percent.0 / one);
    let fits = whole.and_then(|percent| u16::try_from(percent).ok()).filter(|percent| *percent <= 100);
    fits.ok_or_else(|| limit.wrong(NAME, format!("{percent} is not a whole number from 0 to 100")))
}
