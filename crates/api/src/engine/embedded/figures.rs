//! What the hub has done since its log began, and what it holds now.

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{Charging, ShopView, Side, Sides};
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::View;
use holdfast_domain::views::Stats;
use holdfast_hub::Core;
use holdfast_store::{LocalStore, Store};
use serde_json::{Map, Value, json};

use super::Figures;
use crate::times;

/// The figures as they stand between two frames.
pub(super) fn of(core: &Core<LocalStore>) -> Figures {
    let (store, counts) = (core.store(), core.counts());
    // The index by itself only tells the second in which the next hold runs out.
    let first = store.holds(Millis::MAX, None, 1).into_iter().next();
    let stats = Stats {
        transfers: store.next_transfer().0,
        open_holds: store.open_holds() as u64,
        next_expiration: first.map(|row| row.expiration),
        reached: Some(TransferState::ALL.map(|state| (state, counts.reached(state))).into()),
        participants: store.participants().len() as u64,
        accounts: store.accounts().len() as u64,
        dead_letters: counts.dead_letters,
        limit_alarms: Some(counts.alarms),
    };
    let log = json!({
        "frames": counts.frames,
        "records": counts.records,
        "end": core.end(),
        "lastTime": times::format(core.last_time()),
        "chain": hex(&core.chain()),
    });
    let more = Map::from_iter([("shop".to_owned(), shop(store)), ("log".to_owned(), log)]);
    Figures { stats, more }
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
    if outside.pay { "outside" } else { charging.name() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
