//! `GET /hub/stats`: what the hub has done since its log began, and what it holds now.

use axum::Json;
use axum::extract::State;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Charging, ShopView, Side, Sides};
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::View;
use holdfast_store::Store;
use serde_json::{Map, Value, json};

use crate::calls::ask;
use crate::error::ApiError;
use crate::{Edge, times};

pub(crate) async fn stats(State(edge): State<Edge>) -> Result<Json<Value>, ApiError> {
    let answer = ask(&edge, |core| {
        let (store, counts) = (core.store(), core.counts());
        // The index by itself only tells the second in which the next hold runs out.
        let first = store.holds(Millis::MAX, None, 1).into_iter().next();
        let reached: Map<String, Value> = TransferState::ALL
            .into_iter()
            .map(|state| (state.name().to_owned(), json!(counts.reached(state))))
            .collect();
        json!({
            "transfers": store.next_transfer().0,
            "openHolds": store.open_holds(),
            "nextExpiration": first.map(|row| times::format(row.expiration)),
            "reachedState": reached,
            "participants": store.participants().len(),
            "accounts": store.accounts().len(),
            "deadLetters": counts.dead_letters,
            "limitAlarms": counts.alarms,
            "shop": shop(store),
            "log": {
                "frames": counts.frames,
                "records": counts.records,
                "end": core.end(),
                "lastTime": times::format(core.last_time()),
                "chain": hex(&core.chain()),
            },
        })
    });
    answer.await.map(Json)
}

/// What the shop holds, what its checkouts charge and where they take stock.
fn shop(store: &impl ShopView) -> Value {
    let (counts, outside) = (store.shop_counts(), store.outside());
    json!({
        "users": counts.users,
        "items": counts.items,
        "unpaidOrders": counts.orders,
        "openCheckouts": counts.checkouts,
        "payment": charged(outside, &store.charging()),
        "stock": if outside.has(Side::Stock) { "outside" } else { "inside" },
    })
}

const fn charged(outside: Sides, charging: &Charging) -> &'static str {
    match charging {
        _ if outside.pay => "outside",
        Charging::Credit => "credit",
        Charging::Transfers(_) => "positions",
        Charging::Tokens(_) => "tokens",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
