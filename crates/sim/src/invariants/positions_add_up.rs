//! The auditor of positions: every account is the sum of its change rows, and every row carries the running value.

use std::collections::BTreeMap;

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId};
use holdfast_domain::participants::AccountKind;
use holdfast_store::{MemoryStore, Tables};

use crate::witness::Decided;

/// What each position account stands at, by its rows.
#[derive(Debug, Default)]
pub struct PositionsAddUp {
    sums: BTreeMap<AccountId, i128>,
    /// Initial positions, added when asked for the sum: they carry no change row.
    initial: BTreeMap<(ParticipantId, Currency), i128>,
    accounts: BTreeMap<AccountId, (ParticipantId, Currency)>,
}

impl PositionsAddUp {
    /// Adds the frame's change rows. A first limit cuts the frame, so the running values of rows before it do not
    /// hold its initial position; those frames are only summed.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        for row in frame.effects.all(|step| &step.accounts) {
            self.accounts.insert(row.id, (row.participant, row.currency));
        }
        let mut first_limits = false;
        for (command, outcome) in frame.commands.iter().zip(frame.effects.all(|step| &step.outcomes)) {
            if let Command::Admin(Admin::InitialPositionAndLimits {
                participant,
                currency,
                initial_position,
                ..
            }) = command
                && outcome.code.is_none()
            {
                self.initial.insert((*participant, *currency), initial_position.0.into());
                first_limits = true;
            }
        }
        for row in frame.effects.all(|step| &step.position_changes) {
            let sum = self.sums.entry(row.account).or_default();
            *sum += i128::from(row.change.0);
            let running = self.sum(row.account);
            if !first_limits && row.value.0 != running {
                return Err(format!("{row:?} says otherwise than the sum of its rows, {running}"));
            }
        }
        Ok(())
    }

    fn sum(&self, account: AccountId) -> i128 {
        let initial = self.accounts.get(&account).and_then(|owner| self.initial.get(owner));
        self.sums.get(&account).copied().unwrap_or_default() + initial.copied().unwrap_or_default()
    }

    /// Whether the account has change rows and no initial position.
    pub fn waits_for_limit(&self, account: AccountId) -> bool {
        let owner = self.accounts.get(&account);
        self.sums.contains_key(&account) && owner.is_some_and(|owner| !self.initial.contains_key(owner))
    }

    /// Compares every position account with its sum.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        for account in store.books().accounts() {
            let sum = self.sum(account.id);
            if account.kind == AccountKind::Position && account.value.0 != sum {
                return Err(format!("{account:?} stands otherwise than the sum of its rows, {sum}"));
            }
        }
        Ok(())
    }
}
