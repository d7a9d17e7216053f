//! `GET /hub/stats`: what the hub has done since its log began, and what it holds now.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::calls::read;
use crate::error::ApiError;
use crate::keys::write_hex;
use crate::{Edge, times};
use holdfast_engine::{Figures, LogFigures, NodeFigures, ShopFigures};

pub(crate) async fn stats(State(edge): State<Edge>) -> Result<Json<Value>, ApiError> {
    read(edge.engine.figures()).await.map(|figures| Json(show(figures)))
}

/// What nobody counts is left out.
fn show(Figures { stats, node, shop, log }: Figures) -> Value {
    let mut shown = Map::new();
    let mut add = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    add("transfers", json!(stats.transfers));
    add("openHolds", json!(stats.open_holds));
    add("nextExpiration", json!(stats.next_expiration.map(times::format)));
    add("participants", json!(stats.participants));
    add("accounts", json!(stats.accounts));
    add("deadLetters", json!(stats.dead_letters));
    if let Some(alarms) = stats.limit_alarms {
        add("limitAlarms", json!(alarms));
    }
    if let Some(reached) = stats.reached {
        let reached = reached.into_iter().map(|(state, count)| (state.name().to_owned(), json!(count)));
        add("reachedState", Value::Object(reached.collect()));
    }
    if let Some(NodeFigures { roles, commands_in_flight }) = node {
        add("node", json!({"roles": roles, "commandsInFlight": commands_in_flight}));
    }
    if let Some(shop) = shop {
        add("shop", Value::Object(shop_figures(&shop)));
    }
    if let Some(LogFigures { frames, records, end, last_time, chain }) = log {
        let (last_time, chain) = (times::format(last_time), write_hex(&chain));
        add(
            "log",
            json!({"frames": frames, "records": records, "end": end, "lastTime": last_time, "chain": chain}),
        );
    }
    Value::Object(shown)
}

fn shop_figures(shop: &ShopFigures) -> Map<String, Value> {
    let counted = [("users", shop.users), ("items", shop.items), ("unpaidOrders", shop.unpaid_orders)];
    let counted = counted.into_iter().filter_map(|(name, count)| Some((name, json!(count?))));
    let others = [
        ("openCheckouts", json!(shop.open_checkouts)),
        ("payment", json!(shop.payment)),
        ("stock", json!(shop.stock)),
    ];
    counted.chain(others).map(|(name, value)| (name.to_owned(), value)).collect()
}
