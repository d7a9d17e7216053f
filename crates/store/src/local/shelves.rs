//! The shop in memory: users, items, orders that are not paid, open checkouts, idempotency keys. A paid order lies in the
//! archive, under its id and the number of its life: an init may put a new order in the place of a paid one, any number of
//! times, and which life is the newest is kept here for those ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_disk::LogId;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    Charging, CheckoutEnd, CheckoutRow, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, ShopEffect, Sides,
    UserRow,
};
use holdfast_domain::tokens::Name;

use super::slab::SlabSnapshot;
use super::table::{Named, Table};
use super::vault::Secret;

impl Named for UserRow {
    fn name(&self) -> &str {
        self.id.as_str()
    }
}

impl Named for ItemRow {
    fn name(&self) -> &str {
        self.id.as_str()
    }
}

impl Named for OrderRow {
    fn name(&self) -> &str {
        self.order.order_id.as_str()
    }
}

impl Named for Arc<CheckoutRow> {
    fn name(&self) -> &str {
        self.order.as_str()
    }
}

impl Named for Arc<KeyRow> {
    fn name(&self) -> &str {
        &self.key
    }
}

/// The newest life of an id whose order was paid and made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) order: OrderId,
    pub(super) life: u32,
}

impl Named for Life {
    fn name(&self) -> &str {
        self.order.as_str()
    }
}

pub(super) struct Shelves {
    pub(super) users: Table<UserRow>,
    pub(super) items: Table<ItemRow>,
    pub(super) orders: Table<OrderRow>,
    pub(super) lives: Table<Life>,
    pub(super) checkouts: Table<Arc<CheckoutRow>>,
    pub(super) keys: Table<Arc<KeyRow>>,
    pub(super) outside: Sides,
    pub(super) charging: Charging,
    /// Open checkouts by their age.
    by_start: BTreeMap<u64, OrderId>,
    /// Those that are not decided, by their deadline.
    deadlines: BTreeSet<(Millis, u64)>,
    /// Keys by the end of their time.
    ends: BTreeSet<(Millis, Name)>,
}

/// The rows as they stood at one moment, for a checkpoint.
pub(super) struct ShelvesSnapshot {
    pub(super) users: SlabSnapshot<UserRow>,
    pub(super) items: SlabSnapshot<ItemRow>,
    pub(super) orders: SlabSnapshot<OrderRow>,
    pub(super) lives: SlabSnapshot<Life>,
    pub(super) checkouts: SlabSnapshot<Arc<CheckoutRow>>,
    pub(super) keys: SlabSnapshot<Arc<KeyRow>>,
    pub(super) outside: Sides,
    pub(super) charging: Charging,
}

impl Shelves {
    pub(super) fn new(log_id: LogId) -> Shelves {
        let secret = Secret::of(log_id);
        Shelves {
            users: Table::new(secret),
            items: Table::new(secret),
            orders: Table::new(secret),
            lives: Table::new(secret),
            checkouts: Table::new(secret),
            keys: Table::new(secret),
            outside: Sides::NONE,
            charging: Charging::Credit,
            by_start: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ends: BTreeSet::new(),
        }
    }

    /// Changes the rows. An order that this pays is taken out and given back: it belongs to the archive.
    pub(super) fn change(&mut self, effect: &ShopEffect) -> Option<OrderRow> {
        match effect {
            ShopEffect::User(row) => drop(self.users.put(row.clone())),
            ShopEffect::Item(row) => drop(self.items.put(row.clone())),
            ShopEffect::Order(row) => self.put_order(OrderRow::clone(row)),
            ShopEffect::Credit { user, credit } => {
                self.users.get_mut(user.as_str()).expect("credit of a user that is there").credit = *credit;
            }
            ShopEffect::Stock { item, stock } => {
                self.items.get_mut(item.as_str()).expect("stock of an item that is there").stock = *stock;
            }
            ShopEffect::Moved { order, state, failed } => {
                let is_paid = matches!(state, holdfast_domain::shop::OrderState::Paid(_));
                if is_paid {
                    let mut row = self.orders.remove(order.as_str()).expect("an order that is paid is there");
                    (row.order.state, row.failed) = (*state, *failed);
                    return Some(row);
                }
                let row = self.orders.get_mut(order.as_str()).expect("an order that moves is there");
                (row.order.state, row.failed) = (*state, *failed);
            }
            ShopEffect::Opened(row) => self.open(Arc::clone(row)),
            ShopEffect::Closed(CheckoutEnd { order, .. }) => {
                let row = self.checkouts.remove(order.as_str()).expect("a checkout that ends is open");
                self.by_start.remove(&row.start);
                self.deadlines.remove(&(row.deadline, row.start));
            }
            ShopEffect::KeyPut(row) => self.put_key(Arc::clone(row)),
            ShopEffect::KeyEnded(key) => {
                let row = self.keys.remove(key).expect("a key that ends is there");
                self.ends.remove(&(row.ends_at, row.key.clone()));
            }
            ShopEffect::Outside(outside) => self.outside = *outside,
            ShopEffect::Charging(charging) => self.charging = charging.clone(),
        }
        None
    }

    pub(super) fn put_order(&mut self, row: OrderRow) {
        if row.life > 0 {
            self.lives.put(Life { order: row.order.order_id.clone(), life: row.life });
        }
        self.orders.put(row);
    }

    /// The life of the newest order of that id that was paid, if one was.
    pub(super) fn life(&self, order: &str) -> u32 {
        self.lives.get(order).map_or(0, |row| row.life)
    }

    pub(super) fn open(&mut self, row: Arc<CheckoutRow>) {
        self.by_start.insert(row.start, row.order.clone());
        let pending = row.undo.is_none().then_some((row.deadline, row.start));
        if let Some(before) = self.checkouts.put(row) {
            self.deadlines.remove(&(before.deadline, before.start));
        }
        self.deadlines.extend(pending);
    }

    pub(super) fn put_key(&mut self, row: Arc<KeyRow>) {
        self.ends.insert((row.ends_at, row.key.clone()));
        let now = row.ends_at;
        if let Some(before) = self.keys.put(row).filter(|before| before.ends_at != now) {
            self.ends.remove(&(before.ends_at, before.key.clone()));
        }
    }

    fn started(&self, start: u64) -> Arc<CheckoutRow> {
        let order = self.by_start.get(&start).expect("indexed");
        Arc::clone(self.checkouts.get(order.as_str()).expect("indexed"))
    }

    pub(super) fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let due = self.deadlines.range(..(now, 0)).take(max);
        due.map(|(_, start)| self.started(*start)).collect()
    }

    pub(super) fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let due = self.ends.iter().take_while(|(ends_at, _)| *ends_at <= now).take(max);
        due.map(|(_, key)| Arc::clone(self.keys.get(key).expect("indexed"))).collect()
    }

    /// Nothing is due at this instant or before.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let key = self.ends.first().map(|(ends_at, _)| ends_at.saturating_sub(1));
        self.deadlines.first().map(|(deadline, _)| *deadline).into_iter().chain(key).min()
    }

    pub(super) fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = (after.map_or(Unbounded, Excluded), Unbounded);
        self.by_start.range(from).take(max).map(|(start, _)| self.started(*start)).collect()
    }

    pub(super) fn counts(&self) -> ShopCounts {
        ShopCounts {
            users: self.users.len(),
            items: self.items.len(),
            orders: self.orders.len(),
            checkouts: self.checkouts.len(),
            keys: self.keys.len(),
        }
    }

    pub(super) fn snapshot(&self) -> ShelvesSnapshot {
        ShelvesSnapshot {
            users: self.users.snapshot(),
            items: self.items.snapshot(),
            orders: self.orders.snapshot(),
            lives: self.lives.snapshot(),
            checkouts: self.checkouts.snapshot(),
            keys: self.keys.snapshot(),
            outside: self.outside,
            charging: self.charging.clone(),
        }
    }
}
