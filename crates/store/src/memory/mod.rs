//! The plain store: every row in memory for ever. Tools that look at a log use it, and it is what the store of the
//! embedded profile is compared with.

mod shop;
mod tokens;

use std::sync::Arc;

use hashbrown::HashTable;
use holdfast_domain::command::{Key, SetEndpoint};
use holdfast_domain::effects::{Effects, PaymentRows};
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::registry::Registry;
use holdfast_domain::shop::{CheckoutRow, ItemRow, OrderRow, UserRow};
use holdfast_domain::tokens::{LockRow, TokenRow};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::{
    Accounts, Funds, Holds, ParticipantNumbers, Participants, TransferNumbers, Transfers,
};

use crate::books::Books;
use crate::hold_index::{HoldIndex, Seat};
use crate::runs::hash_id;
use crate::{Store, StoreError, Tables};
use shop::PlainShop;
use tokens::PlainTokens;

/// All rows there ever were, owned by the thread that decides.
pub struct MemoryStore {
    /// By number: 0, 1, 2, …
    transfers: Vec<Transfer>,
    /// Numbers by the hash of the transfer's id.
    ids: HashTable<TransferNo>,
    key: u64,
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
            transfers: Vec::new(),
            ids: HashTable::new(),
            key,
            holds: HoldIndex::default(),
            books: Books::default(),
            tokens: PlainTokens::default(),
            shop: PlainShop::default(),
        }
    }

    /// Transfers from number `from` on, ended or not.
    pub fn transfers_from(&self, from: TransferNo) -> impl Iterator<Item = &Transfer> {
        self.transfers.iter().skip(place(from))
    }
}

fn place(no: TransferNo) -> usize {
    usize::try_from(no.0).unwrap_or(usize::MAX)
}

/// Every transfer keeps its row, so its number is its seat.
fn seat(no: TransferNo) -> Seat {
    Seat::try_from(no.0).expect("fewer than 2^32 transfers")
}

impl Transfers for MemoryStore {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        let no = self.ids.find(hash_id(self.key, id.0), |no| self.transfers[place(*no)].id == id)?;
        Some(&self.transfers[place(*no)])
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(place(no))
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
        self.books.funds.get(&id)
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
        assert_eq!(row.no, self.next_transfer(), "transfers are numbered without gaps");
        self.transfers.push(row.clone());
        let (key, transfers) = (self.key, &self.transfers);
        let hash_of = |no: &TransferNo| hash_id(key, transfers[place(*no)].id.0);
        self.ids.insert_unique(hash_of(&row.no), row.no, hash_of);
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.transfers.get_mut(place(no)).expect("a change names a transfer that exists")
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
        let lease = self.tokens.leases().map(|row| row.expires_at.saturating_sub(1)).min();
        self.holds.next_expiration().into_iter().chain(lease).chain(self.shop.next_due()).min()
    }
}

impl Tables for MemoryStore {
    fn books(&self) -> &Books {
        &self.books
    }

    fn tokens(&self, show: &mut dyn FnMut(&TokenRow)) {
        self.tokens.live.values().for_each(show);
    }

    fn locks(&self, show: &mut dyn FnMut(&Arc<LockRow>)) {
        self.tokens.locks.values().for_each(show);
    }

    fn token_count(&self) -> usize {
        self.tokens.live.len()
    }

    fn open_leases(&self) -> usize {
        self.tokens.leases().count()
    }

    fn users(&self, show: &mut dyn FnMut(&UserRow)) {
        self.shop.users.values().for_each(show);
    }

    fn items(&self, show: &mut dyn FnMut(&ItemRow)) {
        self.shop.items.values().for_each(show);
    }

    fn unpaid_orders(&self, show: &mut dyn FnMut(&OrderRow)) {
        self.shop.unpaid().for_each(show);
    }

    fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>> {
        let later = |row: &&Arc<CheckoutRow>| after.is_none_or(|after| row.start > after);
        let mut open: Vec<_> = self.shop.checkouts.values().filter(later).cloned().collect();
        open.sort_unstable_by_key(|row| row.start);
        open.truncate(max);
        open
    }

    fn open_holds(&self) -> usize {
        self.holds.len()
    }

    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer> {
        let holds = self.holds.range(before, after, max);
        holds.into_iter().map(|(_, no)| &self.transfers[place(no)]).collect()
    }

    fn each_hold(&self, show: &mut dyn FnMut(&Transfer)) {
        self.holds.iter().for_each(|no| show(&self.transfers[place(no)]));
    }

    fn open_transfers(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.transfers_from(from).filter(|row| !row.state.is_final()).take(max).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        crate::conformance::run_all(|| MemoryStore::new(42));
    }
}
