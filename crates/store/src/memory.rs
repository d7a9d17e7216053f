//! The plain store: every row in memory for ever. Tools that look at a log use it, and it is what the store of the
//! embedded profile is compared with.

use std::sync::Arc;

use holdfast_domain::command::{Key, SetEndpoint};
use holdfast_domain::effects::{Effects, PaymentRows, ShopRows, TokenRows};
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

use crate::books::Books;
use crate::hold_index::{HoldIndex, Seat};
use crate::id_index::IdIndex;
use crate::pages::Pages;
use crate::plain_shop::PlainShop;
use crate::plain_tokens::PlainTokens;
use crate::{Store, StoreError, Tables};

/// All rows there ever were, owned by the thread that decides.
pub struct MemoryStore {
    transfers: Pages<Transfer>,
    ids: IdIndex,
    holds: HoldIndex,
    books: Books,
    tokens: PlainTokens,
    shop: PlainShop,
}

impl MemoryStore {
    /// An empty store. `key` is a secret under which ids are hashed.
    #[must_use]
    pub fn new(key: u64) -> MemoryStore {
        MemoryStore {
            transfers: Pages::new(),
            ids: IdIndex::new(key),
            holds: HoldIndex::default(),
            books: Books::default(),
            tokens: PlainTokens::default(),
            shop: PlainShop::default(),
        }
    }

    /// Transfers from number `from` on, ended or not.
    pub fn transfers_from(&self, from: TransferNo) -> impl Iterator<Item = &Transfer> {
        self.transfers.iter_from(from.0)
    }
}

/// Every transfer keeps its row, so its number is its seat.
fn seat(no: TransferNo) -> Seat {
    Seat::try_from(no.0).expect("fewer than 2^32 transfers")
}

impl Transfers for MemoryStore {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        let no = self.ids.get(id, |no| self.transfers.get(no.0).expect("indexed").id)?;
        self.transfers.get(no.0)
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(no.0)
    }
}

impl TransferNumbers for MemoryStore {
    fn next_transfer(&self) -> TransferNo {
        TransferNo(self.transfers.len() as u64)
    }
}

impl Holds for MemoryStore {
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        self.holds.due(now, max)
    }
}

impl Participants for MemoryStore {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.books.participant(id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.books.participant_named(name)
    }
}

impl ParticipantNumbers for MemoryStore {
    fn next_participant(&self) -> ParticipantId {
        self.books.next_participant()
    }

    fn next_account(&self) -> AccountId {
        self.books.next_account()
    }
}

impl Accounts for MemoryStore {
    fn account(&self, id: AccountId) -> Option<&Account> {
        self.books.account(id)
    }
}

impl Funds for MemoryStore {
    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.books.funds(id)
    }
}

impl Tokens for MemoryStore {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.tokens.token(id).map(TokenRow::view)
    }
}

impl Spenders for MemoryStore {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.tokens.lock(spender)
    }

    fn has_spent(&self, spender: &str) -> bool {
        self.tokens.spend(spender).is_some()
    }
}

impl Spends for MemoryStore {
    fn is_consumed(&self, id: &TokenId) -> bool {
        self.tokens.is_consumed(id)
    }

    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.tokens.spend(spender)
    }
}

impl Leases for MemoryStore {
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        self.tokens.due_leases(now, max)
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
        self.shop.due_checkouts(now, max)
    }
}

impl Keys for MemoryStore {
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        self.shop.keys.get(key)
    }
}

impl KeyEnds for MemoryStore {
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        self.shop.due_keys(now, max)
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
        self.shop.counts()
    }
}

impl PaymentRows for MemoryStore {
    fn put_participant(&mut self, row: &Participant) {
        self.books.put_participant(row);
    }

    fn put_account(&mut self, row: &Account) {
        self.books.put_account(row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.books.put_funds(row);
    }

    fn put_endpoint(&mut self, row: &SetEndpoint) {
        self.books.put_endpoint(row);
    }

    fn add_transfer(&mut self, row: &Transfer) {
        assert_eq!(row.no.0, self.transfers.len() as u64, "transfers are numbered without gaps");
        self.transfers.push(row.clone());
        let transfers = &self.transfers;
        self.ids.insert(row.id, row.no, |no| transfers.get(no.0).expect("indexed").id);
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.transfers.get_mut(no.0).expect("a change names a transfer that exists")
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        self.books.account_mut(id)
    }

    fn hold_opened(&mut self, no: TransferNo) {
        let expiration = self.transfer_mut(no).expiration;
        self.holds.insert(expiration, no, seat(no));
    }

    fn hold_closed(&mut self, no: TransferNo) {
        let expiration = self.transfer_mut(no).expiration;
        self.holds.remove(expiration, no, seat(no));
    }
}

impl TokenRows for MemoryStore {
    fn token_effect(&mut self, effect: &TokenEffect) {
        self.tokens.change(effect);
    }
}

impl ShopRows for MemoryStore {
    fn shop_effect(&mut self, effect: &ShopEffect) {
        self.shop.change(effect);
    }
}

impl Store for MemoryStore {
    fn load(&mut self, _: &mut dyn Iterator<Item = Key<'_>>) -> Result<(), StoreError> {
        Ok(())
    }

    fn settle(&mut self, _: &Effects) {}

    fn sort_due(&mut self, now: Millis) {
        self.holds.sort_due(now);
    }

    fn next_expiration(&self) -> Option<Millis> {
        // A lease is over at its end, a hold after it.
        let lease = self.tokens.next_lease_end().map(|end| end.saturating_sub(1));
        self.holds.next_expiration().into_iter().chain(lease).chain(self.shop.next_due()).min()
    }
}

impl Tables for MemoryStore {
    fn books(&self) -> &Books {
        &self.books
    }

    fn tokens(&self, show: &mut dyn FnMut(&TokenRow)) {
        self.tokens.tokens().for_each(show);
    }

    fn locks(&self, show: &mut dyn FnMut(&Arc<LockRow>)) {
        self.tokens.locks().for_each(show);
    }

    fn token_count(&self) -> usize {
        self.tokens.tokens().len()
    }

    fn open_leases(&self) -> usize {
        self.tokens.open_leases()
    }

    fn users(&self, show: &mut dyn FnMut(&UserRow)) {
        self.shop.users.values().for_each(show);
    }

    fn items(&self, show: &mut dyn FnMut(&ItemRow)) {
        self.shop.items.values().for_each(show);
    }

    fn unpaid_orders(&self, show: &mut dyn FnMut(&OrderRow)) {
        self.shop.orders.values().filter(|row| !row.is_paid()).for_each(show);
    }

    fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>> {
        self.shop.open_checkouts(after, max)
    }

    fn open_holds(&self) -> usize {
        self.holds.len()
    }

    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer> {
        let holds = self.holds.range(before, after, max);
        holds.into_iter().map(|(_, no)| self.transfers.get(no.0).expect("indexed")).collect()
    }

    fn each_hold(&self, show: &mut dyn FnMut(&Transfer)) {
        self.holds.iter().for_each(|no| show(self.transfers.get(no.0).expect("indexed")));
    }

    fn open_transfers(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.transfers_from(from).filter(|row| !row.state.is_final()).take(max).collect()
    }
}
