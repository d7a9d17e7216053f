//! The embedded store: every row in memory.

use std::collections::BTreeMap;

use holdfast_domain::command::SetEndpoint;
use holdfast_domain::effects::Rows;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;

use crate::Store;
use crate::hold_index::HoldIndex;
use crate::id_index::IdIndex;
use crate::pages::Pages;

/// All rows of the embedded profile, owned by the thread that decides.
pub struct MemoryStore {
    transfers: Pages<Transfer>,
    ids: IdIndex,
    holds: HoldIndex,
    participants: Vec<Participant>,
    names: BTreeMap<Name, ParticipantId>,
    accounts: Vec<Account>,
    funds: BTreeMap<TransferId, FundsMovement>,
    endpoints: BTreeMap<ParticipantId, BTreeMap<String, String>>,
}

impl MemoryStore {
    /// An empty store. `key` is a secret of the data directory under which ids are hashed.
    #[must_use]
    pub fn new(key: u64) -> MemoryStore {
        MemoryStore {
            transfers: Pages::new(),
            ids: IdIndex::new(key),
            holds: HoldIndex::default(),
            participants: Vec::new(),
            names: BTreeMap::new(),
            accounts: Vec::new(),
            funds: BTreeMap::new(),
            endpoints: BTreeMap::new(),
        }
    }
}

/// Participants and accounts are numbered from 1.
fn place(number: u32) -> Option<usize> {
    number.checked_sub(1).map(|place| place as usize)
}

fn number(place: usize) -> u32 {
    u32::try_from(place + 1).expect("fewer than 2^32 of them")
}

impl View for MemoryStore {
    fn transfer(&self, id: TransferId) -> Option<&Transfer> {
        let no = self.ids.get(id, |no| self.transfers.get(no.0).expect("indexed").id)?;
        self.transfers.get(no.0)
    }

    fn transfer_numbered(&self, no: TransferNo) -> Option<&Transfer> {
        self.transfers.get(no.0)
    }

    fn next_transfer(&self) -> TransferNo {
        TransferNo(self.transfers.len() as u64)
    }

    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(place(id.0)?)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participant(*self.names.get(&name.folded())?)
    }

    fn next_participant(&self) -> ParticipantId {
        ParticipantId(number(self.participants.len()))
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(place(id.0)?)
    }

    fn next_account(&self) -> AccountId {
        AccountId(number(self.accounts.len()))
    }

    fn funds(&self, id: TransferId) -> Option<&FundsMovement> {
        self.funds.get(&id)
    }

    fn due(&self, now: Millis, max: usize) -> Vec<TransferNo> {
        self.holds.due(now, max)
    }
}

impl Rows for MemoryStore {
    fn put_participant(&mut self, row: &Participant) {
        self.names.insert(row.name.folded(), row.id);
        put(&mut self.participants, row.id.0, row.clone());
    }

    fn put_account(&mut self, row: &Account) {
        put(&mut self.accounts, row.id.0, *row);
    }

    fn put_funds(&mut self, row: &FundsMovement) {
        self.funds.insert(row.id, *row);
    }

    fn put_endpoint(&mut self, row: &SetEndpoint) {
        let of_participant = self.endpoints.entry(row.participant()).or_default();
        of_participant.insert(row.kind().to_owned(), row.value().to_owned());
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
        place(id.0)
            .and_then(|place| self.accounts.get_mut(place))
            .expect("a change names an account that exists")
    }

    fn hold_opened(&mut self, no: TransferNo) {
        let expiration = self.transfer_mut(no).expiration;
        self.holds.insert(expiration, no);
    }

    fn hold_closed(&mut self, no: TransferNo) {
        let expiration = self.transfer_mut(no).expiration;
        self.holds.remove(expiration, no);
    }
}

fn put<T>(rows: &mut Vec<T>, number: u32, row: T) {
    let place = place(number).expect("numbered from 1");
    match rows.get_mut(place) {
        Some(known) => *known = row,
        None => {
            assert_eq!(place, rows.len(), "rows are numbered without gaps");
            rows.push(row);
        }
    }
}

impl Store for MemoryStore {
    fn sort_due(&mut self, now: Millis) {
        self.holds.sort_due(now);
    }

    fn next_expiration(&self) -> Option<Millis> {
        self.holds.next_expiration()
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

    fn participants(&self) -> Vec<&Participant> {
        self.participants.iter().collect()
    }

    fn accounts(&self) -> Vec<&Account> {
        self.accounts.iter().collect()
    }

    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)> {
        let of_participant = self.endpoints.get(&participant).into_iter().flatten();
        of_participant.map(|(kind, value)| (kind.as_str(), value.as_str())).collect()
    }

    fn has_endpoints(&self) -> bool {
        !self.endpoints.is_empty()
    }

    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str> {
        self.endpoints.get(&participant)?.get(kind).map(String::as_str)
    }

    fn transfers_from(&self, from: TransferNo, max: usize) -> Vec<&Transfer> {
        self.transfers.iter_from(from.0).take(max).collect()
    }
}
