//! `GET /participants/{name}/positions`: what a participant owes (> 0) or is owed, per currency.

use axum::Json;
use axum::extract::State;
use holdfast_domain::participants::{Account, AccountKind};
use holdfast_wire::Instant;
use holdfast_wire::admin::{OneOrList, Position, ShownCurrency};
use holdfast_wire::amount::{Amounts, Decimal};

use super::about;
use super::accounts::is_in_use;
use super::entity::rows;
use super::extract::{Filter, Place};
use crate::Edge;
use crate::error::ApiError;

fn position(row: &Account, amounts: Amounts) -> Position {
    Position {
        currency: ShownCurrency(row.currency),
        value: Decimal::new(row.value, amounts),
        changed_date: Instant(row.changed_at),
    }
}

/// With a currency one object, empty if there is none; without, a list.
pub(crate) async fn list(
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
