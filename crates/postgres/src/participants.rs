//! Participants and accounts: made and changed at the node that is asked, each in a transaction of its own.

use std::collections::BTreeMap;

use holdfast_domain::command::{Admin, SetEndpoint};
use holdfast_domain::effects::{Outcome, Step};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId};
use holdfast_domain::participants::{Name, Participant, decide_participant, set_endpoint};
use holdfast_domain::view::{ParticipantNumbers, Participants};
use postgres::Transaction;

use crate::Error;
use crate::load::{Loader, currency_of, number, participant_of, participants};
use crate::session::Store;
use crate::types::{Decimal, Moment};
use crate::write::account_number;

/// The advisory lock under which participants are numbered: "particip" in letters.
const LOCK: i64 = 0x7061_7274_6963_6970;

/// Participants that a transaction has loaded, and the numbers of new ones.
#[derive(Default)]
struct Registry {
    rows: BTreeMap<ParticipantId, Participant>,
    next_participant: u32,
    next_account: u32,
}

impl Participants for Registry {
    fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.rows.get(&id)
    }

    fn participant_named(&self, name: Name) -> Option<&Participant> {
        self.rows.values().find(|row| row.name.folded() == name.folded())
    }
}

impl ParticipantNumbers for Registry {
    fn next_participant(&self) -> ParticipantId {
        ParticipantId(self.next_participant)
    }

    fn next_account(&self) -> AccountId {
        AccountId(self.next_account)
    }
}

impl Store {
    /// Makes a participant or activates one: [`Admin::CreateParticipant`] and [`Admin::SetParticipantActive`]. Everything
    /// else of the operator's goes through the topic `position`, on the account's key.
    ///
    /// # Errors
    /// If the database fails.
    ///
    /// # Panics
    /// If the command is another one.
    pub fn participant(&mut self, admin: &Admin) -> Result<Outcome, Error> {
        let mut tx = self.client.transaction()?;
        tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
        let mut loader = Loader::new(&mut tx, &self.statements);
        let mut registry = Registry::default();
        let rows = match admin {
            Admin::CreateParticipant { name, .. } => {
                loader.tx.query(participants!("WHERE lower(name) = lower($1)"), &[&name.as_str()])?
            }
            Admin::SetParticipantActive { participant, .. } => {
                let id = i64::from(participant.0);
                loader.tx.query(participants!("WHERE participant_id = $1::bigint"), &[&id])?
            }
            other => panic!("{other:?} belongs on the topic position"),
        };
        for row in &rows {
            let participant = with_accounts(loader.tx, participant_of(row)?)?;
            registry.rows.insert(participant.id, participant);
        }
        let next = loader.tx.query_one(
            "SELECT coalesce((SELECT max(participant_id) FROM participant), 0) + 1,
                 coalesce((SELECT max(participant_currency_id) FROM participant_currency), 0) + 1",
            &[],
        )?;
        registry.next_participant = number("participant", next.get(0))?;
        registry.next_account = number("participant_currency", next.get(1))?;
        let now = loader.clock()?;
        let mut effects = Step::default();
        let outcome = decide_participant(&registry, now, admin, &mut effects);
        write(&mut tx, &effects)?;
        tx.commit()?;
        Ok(outcome)
    }

    /// Sets where a participant wants to be called.
    pub fn endpoint(&mut self, endpoint: &SetEndpoint) -> Result<Outcome, Error> {
        let mut tx = self.client.transaction()?;
        let mut registry = Registry::default();
        let id = i64::from(endpoint.participant().0);
        for row in &tx.query(participants!("WHERE participant_id = $1::bigint"), &[&id])? {
            let participant = participant_of(row)?;
            registry.rows.insert(participant.id, participant);
        }
        let mut effects = Step::default();
        let outcome = set_endpoint(&registry, endpoint, &mut effects);
        for row in &effects.endpoints {
            tx.execute(
                "INSERT INTO participant_endpoint (participant_id, endpoint_type, value) VALUES ($1::bigint, $2, $3)
                 ON CONFLICT (participant_id, endpoint_type) DO UPDATE SET value = excluded.value",
                &[&id, &row.kind(), &row.value()],
            )?;
        }
        tx.commit()?;
        Ok(outcome)
    }

    /// The position account of a participant in a currency.
    pub fn position_account(
        &mut self,
        participant: ParticipantId,
        currency: Currency,
    ) -> Result<Option<AccountId>, Error> {
        let row = self.client.query_opt(
            "SELECT participant_currency_id FROM participant_currency
             WHERE participant_id = $1::bigint AND currency_id = $2 AND ledger_account_type = 'POSITION'",
            &[&i64::from(participant.0), &currency.to_string()],
        )?;
        row.map(|row| Ok(AccountId(number("participant_currency", row.get(0))?))).transpose()
    }
}

fn with_accounts(tx: &mut Transaction<'_>, mut participant: Participant) -> Result<Participant, Error> {
    let rows = tx.query(
        "SELECT currency_id, participant_currency_id FROM participant_currency
         WHERE participant_id = $1 AND ledger_account_type = 'POSITION' ORDER BY participant_currency_id",
        &[&participant_number(participant.id)],
    )?;
    for row in rows {
        let account = AccountId(number("participant_currency", row.get(1))?);
        participant.accounts.push((currency_of(row.get(0))?, account));
    }
    Ok(participant)
}

fn write(tx: &mut Transaction<'_>, effects: &Step) -> Result<(), Error> {
    for row in &effects.participants {
        tx.execute(
            "INSERT INTO participant (participant_id, name, is_active, created_date) VALUES ($1, $2, $3, $4)
             ON CONFLICT (participant_id) DO UPDATE SET is_active = excluded.is_active",
            &[&participant_number(row.id), &row.name.as_str(), &row.active, &Moment(row.created_at)],
        )?;
    }
    for row in &effects.accounts {
        tx.execute(
            "INSERT INTO participant_currency (participant_currency_id, participant_id, currency_id,
                 ledger_account_type, is_active, created_date) VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                &account_number(row.id),
                &participant_number(row.participant),
                &row.currency.to_string(),
                &row.kind.name(),
                &row.active,
                &Moment(row.created_at),
            ],
        )?;
        tx.execute(
            "INSERT INTO participant_position (participant_currency_id, value, reserved_value, changed_date)
             VALUES ($1, $2, $3, $4)",
            &[
                &account_number(row.id),
                &Decimal(row.value.0),
                &Decimal(row.reserved.0),
                &Moment(row.changed_at),
            ],
        )?;
    }
    Ok(())
}

/// Participants are numbered by the database, which counts them in `int`.
fn participant_number(id: ParticipantId) -> i32 {
    i32::try_from(id.0).expect("participants are numbered within 31 bits")
}
