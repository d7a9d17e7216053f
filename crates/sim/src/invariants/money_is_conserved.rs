//! Invariant 1. Per currency, positions less the amounts that open transfers hold, plus settlement accounts, is
//! what funds in and out and initial positions made it: transfers move money and neither make nor lose any.

use std::collections::BTreeMap;

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Currency, TransferId, TransferNo};
use holdfast_domain::transfers::TransferState;
use holdfast_store::{MemoryStore, Tables};

use crate::witness::Decided;

/// What the sum must be, from the operator's accepted commands alone.
#[derive(Debug, Default)]
pub struct MoneyIsConserved {
    expected: BTreeMap<Currency, i128>,
    /// Movements of funds: currency, amount, and whether they are on their way out.
    movements: BTreeMap<(TransferId, AccountId), (Currency, i128, bool)>,
}

impl MoneyIsConserved {
    /// Books what the operator did.
    pub fn see(&mut self, frame: &Decided<'_>) -> Result<(), String> {
        for (command, outcome) in frame.commands.iter().zip(frame.effects.all(|step| &step.outcomes)) {
            let Command::Admin(admin) = command else { continue };
            if outcome.code.is_none() {
                self.book(admin);
            }
        }
        Ok(())
    }

    fn book(&mut self, admin: &Admin) {
        match *admin {
            Admin::InitialPositionAndLimits { currency, initial_position, .. } => {
                self.change(currency, initial_position.0.into());
            }
            Admin::FundsIn { id, account, currency, amount } => {
                self.first_time(id, account, currency, -i128::from(amount.0), false);
            }
            Admin::FundsOutReserve { id, account, currency, amount } => {
                self.first_time(id, account, currency, amount.0.into(), true);
            }
            Admin::FundsOutCommit { id, account } => self.end(id, account, false),
            Admin::FundsOutAbort { id, account } => self.end(id, account, true),
            Admin::CreateParticipant { .. }
            | Admin::SetParticipantActive { .. }
            | Admin::SetAccountActive { .. }
            | Admin::SetLimit { .. } => {}
        }
    }

    fn change(&mut self, currency: Currency, by: i128) {
        *self.expected.entry(currency).or_default() += by;
    }

    /// A repeat moves nothing.
    fn first_time(&mut self, id: TransferId, account: AccountId, currency: Currency, by: i128, leaves: bool) {
        if self.movements.contains_key(&(id, account)) {
            return;
        }
        self.movements.insert((id, account), (currency, by, leaves));
        self.change(currency, by);
    }

    fn end(&mut self, id: TransferId, account: AccountId, comes_back: bool) {
        let Some((currency, by, leaves)) = self.movements.get_mut(&(id, account)) else { return };
        let still_leaving = std::mem::take(leaves);
        let (currency, by) = (*currency, *by);
        if still_leaving && comes_back {
            self.change(currency, -by);
        }
    }

    /// Sums up every row of the store.
    pub fn inspect(&self, store: &MemoryStore) -> Result<(), String> {
        let mut sums: BTreeMap<Currency, i128> = BTreeMap::new();
        for account in store.books().accounts() {
            *sums.entry(account.currency).or_default() += account.value.0;
        }
        for transfer in store.transfers_from(TransferNo(0)) {
            // What tokens pay for stands on nobody's position.
            let on_position = transfer.payer_account.is_some();
            let holds = matches!(
                transfer.state,
                TransferState::Reserved
                    | TransferState::ReceivedFulfil
                    | TransferState::ReceivedError
                    | TransferState::ReservedTimeout
            );
            if on_position && holds {
                *sums.entry(transfer.currency).or_default() -= i128::from(transfer.amount.0);
            }
        }
        for (currency, sum) in &sums {
            let expected = self.expected.get(currency).copied().unwrap_or_default();
            if *sum != expected {
                return Err(format!("{currency} sums up to {sum}, and {expected} came in and out"));
            }
        }
        let own: Vec<(Currency, i128)> =
            store.conserved_sums().into_iter().map(|(currency, sum)| (currency, sum.0)).collect();
        if own != sums.clone().into_iter().collect::<Vec<_>>() {
            return Err(format!("the store sums up to {own:?}, its rows to {sums:?}"));
        }
        Ok(())
    }
}
