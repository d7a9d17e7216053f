//! The simplest store there is: every row in a map, written by effects and read by decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::command::SetEndpoint;
use holdfast_domain::effects::{PaymentRows, ShopRows, TokenRows};
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, ShopEffect, Sides, UserId,
    UserRow,
};
use holdfast_domain::tokens::{LockRow, SpendRow, TokenEffect, TokenId, TokenRow, TokenView};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::{
    Accounts, Checkouts, Funds, Holds, Items, KeyEnds, Keys, Leases, Orders, ParticipantNumbers,
    Participants, ShopSettings, ShopSize, Spenders, Spends, Tokens, TransferNumbers, Transfers, Users,
};

/// All rows, and the index of what may expire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub transfers: BTreeMap<TransferNo, Transfer>,
    pub participants: BTreeMap<ParticipantId, Participant>,
    pub accounts: BTreeMap<AccountId, Account>,
    pub funds: BTreeMap<TransferId, FundsMovement>,
    pub holds: BTreeSet<(Millis, TransferNo)>,
    pub endpoints: BTreeMap<(ParticipantId, String), String>,
    pub tokens: BTreeMap<TokenId, TokenRow>,
    pub consumed: BTreeSet<TokenId>,
    pub locks: BTreeMap<String, Arc<LockRow>>,
    pub spends: BTreeMap<String, Arc<SpendRow>>,
    pub users: BTreeMap<UserId, UserRow>,
    pub items: BTreeMap<ItemId, ItemRow>,
    pub orders: BTreeMap<OrderId, OrderRow>,
    pub checkouts: BTreeMap<OrderId, Arc<CheckoutRow>>,
    pub keys: BTreeMap<String, Arc<KeyRow>>,
    pub outside: Sides,
    pub charging: Charging,
}

/// Tables of which a decision reads nothing but a row by its key.
macro_rules! tables {
    ($($table:ident: $trait:ident has $row:ident($id:ident: $key:ty) by $by:expr => $value:ty;)+) => {
        $(
            impl $trait for Memory {
                fn $row(&self, $id: $key) -> Option<&$value> {
                    self.$table.get($by)
                }
            }
        )+
    };
}

tables! {
    accounts: Accounts has account(id: AccountId) by &id => Account;
    funds: Funds has funds(id: TransferId) by &id => FundsMovement;
    users: Users has user(id: &UserId) by id => UserRow;
    items: Items has item(id: &ItemId) by id => ItemRow;
    orders: Orders has order(id: &OrderId) by id => OrderRow;
    keys: Keys has request_key(key: &str) by key => Arc<KeyRow>;
}

/// The first of these rows, at most so many.
fn first<'a, R: 'a, K: Ord>(
    rows: impl Iterator<Item = &'a Arc<R>>,
    max: usize,
    key: impl Fn(&R) -> K,
) -> Vec<Arc<R>> {
    let mut rows: Vec<Arc<R>> = rows.cloned().collect();
    rows.sort_by_key(|row| key(row));
    rows.truncate(max);
    rows
}

impl Transfers for Memory {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.transfers.values().find(|row| row.id == id)
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(&no)
    }
}

impl TransferNumbers for Memory {
    fn next_transfer(&self) -> TransferNo {
        TransferNo(self.transfers.len() as u64)
    }
}

impl Holds for Memory {
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        self.holds.iter().filter(|(expiration, _)| *expiration < now).take(max).map(|(_, no)| *no).collect()
    }
}

impl Participants for Memory {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(&id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participants.values().find(|row| row.name.as_str().eq_ignore_ascii_case(name.as_str()))
    }
}

impl ParticipantNumbers for Memory {
    fn next_participant(&self) -> ParticipantId {
        ParticipantId(self.participants.last_key_value().map_or(1, |(last, _)| last.0 + 1))
    }

    fn next_account(&self) -> AccountId {
        AccountId(self.accounts.last_key_value().map_or(1, |(last, _)| last.0 + 1))
    }
}

impl Tokens for Memory {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.tokens.get(id).map(TokenRow::view)
    }
}

impl Spenders for Memory {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.locks.get(spender)
    }

    fn has_spent(&self, spender: &str) -> bool {
        self.spends.contains_key(spender)
    }
}

impl Spends for Memory {
    fn is_consumed(&self, id: &TokenId) -> bool {
        self.consumed.contains(id)
    }

    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.spends.get(spender)
    }
}

impl Leases for Memory {
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let due = self.locks.values().filter(|row| row.expires_at <= now);
        first(due, max, |row| (row.expires_at, row.fence))
    }
}

impl Checkouts for Memory {
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        self.checkouts.get(order)
    }

    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        let due = self.checkouts.values().filter(|row| row.undo.is_none() && row.deadline < now);
        first(due, max, |row| (row.deadline, row.start))
    }
}

impl KeyEnds for Memory {
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        let due = self.keys.values().filter(|row| row.ends_at <= now);
        first(due, max, |row| (row.ends_at, row.key.clone()))
    }
}

impl ShopSettings for Memory {
    fn outside(&self) -> Sides {
        self.outside
    }

    fn charging(&self) -> Charging {
        self.charging.clone()
    }
}

impl ShopSize for Memory {
    fn shop_counts(&self) -> ShopCounts {
        ShopCounts {
            users: self.users.len(),
            items: self.items.len(),
            orders: self.orders.values().filter(|row| !row.is_paid()).count(),
            checkouts: self.checkouts.len(),
            keys: self.keys.len(),
        }
    }
}

impl PaymentRows for Memory {
    fn put_participant(&mut self, row: &Participant) {
        self.participants.insert(row.id, row.clone());
    }

    fn put_account(&mut self, row: &Account) {
        self.accounts.insert(row.id, *row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.funds.insert(row.id, *row);
    }

    fn put_endpoint(&mut self, row: &SetEndpoint) {
        self.endpoints.insert((row.participant(), row.kind().to_owned()), row.value().to_owned());
    }

    fn add_transfer(&mut self, row: &Transfer) {
        assert_eq!(row.no, self.next_transfer(), "numbers are dense");
        assert!(self.transfer(row.id).is_none(), "a transfer is added once");
        self.transfers.insert(row.no, row.clone());
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.transfers.get_mut(&no).expect("a change names a transfer that exists")
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        self.accounts.get_mut(&id).expect("a change names an account that exists")
    }

    fn hold_opened(&mut self, no: TransferNo) {
        let expiration = self.transfers[&no].expiration;
        assert!(self.holds.insert((expiration, no)), "a hold is opened once");
    }

    fn hold_closed(&mut self, no: TransferNo) {
        let expiration = self.transfers[&no].expiration;
        assert!(self.holds.remove(&(expiration, no)), "a hold is closed once");
    }
}

impl TokenRows for Memory {
    /// Stricter than a store needs to be: an effect that does not fit what is there is a fault of the decision.
    fn token_effect(&mut self, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => {
                assert!(!self.consumed.contains(&token.id), "{} lives again", token.id);
                let row = TokenRow { token: token.clone(), holder: None };
                assert!(self.tokens.insert(token.id.clone(), row).is_none(), "{} lives twice", token.id);
            }
            TokenEffect::Consumed(id) => {
                let row = self.tokens.remove(id);
                assert!(row.is_none_or(|row| row.holder.is_none()), "{id} went while it was locked");
                assert!(self.consumed.insert(id.clone()), "{id} is consumed twice");
            }
            TokenEffect::Locked(lock) => {
                for id in lock.tokens.iter() {
                    let row = self.tokens.get_mut(id).expect("what is locked lives");
                    assert_eq!(row.holder, None, "{id} is locked twice");
                    row.holder = Some(lock.spender.clone());
                }
                let before = self.locks.insert(lock.spender.to_string(), Arc::clone(lock));
                assert_eq!(before, None, "a spender has one lock");
            }
            TokenEffect::Unlocked { spender, fence } => {
                let lock = self.locks.remove(&**spender).expect("a lock that ends is there");
                assert_eq!(lock.fence, *fence);
                for id in lock.tokens.iter() {
                    // Those that are gone already are not asked for.
                    let Some(row) = self.tokens.get_mut(id) else { continue };
                    assert_eq!(row.holder.as_ref(), Some(spender), "{id} was under its lock");
                    row.holder = None;
                }
            }
            TokenEffect::Renewed(row) => {
                let LockRow { spender, fence, expires_at, .. } = &**row;
                let lock = self.locks.get_mut(&**spender).expect("a lock that is renewed is there");
                assert_eq!(lock.fence, *fence);
                Arc::make_mut(lock).expires_at = *expires_at;
            }
            TokenEffect::Spent(row) => {
                let before = self.spends.insert(row.transaction.spender.to_string(), Arc::clone(row));
                assert_eq!(before, None, "a spender spends once");
            }
        }
    }
}

impl ShopRows for Memory {
    fn shop_effect(&mut self, effect: &ShopEffect) {
        match effect {
            ShopEffect::User(row) => drop(self.users.insert(row.id.clone(), row.clone())),
            ShopEffect::Item(row) => drop(self.items.insert(row.id.clone(), row.clone())),
            ShopEffect::Order(row) => {
                self.orders.insert(row.order.order_id.clone(), OrderRow::clone(row));
            }
            ShopEffect::Credit { user, credit } => self.users.get_mut(user).unwrap().credit = *credit,
            ShopEffect::Stock { item, stock } => self.items.get_mut(item).unwrap().stock = *stock,
            ShopEffect::Moved { order, state, failed } => {
                let row = self.orders.get_mut(order).unwrap();
                (row.order.state, row.failed) = (*state, *failed);
            }
            ShopEffect::Opened(row) => drop(self.checkouts.insert(row.order.clone(), Arc::clone(row))),
            ShopEffect::Closed(end) => assert!(self.checkouts.remove(&end.order).is_some()),
            ShopEffect::KeyPut(row) => drop(self.keys.insert(row.key.to_string(), Arc::clone(row))),
            ShopEffect::KeyEnded(key) => assert!(self.keys.remove(&**key).is_some()),
            ShopEffect::Outside(outside) => self.outside = *outside,
            ShopEffect::Charging(charging) => self.charging = charging.clone(),
        }
    }
}
