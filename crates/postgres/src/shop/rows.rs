//! The rows of the shop that a transaction has loaded, as decisions read and change them. What was changed is remembered, and
//! whether it was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_checkout::coordinator::{Orders, Remembered};
use holdfast_checkout::participant::Forward;
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::{
    CheckoutEnd, CheckoutRow, ItemId, ItemRow, KeyRow, Order, OrderId, OrderRow, ShopCounts, ShopEffect,
    Side, SideSaid, TrNum, TryKey, UserId, UserRow,
};
use holdfast_domain::tokens::Name;
use holdfast_domain::view::{self, Checkouts, Keys, ShopSize, Users};
use holdfast_messages::TraceId;

/// Rows of one table.
pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    stored: BTreeSet<K>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { rows: BTreeMap::new(), stored: BTreeSet::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// A row as it lies in the database.
    pub(super) fn load(&mut self, key: K, row: V) {
        self.stored.insert(key.clone());
        self.rows.insert(key, row);
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.rows.get(key)
    }

    fn put(&mut self, key: K, row: V) {
        self.changed.insert(key.clone());
        self.rows.insert(key, row);
    }

    fn touch(&mut self, key: &K) {
        self.changed.insert(key.clone());
    }

    fn change(&mut self, key: &K) -> &mut V {
        self.changed.insert(key.clone());
        self.rows.get_mut(key).expect("a change names a row that was loaded")
    }

    fn written(&self, stored: bool) -> Vec<&V> {
        let wanted = self.changed.iter().filter(|key| self.stored.contains(key) == stored);
        wanted.filter_map(|key| self.rows.get(key)).collect()
    }

    /// Rows that are new, in their order.
    pub(super) fn added(&self) -> Vec<&V> {
        self.written(false)
    }

    /// Rows that were there and are others now, in their order.
    pub(super) fn updated(&self) -> Vec<&V> {
        self.written(true)
    }
}

/// The shop, as far as it was loaded.
#[derive(Default)]
pub(crate) struct ShopRows {
    pub(super) users: Table<UserId, UserRow>,
    pub(super) items: Table<ItemId, ItemRow>,
    pub(super) orders: Table<OrderId, OrderRow>,
    /// The command that began the last try of an order: should it come again, it begins no other.
    pub(super) started_by: BTreeMap<OrderId, TraceId>,
    /// Tries that this transaction began.
    pub(super) began: BTreeSet<(OrderId, TrNum)>,
    pub(super) checkouts: BTreeMap<OrderId, Arc<CheckoutRow>>,
    /// Tries that came to their end.
    pub(super) ended: Vec<CheckoutEnd>,
    pub(super) keys: Table<Name, Arc<KeyRow>>,
    /// Tries that both sides have taken for, and whose charge could not be settled: they fail.
    pub(super) unsettled: BTreeSet<TryKey>,
    /// How many checkouts are open in all, where that matters.
    pub(super) open_count: usize,
}

impl ShopRows {
    pub(crate) fn order_row(&self, id: &OrderId) -> Option<&OrderRow> {
        self.orders.get(id)
    }

    /// What the row of an open try remembers of a side.
    pub(super) fn said(&self, key: &TryKey, side: Side) -> Option<SideSaid> {
        let open = self.checkouts.get(&key.order_id).filter(|open| open.tr == key.tr_num)?;
        open.side(side).said
    }

    /// Takes over what a decision has changed.
    pub(crate) fn apply(&mut self, effects: &Effects) {
        effects.all(|step| &step.shop).for_each(|effect| self.change(effect));
    }

    pub(super) fn change(&mut self, effect: &ShopEffect) {
        match effect {
            ShopEffect::User(row) => self.users.put(row.id.clone(), row.clone()),
            ShopEffect::Item(row) => self.items.put(row.id.clone(), row.clone()),
            ShopEffect::Order(row) => {
                self.orders.put(row.order.order_id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => self.users.change(user).credit = *credit,
            ShopEffect::Stock { item, stock } => self.items.change(item).stock = *stock,
            ShopEffect::Moved { order, state, failed } => {
                let row = self.orders.change(order);
                (row.order.state, row.failed) = (*state, *failed);
            }
            ShopEffect::Opened(row) => {
                self.orders.touch(&row.order);
                self.checkouts.insert(row.order.clone(), Arc::clone(row));
            }
            ShopEffect::Closed(end) => {
                self.orders.touch(&end.order);
                self.checkouts.remove(&end.order);
                self.ended.push(end.clone());
            }
            ShopEffect::KeyPut(row) => self.keys.put(Name::clone(&row.key), Arc::clone(row)),
            ShopEffect::KeyEnded(_) | ShopEffect::Outside(_) | ShopEffect::Charging(_) => {
                unreachable!("nothing that is decided here does this")
            }
        }
    }
}

impl Users for ShopRows {
    fn user(&self, id: &UserId) -> Option<&UserRow> {
        self.users.get(id)
    }
}

impl view::Items for ShopRows {
    fn item(&self, id: &ItemId) -> Option<&ItemRow> {
        self.items.get(id)
    }
}

impl view::Orders for ShopRows {
    fn order(&self, id: &OrderId) -> Option<&OrderRow> {
        self.order_row(id)
    }
}

impl Checkouts for ShopRows {
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        self.checkouts.get(order)
    }

    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let due = self.checkouts.values().filter(|row| row.undo.is_none() && row.deadline < now);
        let mut due: Vec<Arc<CheckoutRow>> = due.map(Arc::clone).collect();
        due.sort_by(|one, other| (one.deadline, &one.order).cmp(&(other.deadline, &other.order)));
        due.truncate(max);
        due
    }
}

impl Keys for ShopRows {
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        self.keys.get(key)
    }
}

impl ShopSize for ShopRows {
    /// What lies in tables has no bounds of memory, so only what is open counts.
    fn shop_counts(&self) -> ShopCounts {
        ShopCounts { checkouts: self.open_count, ..ShopCounts::default() }
    }
}

impl Orders for ShopRows {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        self.orders.get(id).map(|row| &row.order)
    }

    fn is_settled(&self, key: &TryKey) -> bool {
        !self.unsettled.contains(key)
    }

    fn remembered(&self, key: &TryKey) -> Remembered {
        let said = |side| {
            self.said(key, side).map(|said| match said {
                SideSaid::Taken => Forward::Taken(()),
                SideSaid::Refused => Forward::Refused(()),
            })
        };
        Remembered { pay: said(Side::Pay), stock: said(Side::Stock) }
    }
}
