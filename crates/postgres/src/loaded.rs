//! The rows that a batch names, as the domain reads and changes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use holdfast_domain::command::SetEndpoint;
use holdfast_domain::effects::PaymentRows;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::tokens::{LockRow, Name as TokenName, TokenId, TokenRow, TokenView};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::{
    Accounts, Funds, Holds, Participants, Spenders, Tokens, TransferNumbers, Transfers,
};

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
    /// Holds that began and ended since loading.
    pub(crate) opened: Vec<TransferNo>,
    pub(crate) closed: Vec<TransferNo>,
    /// Tokens that pay for transfers.
    pub(crate) pledged: Pledged,
    /// Users, items, orders: what the shop's own steps decide on.
    pub(crate) shop: ShopRows,
}

impl Loaded {
    pub(crate) fn put_transfer(&mut self, row: Transfer) {
        self.ids.insert(row.id, row.no);
        self.transfers.insert(row.no, row);
    }

    /// The names under which transfers hold the tokens that pay for them.
    pub(crate) fn funded(&self) -> BTreeSet<TokenName> {
        let funded = self.transfers.values().filter(|row| row.is_funded());
        funded.map(|row| row.id.to_string().into()).collect()
    }
}

impl Transfers for Loaded {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        self.ids.get(&id).and_then(|no| self.transfers.get(no))
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(&no)
    }
}

impl TransferNumbers for Loaded {
    fn next_transfer(&self) -> TransferNo {
        TransferNo(self.next_transfer)
    }
}

impl Participants for Loaded {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(&id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participants.values().find(|row| row.name.folded() == name.folded())
    }
}

impl Accounts for Loaded {
    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }
}

impl Funds for Loaded {
    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.funds.get(&id)
    }
}

impl Holds for Loaded {
    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        let due = |row: &&Transfer| row.state.may_expire() && row.expiration < now;
        let mut due: Vec<(Millis, TransferNo)> =
            self.transfers.values().filter(due).map(|row| (row.expiration, row.no)).collect();
        due.sort_unstable();
        due.truncate(max);
        due.into_iter().map(|(_, no)| no).collect()
    }
}

impl Tokens for Loaded {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.pledged.tokens.get(id).map(TokenRow::view)
    }
}

impl Spenders for Loaded {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.pledged.holds.get(spender)
    }

    /// Whoever has spent has nothing locked. A name that nothing is locked for counts as used up: it was not asked for.
    fn has_spent(&self, spender: &str) -> bool {
        !self.pledged.is_locked(spender)
    }
}

impl PaymentRows for Loaded {
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
}
