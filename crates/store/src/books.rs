//! The small rows that every store keeps in memory: participants, accounts, funds and endpoints.
//!
//! All but the accounts change seldom, so they are shared with a checkpoint until they do.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_domain::command::SetEndpoint;
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::participants::{Account, FundsMovement, Name, Participant};
use holdfast_domain::registry::Registry;

/// The endpoints of each participant, by type.
pub(crate) type Endpoints = BTreeMap<ParticipantId, BTreeMap<String, String>>;

/// All participants as they stood at one moment, for readers on any thread.
#[derive(Clone)]
pub struct Roster(Arc<Vec<Participant>>);

impl Roster {
    /// The participant of that number.
    #[must_use]
    pub fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.0.get(place(id.0)?)
    }
}

/// Participants and what belongs to them. A clone is what a checkpoint takes: cheap, but for the accounts.
#[derive(Clone, Default)]
pub struct Books {
    participants: Arc<Vec<Participant>>,
    names: Arc<BTreeMap<Name, ParticipantId>>,
    accounts: Vec<Account>,
    pub(crate) funds: Arc<BTreeMap<TransferId, FundsMovement>>,
    endpoints: Arc<Endpoints>,
}

/// Participants and accounts are numbered from 1.
fn place(number: u32) -> Option<usize> {
    number.checked_sub(1).map(|place| place as usize)
}

fn number(place: usize) -> u32 {
    u32::try_from(place + 1).expect("fewer than 2^32 of them")
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

impl Books {
    pub(crate) fn next_participant(&self) -> ParticipantId {
        ParticipantId(number(self.participants.len()))
    }

    pub(crate) fn next_account(&self) -> AccountId {
        AccountId(number(self.accounts.len()))
    }

    pub(crate) fn put_participant(&mut self, row: &Participant) {
        Arc::make_mut(&mut self.names).insert(row.name.folded(), row.id);
        put(Arc::make_mut(&mut self.participants), row.id.0, row.clone());
    }

    pub(crate) fn put_account(&mut self, row: &Account) {
        put(&mut self.accounts, row.id.0, *row);
    }

    pub(crate) fn put_funds(&mut self, row: &FundsMovement) {
        Arc::make_mut(&mut self.funds).insert(row.id, *row);
    }

    pub(crate) fn put_endpoint(&mut self, row: &SetEndpoint) {
        let of_participant = Arc::make_mut(&mut self.endpoints).entry(row.participant()).or_default();
        of_participant.insert(row.kind().to_owned(), row.value().to_owned());
    }

    pub(crate) fn account_mut(&mut self, id: AccountId) -> &mut Account {
        place(id.0)
            .and_then(|place| self.accounts.get_mut(place))
            .expect("a change names an account that exists")
    }

    /// Every participant by number.
    #[must_use]
    pub fn participants(&self) -> &[Participant] {
        &self.participants
    }

    /// All participants as they stand.
    #[must_use]
    pub fn roster(&self) -> Roster {
        Roster(Arc::clone(&self.participants))
    }

    /// Every account by number.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    pub(crate) fn all_endpoints(&self) -> impl Iterator<Item = SetEndpoint> {
        self.endpoints.iter().flat_map(|(participant, kinds)| {
            kinds.iter().map(|(kind, value)| {
                SetEndpoint::new(*participant, kind.clone(), value.clone()).expect("it was one before")
            })
        })
    }

    /// Whether anybody has registered an endpoint.
    #[must_use]
    pub fn has_endpoints(&self) -> bool {
        !self.endpoints.is_empty()
    }
}

impl Registry for Books {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(place(id.0)?)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participant(*self.names.get(&name.folded())?)
    }

    fn participants(&self) -> Vec<&Participant> {
        self.participants.iter().collect()
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(place(id.0)?)
    }

    fn accounts(&self) -> Vec<&Account> {
        self.accounts.iter().collect()
    }

    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)> {
        let of_participant = self.endpoints.get(&participant).into_iter().flatten();
        of_participant.map(|(kind, value)| (kind.as_str(), value.as_str())).collect()
    }

    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str> {
        self.endpoints.get(&participant)?.get(kind).map(String::as_str)
    }
}
