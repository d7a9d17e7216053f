//! The shop of the plain store: everything in sorted maps for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, ShopEffect, Sides, UserId,
    UserRow,
};
use holdfast_domain::tokens::Name;

#[derive(Default)]
pub(crate) struct PlainShop {
    pub(crate) users: BTreeMap<UserId, UserRow>,
    pub(crate) items: BTreeMap<ItemId, ItemRow>,
    pub(crate) orders: BTreeMap<OrderId, OrderRow>,
    pub(crate) checkouts: BTreeMap<OrderId, Arc<CheckoutRow>>,
    pub(crate) keys: BTreeMap<Name, Arc<KeyRow>>,
    pub(crate) outside: Sides,
    pub(crate) charging: Charging,
}

impl PlainShop {
    fn undecided(&self) -> impl Iterator<Item = &Arc<CheckoutRow>> {
        self.checkouts.values().filter(|row| row.undo.is_none())
    }

    pub(crate) fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let mut due: Vec<_> = self.undecided().filter(|row| row.deadline < now).cloned().collect();
        due.sort_unstable_by_key(|row| (row.deadline, row.start));
        due.truncate(max);
        due
    }

    pub(crate) fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let mut due: Vec<_> = self.keys.values().filter(|row| row.ends_at <= now).cloned().collect();
        due.sort_by(|one, other| (one.ends_at, &one.key).cmp(&(other.ends_at, &other.key)));
        due.truncate(max);
        due
    }

    /// Nothing is due at this instant or before.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        let keys = self.keys.values().map(|row| row.ends_at.saturating_sub(1));
        self.undecided().map(|row| row.deadline).chain(keys).min()
    }

    pub(crate) fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>> {
        let mut open: Vec<_> = self
            .checkouts
            .values()
            .filter(|row| after.is_none_or(|after| row.start > after))
            .cloned()
            .collect();
        open.sort_unstable_by_key(|row| row.start);
        open.truncate(max);
        open
    }

    pub(crate) fn counts(&self) -> ShopCounts {
        ShopCounts {
            users: self.users.len(),
            items: self.items.len(),
            orders: self.orders.values().filter(|row| !row.is_paid()).count(),
            checkouts: self.checkouts.len(),
            keys: self.keys.len(),
        }
    }

    pub(crate) fn change(&mut self, effect: &ShopEffect) {
        match effect {
            ShopEffect::User(row) => drop(self.users.insert(row.id.clone(), row.clone())),
            ShopEffect::Item(row) => drop(self.items.insert(row.id.clone(), row.clone())),
            ShopEffect::Order(row) => {
                self.orders.insert(row.order.order_id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => {
                self.users.get_mut(user).expect("credit of a user that is there").credit = *credit;
            }
            ShopEffect::Stock { item, stock } => {
                self.items.get_mut(item).expect("stock of an item that is there").stock = *stock;
            }
            ShopEffect::Moved { order, state, failed } => {
                let row = self.orders.get_mut(order).expect("an order that moves is there");
                (row.order.state, row.failed) = (*state, *failed);
            }
            ShopEffect::Opened(row) => drop(self.checkouts.insert(row.order.clone(), Arc::clone(row))),
            ShopEffect::Closed(end) => {
                self.checkouts.remove(&end.order).expect("a checkout that ends is open");
            }
            ShopEffect::KeyPut(row) => drop(self.keys.insert(row.key.clone(), Arc::clone(row))),
            ShopEffect::KeyEnded(key) => drop(self.keys.remove(key).expect("a key that ends is there")),
            ShopEffect::Outside(outside) => self.outside = *outside,
            ShopEffect::Charging(charging) => self.charging = charging.clone(),
        }
    }
}
