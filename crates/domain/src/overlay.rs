//! The state inside a frame: what the view showed before it, and what its sub-batches have changed since.
//!
//! An overlay shows the tables that the view below it has. Tokens and the shop are laid over in their own rooms.

use std::collections::BTreeMap;

use crate::effects::PaymentRows;
use crate::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use crate::participants::{Account, FundsMovement, Name, Participant};
use crate::shop::ShopChanges;
use crate::tokens::TokenChanges;
use crate::transfers::Transfer;
use crate::view::{Accounts, Funds, Holds, ParticipantNumbers, Participants, TransferNumbers, Transfers};

/// A view with changes laid over it.
pub(crate) struct Overlay<'a, V: ?Sized> {
    pub(crate) base: &'a V,
    transfers: BTreeMap<TransferNo, Transfer>,
    numbers: BTreeMap<TransferId, TransferNo>,
    participants: BTreeMap<ParticipantId, Participant>,
    names: BTreeMap<Name, ParticipantId>,
    accounts: BTreeMap<AccountId, Account>,
    funds: BTreeMap<TransferId, FundsMovement>,
    pub(crate) tokens: TokenChanges,
    pub(crate) shop: ShopChanges,
}

impl<'a, V: ?Sized> Overlay<'a, V> {
    pub(crate) fn over(base: &'a V) -> Overlay<'a, V> {
        Overlay {
            base,
            transfers: BTreeMap::new(),
            numbers: BTreeMap::new(),
            participants: BTreeMap::new(),
            names: BTreeMap::new(),
            accounts: BTreeMap::new(),
            funds: BTreeMap::new(),
            tokens: TokenChanges::default(),
            shop: ShopChanges::default(),
        }
    }
}

impl<V: Transfers + ?Sized> Transfers for Overlay<'_, V> {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        match self.numbers.get(&id) {
            Some(no) => self.transfers.get(no),
            None => self.base.transfer(id).map(|row| self.transfers.get(&row.no).unwrap_or(row)),
        }
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(&no).or_else(|| self.base.transfer_numbered(no))
    }
}

impl<V: TransferNumbers + ?Sized> TransferNumbers for Overlay<'_, V> {
    fn next_transfer(&self) -> TransferNo {
        let base = self.base.next_transfer();
        self.transfers.last_key_value().map_or(base, |(last, _)| base.max(TransferNo(last.0 + 1)))
    }
}

impl<V: Holds + ?Sized> Holds for Overlay<'_, V> {
    /// What this frame ended is no longer due; what it began cannot be due yet, as its expiration is ahead.
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        let mut due = self.base.due(now, max.saturating_add(self.transfers.len()));
        due.retain(|no| self.transfers.get(no).is_none_or(|row| row.state.may_expire()));
        due.truncate(max);
        due
    }
}

impl<V: Participants + ?Sized> Participants for Overlay<'_, V> {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(&id).or_else(|| self.base.participant(id))
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        match self.names.get(&name.folded()) {
            Some(id) => self.participants.get(id),
            None => self.base.participant_named(name).and_then(|row| self.participant(row.id)),
        }
    }
}

impl<V: ParticipantNumbers + ?Sized> ParticipantNumbers for Overlay<'_, V> {
    fn next_participant(&self) -> ParticipantId {
        let base = self.base.next_participant();
        self.participants.last_key_value().map_or(base, |(last, _)| base.max(ParticipantId(last.0 + 1)))
    }

    fn next_account(&self) -> AccountId {
        let base = self.base.next_account();
        self.accounts.last_key_value().map_or(base, |(last, _)| base.max(AccountId(last.0 + 1)))
    }
}

impl<V: Accounts + ?Sized> Accounts for Overlay<'_, V> {
    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id).or_else(|| self.base.account(id))
    }
}

impl<V: Funds + ?Sized> Funds for Overlay<'_, V> {
    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.funds.get(&id).or_else(|| self.base.funds(id))
    }
}

impl<V: Transfers + Accounts + ?Sized> PaymentRows for Overlay<'_, V> {
    fn put_participant(&mut self, row: &Participant) {
        self.names.insert(row.name.folded(), row.id);
        self.participants.insert(row.id, row.clone());
    }

    fn put_account(&mut self, row: &Account) {
        self.accounts.insert(row.id, *row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.funds.insert(row.id, *row);
    }

    /// No decision reads endpoints.
    fn put_endpoint(&mut self, _: &crate::command::SetEndpoint) {}

    fn add_transfer(&mut self, row: &Transfer) {
        self.numbers.insert(row.id, row.no);
        self.transfers.insert(row.no, row.clone());
    }

    fn transfer_mut(&mut self, no: TransferNo) -> &mut Transfer {
        let base = self.base;
        let load = || base.transfer_numbered(no).expect("a change names a transfer that exists").clone();
        self.transfers.entry(no).or_insert_with(load)
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        let base = self.base;
        let load = || *base.account(id).expect("a change names an account that exists");
        self.accounts.entry(id).or_insert_with(load)
    }

    fn hold_opened(&mut self, _: TransferNo) {}

    fn hold_closed(&mut self, _: TransferNo) {}
}
