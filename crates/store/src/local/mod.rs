//! The store of the embedded profile: what is open lies in memory, what has ended on the disk.
//!
//! Rows of open transfers, accounts and participants are hot: decisions read them in place. When a transfer ends its
//! row goes to the outcomes file and its id to the ids of recent ends; a checkpoint seals those as a run. Before a
//! frame is decided, [`Store::load`] brings in the ended transfers that its commands name. Tokens live and die likewise: live
//! ones and locks in memory, spends and the ids of consumed ones on the disk for ever. And so do orders, when they are paid.
//!
//! Nothing here is needed to know the truth: the log is. So nothing is synced but at a checkpoint, and recovery cuts
//! every file back to the checkpoint that it starts from before the log is replayed over it.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `slab` | rows of what is open in pages shared with checkpoints |
//! | `numbers` | transfer number to row |
//! | `hot` | the open transfers and their indexes |
//! | `vault` | live tokens and locks and their indexes |
//! | `kinds` | what live tokens have in common, once |
//! | `shelves` | the shop: users, items, unpaid orders, open checkouts, keys |
//! | `table` | rows found by a text |
//! | `spent` | spends, consumed tokens and paid orders: what a frame reads and adds of them |
//! | `seats` | hash tables of rows, in parts |
//! | `jobs` | checkpoints and merges, away from the deciding thread |
//! | `holds` | checkpoints that somebody is reading |
//! | `recover` | from the newest checkpoint back to a store |
//! | `history` | ended transfers, read beside the deciding thread |
//! | `verify` | the files held against the log |
//! | `needed` | which of them a checkpoint needs |

mod history;
mod holds;
mod hot;
mod jobs;
mod kinds;
mod needed;
mod numbers;
mod recover;
mod seats;
mod shelves;
mod slab;
mod spent;
mod table;
#[cfg(test)]
mod tests;
mod vault;
mod verify;

pub use history::History;
pub use holds::Held;
pub use jobs::{Done, Job};
pub use needed::{CheckpointFiles, StoreFile, files_of};
pub use recover::{Recovered, reached, recover};
pub use verify::{StoreCheck, StoreFinding, StoreReport};

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::command::{Key, SetEndpoint};
use holdfast_domain::effects::{Effects, PaymentRows, ShopRows, TokenRows};
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::registry::Registry;
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

use crate::archive::{Archive, Sought};
use crate::blocks::BlockFiles;
use crate::books::{Books, Roster};
use crate::folder::StoreFolder;
use crate::row;
use crate::{Store, StoreError, Tables};
use hot::Hot;
use shelves::Shelves;
use spent::{Record, Spent};
use vault::Vault;

/// All rows of the embedded profile, owned by the thread that decides.
pub struct LocalStore {
    place: StoreFolder,
    books: Books,
    hot: Hot,
    vault: Vault,
    shelves: Shelves,
    /// Consumed tokens, spends and paid orders that the frame at hand names or makes.
    past: Spent,
    /// Ended transfers that the frame at hand names.
    loaded: BTreeMap<TransferId, Transfer>,
    loaded_numbers: BTreeMap<TransferNo, TransferId>,
    /// Transfers that ended.
    ended: Archive,
    /// Spends, tokens that were consumed, and orders that were paid.
    spent: Archive,
    callbacks: BlockFiles,
    work: jobs::Work,
    /// Room for one row.
    scratch: Vec<u8>,
    /// Room for the ids of a frame that are not in memory.
    unknown: Vec<(u64, u128)>,
}

impl LocalStore {
    /// Brings in the outcome at that place.
    fn bring(&mut self, id: TransferId, place: u64) -> Result<(), StoreError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        let there = self.ended.records.read_into(place, &mut bytes)?;
        let row = if there { row::read(&bytes).filter(|row| row.id == id) } else { None };
        self.scratch = bytes;
        let row = row.ok_or_else(|| history::not_the_outcome(&self.ended.records.reader(), place, id))?;
        self.loaded_numbers.insert(row.no, id);
        self.loaded.insert(id, row);
        Ok(())
    }

    /// Notes an order that the frame names, if it may have been paid.
    fn load_order(&mut self, order: &str) -> Result<(), StoreError> {
        if self.shelves.orders.get(order).is_some() {
            return Ok(());
        }
        self.past.ask_order(&self.spent, order, self.shelves.life(order))
    }

    /// Ended transfers, for readers on any thread.
    #[must_use]
    pub fn history(&self) -> History {
        History(self.ended.records.reader())
    }

    /// Where a transfer is: at hand if it is open, else to be read without disturbing this thread.
    #[must_use]
    pub fn seek(&self, id: TransferId) -> Sought {
        if let Some(row) = self.transfer(id) {
            return Sought::here(row.clone());
        }
        let history = self.history();
        self.ended.seek(id.0, move |at| history.outcome(at, id))
    }

    /// Where an order is: at hand if it is not paid, else to be read without disturbing this thread.
    #[must_use]
    pub fn seek_order(&self, order: &OrderId) -> Sought<OrderRow> {
        if let Some(row) = self.shelves.orders.get(order.as_str()) {
            return Sought::here(row.clone());
        }
        let id = self.past.ids.order(order.as_str(), self.shelves.life(order.as_str()));
        let (place, reader, order) = (self.place.clone(), self.spent.records.reader(), order.clone());
        self.spent.seek(id, move |at| match spent::read(&place, at, |at, out| reader.read_into(at, out))? {
            Record::Order(row) if row.order.order_id == order => Ok(*row),
            _ => Err(spent::damaged(&place, at, "the index says that a paid order stands there")),
        })
    }

    /// All participants as they stand.
    #[must_use]
    pub fn roster(&self) -> Roster {
        self.books.roster()
    }

    /// Callbacks as they were added, for readers on any thread.
    #[must_use]
    pub fn callback_rows(&self) -> crate::CallbackRows {
        self.callbacks.reader()
    }

    /// Runs of transfers' ids on the disk.
    #[must_use]
    pub fn id_runs(&self) -> usize {
        self.ended.runs.len()
    }
}

impl Transfers for LocalStore {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.hot.transfer(id).or_else(|| self.loaded.get(&id))
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.hot.numbered(no).or_else(|| self.loaded.get(self.loaded_numbers.get(&no)?))
    }
}

impl TransferNumbers for LocalStore {
    fn next_transfer(&self) -> TransferNo {
        self.hot.next()
    }
}

impl Holds for LocalStore {
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        self.hot.holds.due(now, max)
    }
}

impl Participants for LocalStore {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.books.participant(id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.books.participant_named(name)
    }
}

impl ParticipantNumbers for LocalStore {
    fn next_participant(&self) -> ParticipantId {
        self.books.next_participant()
    }

    fn next_account(&self) -> AccountId {
        self.books.next_account()
    }
}

impl Accounts for LocalStore {
    fn account(&self, id: AccountId) -> Option<&Account> {
        self.books.account(id)
    }
}

impl Funds for LocalStore {
    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.books.funds.get(&id)
    }
}

impl Tokens for LocalStore {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.vault.token(id).map(TokenRow::view)
    }
}

impl Spenders for LocalStore {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.vault.lock(spender)
    }

    fn has_spent(&self, spender: &str) -> bool {
        self.past.spends.contains_key(spender)
    }
}

impl Spends for LocalStore {
    fn is_consumed(&self, id: &TokenId) -> bool {
        self.past.is_consumed(id)
    }

    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.past.spends.get(spender)
    }
}

impl Leases for LocalStore {
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        self.vault.due_leases(now, max)
    }
}

impl Users for LocalStore {
    fn user(&self, id: &UserId) -> Option<&UserRow> {
        self.shelves.users.get(id.as_str())
    }
}

impl Items for LocalStore {
    fn item(&self, id: &ItemId) -> Option<&ItemRow> {
        self.shelves.items.get(id.as_str())
    }
}

impl Orders for LocalStore {
    fn order(&self, id: &OrderId) -> Option<&OrderRow> {
        self.shelves.orders.get(id.as_str()).or_else(|| self.past.orders.get(id))
    }
}

impl Checkouts for LocalStore {
    fn checkout(&self, order: &OrderId) -> Option<&Arc<CheckoutRow>> {
        self.shelves.checkouts.get(order.as_str())
    }

    fn due_checkouts(&self, now: Millis, max: usize) -> Vec<Arc<CheckoutRow>> {
        self.shelves.due_checkouts(now, max)
    }
}

impl Keys for LocalStore {
    fn request_key(&self, key: &str) -> Option<&Arc<KeyRow>> {
        self.shelves.keys.get(key)
    }
}

impl KeyEnds for LocalStore {
    fn due_keys(&self, now: Millis, max: usize) -> Vec<Arc<KeyRow>> {
        self.shelves.due_keys(now, max)
    }
}

impl ShopSettings for LocalStore {
    fn outside(&self) -> Sides {
        self.shelves.outside
    }

    fn charging(&self) -> Charging {
        self.shelves.charging.clone()
    }
}

impl ShopSize for LocalStore {
    fn shop_counts(&self) -> ShopCounts {
        self.shelves.counts()
    }
}

impl PaymentRows for LocalStore {
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
        self.hot.add(row.clone());
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        self.hot.numbered_mut(no)
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        self.books.account_mut(id)
    }

    fn hold_opened(&mut self, no: TransferNo) {
        self.hot.hold_opened(no);
    }

    fn hold_closed(&mut self, no: TransferNo) {
        self.hot.hold_closed(no);
    }
}

impl TokenRows for LocalStore {
    fn token_effect(&mut self, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => self.vault.produce(token),
            TokenEffect::Consumed(id) => {
                self.vault.consume(id);
                self.past.consume(id);
            }
            TokenEffect::Locked(row) => self.vault.put_lock(row),
            TokenEffect::Unlocked { spender, fence } => self.vault.unlock(spender, *fence),
            TokenEffect::Renewed(row) => {
                let LockRow { spender, fence, expires_at, .. } = &**row;
                self.vault.renew(spender, *fence, *expires_at);
            }
            TokenEffect::Spent(row) => self.past.remember(row),
        }
    }
}

impl ShopRows for LocalStore {
    fn shop_effect(&mut self, effect: &ShopEffect) {
        if let Some(paid) = self.shelves.change(effect) {
            self.past.pay(paid);
        }
    }
}

impl Store for LocalStore {
    fn load(&mut self, keys: &mut dyn Iterator<Item = Key<'_>>) -> Result<(), StoreError> {
        let mut unknown = std::mem::take(&mut self.unknown);
        unknown.clear();
        let mut tokens = Vec::new();
        for key in keys {
            let id = match key {
                Key::Transfer(id) => id,
                Key::Token(id) => {
                    tokens.push((self.vault.hash(id), id));
                    continue;
                }
                Key::Order(order) => {
                    self.load_order(order.as_str())?;
                    continue;
                }
                Key::OrderNumbered(number) => {
                    self.load_order(&number.to_string())?;
                    continue;
                }
                Key::Spender(spender) => {
                    self.past.ask_spender(&self.spent, spender)?;
                    continue;
                }
            };
            if self.hot.seat_of(id).is_some() || self.loaded.contains_key(&id) {
                continue;
            }
            let hash = self.ended.hash(id.0);
            match self.ended.unsealed(hash, id.0) {
                Some(place) => self.bring(id, place)?,
                None => unknown.push((hash, id.0)),
            }
        }
        for (id, place) in self.ended.sealed(&unknown)? {
            self.bring(TransferId(id), place)?;
        }
        self.unknown = unknown;
        // Nothing stands between two of these, so that the machine fetches the rows of several at a time.
        for (hash, id) in tokens {
            // What lives is not consumed.
            if !self.vault.lives(hash, id) {
                self.past.ask_token(&self.spent, id);
            }
        }
        self.past.bring(&self.spent)
    }

    fn settle(&mut self, effects: &Effects) {
        self.loaded.clear();
        self.loaded_numbers.clear();
        let mut bytes = std::mem::take(&mut self.scratch);
        for change in effects.all(|step| &step.state_changes).filter(|change| change.state.is_final()) {
            let row = self.hot.take(change.transfer);
            bytes.clear();
            row::write(&row, &mut bytes);
            let place = self.ended.records.append(&bytes);
            self.ended.index(row.id.0, place);
        }
        self.scratch = bytes;
        self.ended.records.publish();
        self.past.settle(&mut self.spent);
    }

    fn keep_callbacks(&mut self, rows: impl Iterator<Item = impl AsRef<[u8]>>) {
        for row in rows {
            self.callbacks.append(row.as_ref());
        }
        self.callbacks.publish();
    }

    fn sort_due(&mut self, now: Millis) {
        self.hot.holds.sort_due(now);
    }

    fn next_expiration(&self) -> Option<Millis> {
        // A lease is over at its end, a hold after it.
        let lease = self.vault.leases.first().map(|(end, ..)| end.saturating_sub(1));
        self.hot.holds.next_expiration().into_iter().chain(lease).chain(self.shelves.next_due()).min()
    }
}

impl Tables for LocalStore {
    fn books(&self) -> &Books {
        &self.books
    }

    fn tokens(&self, show: &mut dyn FnMut(&TokenRow)) {
        self.vault.tokens.iter().for_each(show);
    }

    fn locks(&self, show: &mut dyn FnMut(&Arc<LockRow>)) {
        self.vault.locks.iter().for_each(show);
    }

    fn token_count(&self) -> usize {
        self.vault.tokens.len()
    }

    fn open_leases(&self) -> usize {
        self.vault.leases.len()
    }

    fn users(&self, show: &mut dyn FnMut(&UserRow)) {
        self.shelves.users.iter().for_each(show);
    }

    fn items(&self, show: &mut dyn FnMut(&ItemRow)) {
        self.shelves.items.iter().for_each(show);
    }

    fn unpaid_orders(&self, show: &mut dyn FnMut(&OrderRow)) {
        self.shelves.orders.iter().for_each(show);
    }

    fn open_checkouts(&self, after: Option<u64>, max: usize) -> Vec<Arc<CheckoutRow>> {
        self.shelves.open_checkouts(after, max)
    }

    fn open_holds(&self) -> usize {
        self.hot.holds.len()
    }

    fn holds(&self, before: Millis, after: Option<(Millis, TransferNo)>, max: usize) -> Vec<&Transfer> {
        let holds = self.hot.holds.range(before, after, max);
        holds.into_iter().map(|(_, no)| self.hot.numbered(no).expect("an open hold has its row")).collect()
    }

    fn each_hold(&self, show: &mut dyn FnMut(&Transfer)) {
        self.hot.slab.iter().filter(|row| row.state.may_expire()).for_each(show);
    }

    fn open_transfers(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.hot.open_from(from, max)
    }
}
