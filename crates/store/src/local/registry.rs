//! Participants, accounts and endpoints as edges ask about them.

use holdfast_domain::ids::{AccountId, ParticipantId};
use holdfast_domain::participants::{Account, Name, Participant};
use holdfast_domain::registry::Registry;

use super::LocalStore;

impl Registry for LocalStore {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.books.participant(id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.books.participant_named(name)
    }

    fn participants(&self) -> Vec<&Participant> {
        self.books.participants().iter().collect()
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.books.account(id)
    }

    fn accounts(&self) -> Vec<&Account> {
        self.books.accounts().iter().collect()
    }

    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)> {
        self.books.endpoints(participant)
    }

    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str> {
        self.books.endpoint(participant, kind)
    }
}
