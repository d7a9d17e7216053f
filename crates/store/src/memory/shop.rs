//! The shop of the plain store: everything in sorted maps for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::effects::ShopRows;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, ShopEffect, Sides, UserId,
    UserRow,
};
use holdfast_domain::tokens::Name;
use holdfast_domain::view::{Checkouts, Items, KeyEnds, Keys, Orders, ShopSettings, ShopSize, Users};

use super::MemoryStore;

#[derive(Default)]
pub(super) struct PlainShop {
    pub(super) users: BTreeMap<UserId, UserRow>,
    pub(super) items: BTreeMap<ItemId, ItemRow>,
    pub(super) orders: BTreeMap<OrderId, OrderRow>,
    pub(super) checkouts: BTreeMap<OrderId, Arc<CheckoutRow>>,
    keys: BTreeMap<Name, Arc<KeyRow>>,
    outside: Sides,
    charging: Charging,
}

impl PlainShop {
    fn undecided(&self) -> impl Iterator<Item = &Arc<CheckoutRow>> {
        self.checkouts.values().filter(|row| row.undo.is_none())
    }

    pub(super) fn unpaid(&self) -> impl Iterator<Item = &OrderRow> {
        self.orders.values().filter(|row| !row.is_paid())
    }

    /// Nothing is due at this instant or before.
    pub(super) fn next_due(&self) -> Option<Millis> {
        let keys = self.keys.values().map(|row| row.ends_at.saturating_sub(1));
        self.undecided().map(|row| row.deadline).chain(keys).min()
    }
}

impl Users for MemoryStore {
    fn user(&self, id: &UserId) -> Option<&UserRow> {
        self.shop.users.get(id)
    }
}

impl Items for MemoryStore {
    fn item(&self, id: &ItemId) -> Option<&ItemRow> {
        self.shop.items.get(id)
    }
}

impl Orders for MemoryStore {
    fn order(&self, id: &OrderId) -> Option<&OrderRow> {
        self.shop.orders.get(id)
    }
}

impl Checkouts for MemoryStore {
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        self.shop.checkouts.get(order)
    }

    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let mut due: Vec<_> = self.shop.undecided().filter(|row| row.deadline < now).cloned().collect();
        due.sort_unstable_by_key(|row| (row.deadline, row.start));
        due.truncate(max);
        due
    }
}

impl Keys for MemoryStore {
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        self.shop.keys.get(key)
    }
}

impl KeyEnds for MemoryStore {
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let mut due: Vec<_> = self.shop.keys.values().filter(|row| row.ends_at <= now).cloned().collect();
        due.sort_by(|one, other| (one.ends_at, &one.key).cmp(&(other.ends_at, &other.key)));
        due.truncate(max);
        due
    }
}

impl ShopSettings for MemoryStore {
    fn outside(&self) -> Sides {
        self.shop.outside
    }

    fn charging(&self) -> Charging {
        self.shop.charging.clone()
    }
}

impl ShopSize for MemoryStore {
    fn shop_counts(&self) -> ShopCounts {
        ShopCounts {
            users: self.shop.users.len(),
            items: self.shop.items.len(),
            orders: self.shop.unpaid().count(),
            checkouts: self.shop.checkouts.len(),
            keys: self.shop.keys.len(),
        }
    }
}

impl ShopRows for MemoryStore {
    fn shop_effect(&mut self, effect: &ShopEffect) {
        let shop = &mut self.shop;
        match effect {
            ShopEffect::User(row) => drop(shop.users.insert(row.id.clone(), row.clone())),
            ShopEffect::Item(row) => drop(shop.items.insert(row.id.clone(), row.clone())),
            ShopEffect::Order(row) => {
                shop.orders.insert(row.order.order_id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => {
                shop.users.get_mut(user).expect("credit of a user that is there").credit = *credit;
            }
            ShopEffect::Stock { item, stock } => {
                shop.items.get_mut(item).expect("stock of an item that is there").stock = *stock;
            }
            ShopEffect::Moved { order, state, failed } => {
                let row = shop.orders.get_mut(order).expect("an order that moves is there");
                (row.order.state, row.failed) = (*state, *failed);
            }
            ShopEffect::Opened(row) => drop(shop.checkouts.insert(row.order.clone(), Arc::clone(row))),
            ShopEffect::Closed(end) => {
                shop.checkouts.remove(&end.order).expect("a checkout that ends is open");
            }
            ShopEffect::KeyPut(row) => drop(shop.keys.insert(row.key.clone(), Arc::clone(row))),
            ShopEffect::KeyEnded(key) => drop(shop.keys.remove(key).expect("a key that ends is there")),
            ShopEffect::Outside(outside) => shop.outside = *outside,
            ShopEffect::Charging(charging) => shop.charging = charging.clone(),
        }
    }
}
