//! What the hub has done since its log began, and what it holds now.

use holdfast_domain::ids::Millis;
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::{ShopSettings, ShopSize, TransferNumbers};
use holdfast_domain::views::Stats;
use holdfast_engine::{Figures, LogFigures, ShopFigures};
use holdfast_store::{LocalStore, Tables};

use crate::core::Core;

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
        participants: store.books().participants().len() as u64,
        accounts: store.books().accounts().len() as u64,
        dead_letters: counts.dead_letters,
        limit_alarms: Some(counts.alarms),
    };
    let log = LogFigures {
        frames: counts.frames,
        records: counts.records,
        end: core.end(),
        last_time: core.last_time(),
        chain: core.chain(),
    };
    Figures { stats, node: None, shop: Some(shop(store)), log: Some(log) }
}

fn shop(store: &(impl ShopSize + ShopSettings)) -> ShopFigures {
    let (counts, outside) = (store.shop_counts(), store.outside());
    ShopFigures {
        users: Some(counts.users as u64),
        items: Some(counts.items as u64),
        unpaid_orders: Some(counts.orders as u64),
        open_checkouts: counts.checkouts as u64,
        payment: if outside.pay { "outside" } else { store.charging().name() },
        stock: if outside.stock { "outside" } else { "inside" },
    }
}
