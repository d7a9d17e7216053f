//! `GET /hub/stats`: what the hub has done since its log began, and what it holds now.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::calls::read;
use crate::engine::Figures;
use crate::error::ApiError;
use crate::{Edge, times};

pub(crate) async fn stats(State(edge): State<Edge>) -> Result<Json<Value>, ApiError> {
    read(edge.engine.figures()).await.map(|figures| Json(show(figures)))
}

/// What nobody counts is left out.
fn show(Figures { stats, more }: Figures) -> Value {
    let mut members = Map::from_iter(
        [
            ("transfers", json!(stats.transfers)),
            ("openHolds", json!(stats.open_holds)),
            ("nextExpiration", json!(stats.next_expiration.map(times::format))),
            ("participants", json!(stats.participants)),
            ("accounts", json!(stats.accounts)),
            ("deadLetters", json!(stats.dead_letters)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(alarms) = stats.limit_alarms {
        members.insert("limitAlarms".to_owned(), json!(alarms));
    }
    if let Some(reached) = stats.reached {
        let reached = reached.into_iter().map(|(state, count)| (state.name().to_owned(), json!(count)));
        members.insert("reachedState".to_owned(), Value::Object(reached.collect()));
    }
    members.extend(more);
    Value::Object(members)
}
