//! The rows that a batch names, as the domain reads and changes them.

use std::sync::Arc;

use foldhash::fast::RandomState;
use holdfast_domain::command::SetEndpoint;
use holdfast_domain::effects::Rows;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::shop::{
    Charging, CheckoutRow, ItemId, ItemRow, KeyRow, OrderId, OrderRow, ShopCounts, ShopEffect, ShopView,
    Sides, UserId, UserRow,
};
use holdfast_domain::tokens::{LockRow, SpendRow, TokenEffect, TokenId, TokenRow, TokenView};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

use crate::shop::ShopRows;
use crate::tokens::Pledged;

type Map<K, V> = hashbrown::HashMap<K, V, RandomState>;

/// The part of the state that was locked and loaded.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) transfers: Map<TransferNo, Transfer>,
    pub(crate) ids: Map<TransferId, TransferNo>,
    pub(crate) participants: Map<ParticipantId, Participant>,
    pub(crate) accounts: Map<AccountId, Account>,
    /// How many change rows each account has.
    pub(crate) changes: Map<AccountId, i64>,
    pub(crate) funds: Map<TransferId, FundsMovement>,
    pub(crate) next_transfer: u64,
    pub(crate) next_participant: u32,
    pub(crate) next_account: u32,
    /// Holds that began and ended since loading.
    pub(crate) opened: Vec<TransferNo>,
    pub(crate) closed: Vec<TransferNo>,
    /// Tokens that pay for transfers.
    pub(crate) pledged: Pledged,
    /// Users, items, orders. Only the shop's own steps load any.
    pub(crate) shop: ShopRows,
}

impl Loaded {
    pub(crate) fn put_transfer(&mut self, row: Transfer) {
        self.ids.insert(row.id, row.no);
        self.transfers.insert(row.no, row);
    }
}

impl View for Loaded {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.ids.get(&id).and_then(|no| self.transfers.get(no))
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(&no)
    }

    fn next_transfer(&self) -> TransferNo {
        TransferNo(self.next_transfer)
    }

    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(&id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participants.values().find(|row| row.name.folded() == name.folded())
    }

    fn next_participant(&self) -> ParticipantId {
        ParticipantId(self.next_participant)
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    fn next_account(&self) -> AccountId {
        AccountId(self.next_account)
    }

    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.funds.get(&id)
    }

    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        let due = |row: &&Transfer| row.state.may_expire() && row.expiration < now;
        let mut due: Vec<(Millis, TransferNo)> =
            self.transfers.values().filter(due).map(|row| (row.expiration, row.no)).collect();
        due.sort_unstable();
        due.truncate(max);
        due.into_iter().map(|(_, no)| no).collect()
    }

    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.pledged.tokens.get(id).map(TokenRow::view)
    }

    fn is_consumed(&self, _: &TokenId) -> bool {
        false
    }

    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.pledged.holds.get(spender)
    }

    fn spend(&self, _: &str) -> Option<&Arc<SpendRow>> {
        None
    }

    fn due_leases(&self, _: Millis, _: usize) -> Vec<Arc<LockRow>> {
        Vec::new()
    }
}

/// In the database profile the two sides are always outside of the decision: they are asked and answer by topics.
impl ShopView for Loaded {
    fn user(&self, id: &UserId) -> Option<&UserRow> {
        self.shop.user(id)
    }

    fn item(&self, id: &ItemId) -> Option<&ItemRow> {
        self.shop.item(id)
    }

    fn order(&self, id: &OrderId) -> Option<&OrderRow> {
        self.shop.order_row(id)
    }

    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        self.shop.checkout(order)
    }

    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        self.shop.request_key(key)
    }

    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        self.shop.due_checkouts(now, max)
    }

    /// They are removed in a transaction of their own.
    fn due_keys(&self, _: Millis, _: usize) -> Vec<Arc<KeyRow>> {
        Vec::new()
    }

    fn outside(&self) -> Sides {
        Sides::BOTH
    }

    fn charging(&self) -> Charging {
        Charging::Credit
    }

    /// What lies in tables has no bounds of memory, so only what is open counts.
    fn shop_counts(&self) -> ShopCounts {
        ShopCounts { checkouts: self.shop.open_count(), ..ShopCounts::default() }
    }
}

impl Rows for Loaded {
    fn put_participant(&mut self, row: &Participant) {
        self.participants.insert(row.id, row.clone());
    }

    fn put_account(&mut self, row: &Account) {
        self.accounts.insert(row.id, *row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.funds.insert(row.id, *row);
    }

    /// No decision reads endpoints.
    fn put_endpoint(&mut self, _: &SetEndpoint) {}

    fn add_transfer(&mut self, row: &Transfer) {
        self.put_transfer(row.clone());
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.transfers.get_mut(&no).expect("a change names a transfer that was loaded")
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        self.accounts.get_mut(&id).expect("a change names an account that was loaded")
    }

    fn hold_opened(&mut self, no: TransferNo) {
        self.opened.push(no);
    }

    fn hold_closed(&mut self, no: TransferNo) {
        self.closed.push(no);
    }

    /// They are written from the effects; nothing is decided after that.
    fn token_effect(&mut self, _: &TokenEffect) {}

    fn shop_effect(&mut self, effect: &ShopEffect) {
        self.shop.apply(effect);
    }
}
