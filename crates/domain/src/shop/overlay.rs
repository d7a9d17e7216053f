//! The shop inside a frame: what its commands have changed so far.

use std::sync::Arc;

use holdfast_checkout::Lookup;

use super::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, Name, OrderId, OrderRow, ShopCounts, ShopEffect, Sides,
    UserId, UserRow,
};
use crate::effects::ShopRows;
use crate::ids::Millis;
use crate::overlay::Overlay;
use crate::view::{Checkouts, Items, KeyEnds, Keys, Orders, ShopSettings, ShopSize, Users};

/// Changes laid over a view. `None`: gone.
#[derive(Default)]
pub(crate) struct ShopChanges {
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

impl<V: Users + ?Sized> Users for Overlay<'_, V> {
    fn user(&self, id: &UserId) -> Option<&UserRow> {
        self.shop.users.get(id).or_else(|| self.base.user(id))
    }
}

impl<V: Items + ?Sized> Items for Overlay<'_, V> {
    fn item(&self, id: &ItemId) -> Option<&ItemRow> {
        self.shop.items.get(id).or_else(|| self.base.item(id))
    }
}

impl<V: Orders + ?Sized> Orders for Overlay<'_, V> {
    fn order(&self, id: &OrderId) -> Option<&OrderRow> {
        self.shop.orders.get(id).or_else(|| self.base.order(id))
    }
}

impl<V: Checkouts + ?Sized> Checkouts for Overlay<'_, V> {
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        match self.shop.checkouts.get(order) {
            Some(row) => row.as_ref(),
            None => self.base.checkout(order),
        }
    }

    /// Expiry comes first in a frame, and what the frame itself opens is never due in it.
    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let changed = &self.shop.checkouts;
        let mut due = self.base.due_checkouts(now, max.saturating_add(changed.len()));
        due.retain(|row| !changed.contains(&row.order));
        due.truncate(max);
        due
    }
}

impl<V: Keys + ?Sized> Keys for Overlay<'_, V> {
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        match self.shop.keys.get(key) {
            Some(row) => row.as_ref(),
            None => self.base.request_key(key),
        }
    }
}

impl<V: KeyEnds + ?Sized> KeyEnds for Overlay<'_, V> {
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let changed = &self.shop.keys;
        let mut due = self.base.due_keys(now, max.saturating_add(changed.len()));
        due.retain(|row| !changed.contains(&row.key));
        due.truncate(max);
        due
    }
}

impl<V: ShopSize + ?Sized> ShopSize for Overlay<'_, V> {
    fn shop_counts(&self) -> ShopCounts {
        let ShopCounts { users, items, orders, checkouts, keys } = self.base.shop_counts();
        let more = &self.shop.more;
        let with = |count: usize, (came, went): (usize, usize)| (count + came).saturating_sub(went);
        ShopCounts {
            users: users + more.users,
            items: items + more.items,
            orders: with(orders, more.orders),
            checkouts: with(checkouts, more.checkouts),
            keys: with(keys, more.keys),
        }
    }
}

impl<V: ShopSettings + ?Sized> ShopSettings for Overlay<'_, V> {
    fn outside(&self) -> Sides {
        self.shop.outside.unwrap_or_else(|| self.base.outside())
    }

    fn charging(&self) -> Charging {
        self.shop.charging.clone().unwrap_or_else(|| self.base.charging())
    }
}

impl<V: Users + Items + Orders + Checkouts + Keys + ?Sized> ShopRows for Overlay<'_, V> {
    fn shop_effect(&mut self, effect: &ShopEffect) {
        let base = self.base;
        match effect {
            ShopEffect::User(row) => {
                self.shop.more.users += usize::from(self.user(&row.id).is_none());
                self.shop.users.insert(row.id.clone(), row.clone());
            }
            ShopEffect::Item(row) => {
                self.shop.more.items += usize::from(self.item(&row.id).is_none());
                self.shop.items.insert(row.id.clone(), row.clone());
            }
            ShopEffect::Order(row) => {
                let id = &row.order.order_id;
                let in_memory = self.order(id).is_some_and(|before| !before.is_paid());
                self.shop.more.orders.0 += usize::from(!in_memory);
                self.shop.orders.insert(id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => {
                // A user's row is its id and its credit: nothing need be looked up.
                self.shop.users.insert(user.clone(), UserRow { id: user.clone(), credit: *credit });
            }
            ShopEffect::Stock { item, stock } => {
                let load = || base.item(item).expect("stock of an item that is there").clone();
                self.shop.items.get_or_insert_with(item, load).stock = *stock;
            }
            ShopEffect::Moved { order, state, failed } => {
                let load = || base.order(order).expect("an order that moves is there").clone();
                let row = self.shop.orders.get_or_insert_with(order, load);
                (row.order.state, row.failed) = (*state, *failed);
                self.shop.more.orders.1 += usize::from(row.is_paid());
            }
            ShopEffect::Opened(row) => {
                self.shop.more.checkouts.0 += usize::from(self.checkout(&row.order).is_none());
                self.shop.checkouts.insert(row.order.clone(), Some(Arc::clone(row)));
            }
            ShopEffect::Closed(end) => {
                self.shop.more.checkouts.1 += 1;
                self.shop.checkouts.insert(end.order.clone(), None);
            }
            ShopEffect::KeyPut(row) => {
                self.shop.more.keys.0 += usize::from(self.request_key(&row.key).is_none());
                self.shop.keys.insert(row.key.clone(), Some(Arc::clone(row)));
            }
            ShopEffect::KeyEnded(key) => {
                self.shop.more.keys.1 += 1;
                self.shop.keys.insert(key.clone(), None);
            }
            ShopEffect::Outside(outside) => self.shop.outside = Some(*outside),
            ShopEffect::Charging(charging) => self.shop.charging = Some(charging.clone()),
        }
    }
}
