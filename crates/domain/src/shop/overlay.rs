//! The shop inside a frame: what its commands have changed so far.

use std::sync::Arc;

use holdfast_checkout::Lookup;

use super::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, Name, OrderId, OrderRow, ShopCounts, ShopEffect,
    ShopView, Sides, UserId, UserRow,
};
use crate::ids::Millis;

/// Changes laid over a view. `None`: gone.
#[derive(Default)]
pub(crate) struct ShopOverlay {
    users: Lookup<UserId, UserRow>,
    items: Lookup<ItemId, ItemRow>,
    orders: Lookup<OrderId, OrderRow>,
    checkouts: Lookup<OrderId, Option<Arc<CheckoutRow>>>,
    keys: Lookup<Name, Option<Arc<KeyRow>>>,
    outside: Option<Sides>,
    charging: Option<Charging>,
    /// How many rows more there are than in the view.
    more: More,
}

#[derive(Default)]
struct More {
    users: usize,
    items: usize,
    /// Orders that were made, and those that left `not paid` for good.
    orders: (usize, usize),
    checkouts: (usize, usize),
    keys: (usize, usize),
}

impl ShopOverlay {
    pub(crate) fn user<'a>(&'a self, base: &'a impl ShopView, id: &UserId) -> Option<&'a UserRow> {
        self.users.get(id).or_else(|| base.user(id))
    }

    pub(crate) fn item<'a>(&'a self, base: &'a impl ShopView, id: &ItemId) -> Option<&'a ItemRow> {
        self.items.get(id).or_else(|| base.item(id))
    }

    pub(crate) fn order<'a>(&'a self, base: &'a impl ShopView, id: &OrderId) -> Option<&'a OrderRow> {
        self.orders.get(id).or_else(|| base.order(id))
    }

    pub(crate) fn checkout<'a>(
        &'a self,
        base: &'a impl ShopView,
        order: &OrderId,
    ) -> Option<&'a Arc<CheckoutRow>> {
        match self.checkouts.get(order) {
            Some(row) => row.as_ref(),
            None => base.checkout(order),
        }
    }

    pub(crate) fn request_key<'a>(&'a self, base: &'a impl ShopView, key: &str) -> Option<&'a Arc<KeyRow>> {
        match self.keys.get(key) {
            Some(row) => row.as_ref(),
            None => base.request_key(key),
        }
    }

    /// Expiry comes first in a frame, and what the frame itself opens is never due in it.
    pub(crate) fn due_checkouts(
        &self,
        base: &impl ShopView,
        now: Millis,
        max: usize,
    ) -> Vec<Arc<CheckoutRow>> {
        let mut due = base.due_checkouts(now, max.saturating_add(self.checkouts.len()));
        due.retain(|row| !self.checkouts.contains(&row.order));
        due.truncate(max);
        due
    }

    pub(crate) fn due_keys(&self, base: &impl ShopView, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let mut due = base.due_keys(now, max.saturating_add(self.keys.len()));
        due.retain(|row| !self.keys.contains(&row.key));
        due.truncate(max);
        due
    }

    pub(crate) fn outside(&self, base: &impl ShopView) -> Sides {
        self.outside.unwrap_or_else(|| base.outside())
    }

    pub(crate) fn charging(&self, base: &impl ShopView) -> Charging {
        self.charging.clone().unwrap_or_else(|| base.charging())
    }

    pub(crate) fn counts(&self, base: &impl ShopView) -> ShopCounts {
        let ShopCounts { users, items, orders, checkouts, keys } = base.shop_counts();
        let with = |count: usize, (came, went): (usize, usize)| (count + came).saturating_sub(went);
        ShopCounts {
            users: users + self.more.users,
            items: items + self.more.items,
            orders: with(orders, self.more.orders),
            checkouts: with(checkouts, self.more.checkouts),
            keys: with(keys, self.more.keys),
        }
    }

    pub(crate) fn change(&mut self, base: &impl ShopView, effect: &ShopEffect) {
        match effect {
            ShopEffect::User(row) => {
                self.more.users += usize::from(self.user(base, &row.id).is_none());
                self.users.insert(row.id.clone(), row.clone());
            }
            ShopEffect::Item(row) => {
                self.more.items += usize::from(self.item(base, &row.id).is_none());
                self.items.insert(row.id.clone(), row.clone());
            }
            ShopEffect::Order(row) => {
                let id = &row.order.order_id;
                let in_memory = self.order(base, id).is_some_and(|before| !before.is_paid());
                self.more.orders.0 += usize::from(!in_memory);
                self.orders.insert(id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => {
                // A user's row is its id and its credit: nothing need be looked up.
                self.users.insert(user.clone(), UserRow { id: user.clone(), credit: *credit });
            }
            ShopEffect::Stock { item, stock } => {
                let load = || base.item(item).expect("stock of an item that is there").clone();
                self.items.get_or_insert_with(item, load).stock = *stock;
            }
            ShopEffect::Moved { order, state, failed } => {
                let load = || base.order(order).expect("an order that moves is there").clone();
                let row = self.orders.get_or_insert_with(order, load);
                (row.order.state, row.failed) = (*state, *failed);
                self.more.orders.1 += usize::from(row.is_paid());
            }
            ShopEffect::Opened(row) => {
                self.more.checkouts.0 += usize::from(self.checkout(base, &row.order).is_none());
                self.checkouts.insert(row.order.clone(), Some(Arc::clone(row)));
            }
            ShopEffect::Closed(end) => {
                self.more.checkouts.1 += 1;
                self.checkouts.insert(end.order.clone(), None);
            }
            ShopEffect::KeyPut(row) => {
                self.more.keys.0 += usize::from(self.request_key(base, &row.key).is_none());
                self.keys.insert(row.key.clone(), Some(Arc::clone(row)));
            }
            ShopEffect::KeyEnded(key) => {
                self.more.keys.1 += 1;
                self.keys.insert(key.clone(), None);
            }
            ShopEffect::Outside(outside) => self.outside = Some(*outside),
            ShopEffect::Charging(charging) => self.charging = Some(charging.clone()),
        }
    }
}
