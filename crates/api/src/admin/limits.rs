//! Limits: the first one with the initial position, later ones, and lists of them.
//!
//! There is one type, `NET_DEBIT_CAP`. A cap may be lowered below what is in use: it stops new prepares only.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{Currency, ParticipantId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Participant;
use holdfast_domain::registry::{Registry, Whose};
use holdfast_wire::Object;
use holdfast_wire::admin::{Cap, InitialPositionAndLimits, Limit, LimitKind, NewLimit, ShownCurrency};
use holdfast_wire::amount::{Amounts, Decimal, Percent};

use super::body::Body;
use super::extract::{Filter, Place};
use super::{about, change, not_of_the_hub, not_possible};
use crate::Edge;
use crate::calls::ask;
use crate::error::ApiError;

fn limit(currency: Currency, cap: Amount, alarm_percentage: u16, amounts: Amounts) -> Limit {
    Limit {
        name: None,
        currency: ShownCurrency(currency),
        limit: Cap {
            kind: LimitKind::NetDebitCap,
            value: Decimal::new(cap, amounts),
            alarm_percentage: Percent(alarm_percentage),
        },
    }
}

/// Which limits are asked for, and how their amounts are written.
#[derive(Clone, Copy)]
struct Wanted {
    currency: Option<Currency>,
    known_type: bool,
    amounts: Amounts,
}

impl Wanted {
    fn of(filter: &Filter) -> Result<Wanted, ApiError> {
        let known_type = filter.kind.as_ref().is_none_or(|kind| kind == LimitKind::NetDebitCap.word());
        Ok(Wanted { currency: filter.currency()?, known_type, amounts: filter.amounts()? })
    }

    /// Those of one participant.
    fn limits_of<'a>(
        self,
        store: &'a dyn Registry,
        row: &'a Participant,
    ) -> impl Iterator<Item = Limit> + use<'a> {
        let is_wanted = move |currency| self.known_type && self.currency.is_none_or(|it| it == currency);
        let accounts = row.accounts.iter().filter(move |(currency, _)| is_wanted(*currency));
        accounts.filter_map(move |(_, account)| {
            let row = store.account(*account).expect("a participant names accounts that exist");
            row.net_debit_cap.map(|cap| limit(row.currency, cap, row.alarm_percentage, self.amounts))
        })
    }
}

/// `GET /participants/{name}/limits[?currency=&type=&amounts=]`.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Json<Vec<Limit>>, ApiError> {
    let wanted = Wanted::of(&filter)?;
    let limits = about(&edge, &name, move |store, whom| {
        whom.participant().into_iter().flat_map(|row| wanted.limits_of(store, row)).collect()
    });
    limits.await.map(Json)
}

/// `GET /participants/limits[?currency=&type=&amounts=]`: everybody's.
pub(crate) async fn list_all(State(edge): State<Edge>, filter: Filter) -> Result<Json<Vec<Limit>>, ApiError> {
    let wanted = Wanted::of(&filter)?;
    let limits = ask(&edge, Whose::Everybody, move |store| {
        let of_one = |row: &Participant| {
            let name = Some(row.name.as_str().to_owned());
            wanted.limits_of(store, row).map(|limit| Limit { name: name.clone(), ..limit }).collect()
        };
        store.participants().into_iter().flat_map::<Vec<Limit>, _>(of_one).collect()
    });
    limits.await.map(Json)
}

/// The participant, if it has accounts in that currency; 500/2001 if not, 400/3100 if it is the Hub.
async fn with_accounts(edge: &Edge, name: &str, currency: Currency) -> Result<ParticipantId, ApiError> {
    let found = about(edge, name, move |_, whom| {
        whom.participant().map(|row| row.position_account(currency).map(|_| row.id))
    });
    let found = found.await?.ok_or_else(|| not_of_the_hub("the Hub has no limits"))?;
    found.ok_or_else(|| not_possible(format!("{name} has no {currency} accounts to set limits on")))
}

/// `POST /participants/{name}/initialPositionAndLimits`: the first limit; makes both accounts active.
pub(crate) async fn initialize(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    Body(body): Body<InitialPositionAndLimits>,
) -> Result<StatusCode, ApiError> {
    let (currency, net_debit_cap) = (body.currency.0, body.limit.0.value.0);
    let initial_position = body.initial_position.map_or(Amount::ZERO, |position| position.0);
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
    Body(body): Body<NewLimit>,
) -> Result<Json<Limit>, ApiError> {
    let (currency, Object(cap)) = (body.currency.0, body.limit);
    let (net_debit_cap, Percent(alarm_percentage)) = (cap.value.0, cap.alarm_percentage);
    let participant = with_accounts(&edge, &name, currency).await?;
    let command = Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage };
    let done = change(&edge, Command::Admin(command), |_| {
        format!("{name} has no {currency} limit yet; POST …/initialPositionAndLimits first")
    });
    done.await?;
    Ok(Json(limit(currency, net_debit_cap, alarm_percentage, Amounts::Numbers)))
}
