//! `GET /participants/{name}/positions`: what a participant owes (> 0) or is owed, per currency.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use holdfast_domain::participants::{Account, AccountKind};
use serde::Serialize;
use serde_json::value::RawValue;

use super::accounts::is_in_use;
use super::entity::rows;
use super::extract::{Filter, Place};
use super::numbers::number;
use super::{Whom, about};
use crate::error::ApiError;
use crate::{Edge, times};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    currency: String,
    value: Box<RawValue>,
    changed_date: String,
}

fn position(row: &Account) -> Position {
    Position {
        currency: row.currency.to_string(),
        value: number(row.value),
        changed_date: times::format(row.changed_at),
    }
}

/// With a currency one object, empty if there is none; without, a list.
pub(crate) async fn list(
    State(edge): State<Edge>,
    Place(name): Place<String>,
    filter: Filter,
) -> Result<Response, ApiError> {
    let wanted = filter.currency()?;
    let positions: Vec<Position> = about(&edge, &name, move |store, whom| match whom {
        Whom::Hub => Vec::new(),
        Whom::Participant(row) => rows(store, row)
            .filter(|row| row.kind == AccountKind::Position && is_in_use(store, row))
            .filter(|row| wanted.is_none_or(|currency| currency == row.currency))
            .map(position)
            .collect(),
    })
    .await?;
    Ok(match (wanted, positions.first()) {
        (None, _) => Json(positions).into_response(),
        (Some(_), Some(position)) => Json(position).into_response(),
        (Some(_), None) => Json(serde_json::json!({})).into_response(),
    })
}
