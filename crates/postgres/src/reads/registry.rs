//! Participants, their accounts with positions and limits, and their endpoints: three queries, whoever is asked about.

use std::collections::BTreeMap;

use holdfast_domain::ids::{AccountId, ParticipantId};
use holdfast_domain::participants::{Account, AccountKind, Name, Participant};
use holdfast_domain::registry::{Registry, Whose};
use postgres::Row;

use super::Snapshot;
use crate::load::{account_of, accounts, number, participant_of, participants};
use crate::{Error, Store};

/// The rows that a question asked for, as they stood at one moment.
#[derive(Debug, Clone, Default)]
pub struct Registered {
    participants: BTreeMap<ParticipantId, Participant>,
    names: BTreeMap<Name, ParticipantId>,
    accounts: BTreeMap<AccountId, Account>,
    endpoints: BTreeMap<ParticipantId, BTreeMap<String, String>>,
}

const IN_ORDER: &str = accounts!("", "ORDER BY c.participant_currency_id");
const OF_ONE: &str = accounts!("", "WHERE c.participant_id = $1::bigint ORDER BY c.participant_currency_id");

macro_rules! endpoints {
    ($filter:literal) => {
        concat!("SELECT participant_id, endpoint_type, value FROM participant_endpoint ", $filter)
    };
}

impl Store {
    /// Who takes part, as far as the question needs it.
    pub fn registry(&mut self, whose: Whose) -> Result<Registered, Error> {
        let mut snapshot = Snapshot::of(self)?;
        let mut registered = Registered::default();
        let one = match whose {
            Whose::Everybody => None,
            Whose::Named(name) => {
                let rows =
                    snapshot.query(participants!("WHERE lower(name) = lower($1)"), &[&name.as_str()])?;
                registered.add_participants(&rows)?;
                // Nobody has a number below zero.
                Some(registered.names.get(&name.folded()).map_or(-1, |id| i64::from(id.0)))
            }
            Whose::Numbered(id) => {
                let id = i64::from(id.0);
                let rows = snapshot.query(participants!("WHERE participant_id = $1::bigint"), &[&id])?;
                registered.add_participants(&rows)?;
                Some(id)
            }
        };
        let (accounts, endpoints) = match one {
            None => {
                registered.add_participants(&snapshot.query(participants!(""), &[])?)?;
                (snapshot.query(IN_ORDER, &[])?, snapshot.query(endpoints!(""), &[])?)
            }
            Some(id) => (
                snapshot.query(OF_ONE, &[&id])?,
                snapshot.query(endpoints!("WHERE participant_id = $1::bigint"), &[&id])?,
            ),
        };
        registered.add_accounts(&accounts)?;
        registered.add_endpoints(&endpoints)?;
        Ok(registered)
    }
}

impl Registered {
    fn add_participants(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let participant = participant_of(row)?;
            self.names.insert(participant.name.folded(), participant.id);
            self.participants.insert(participant.id, participant);
        }
        Ok(())
    }

    /// Rows by number: a participant lists its position accounts in the order in which they were made.
    fn add_accounts(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let (account, _) = account_of(row)?;
            let owner = self.participants.get_mut(&account.participant);
            let owner =
                owner.ok_or_else(|| Error::corrupt("participant_currency", "an account of nobody"))?;
            if account.kind == AccountKind::Position {
                owner.accounts.push((account.currency, account.id));
            }
            self.accounts.insert(account.id, account);
        }
        Ok(())
    }

    fn add_endpoints(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let participant = ParticipantId(number("participant_endpoint", row.get(0))?);
            self.endpoints.entry(participant).or_default().insert(row.get(1), row.get(2));
        }
        Ok(())
    }
}

impl Registry for Registered {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(&id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.participant(*self.names.get(&name.folded())?)
    }

    fn participants(&self) -> Vec<&Participant> {
        self.participants.values().collect()
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    fn accounts(&self) -> Vec<&Account> {
        self.accounts.values().collect()
    }

    fn endpoints(&self, participant: ParticipantId) -> Vec<(&str, &str)> {
        let of_participant = self.endpoints.get(&participant).into_iter().flatten();
        of_participant.map(|(kind, value)| (kind.as_str(), value.as_str())).collect()
    }

    fn endpoint(&self, participant: ParticipantId, kind: &str) -> Option<&str> {
        self.endpoints.get(&participant)?.get(kind).map(String::as_str)
    }
}
