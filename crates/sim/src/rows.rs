//! Every row of a store, to be compared with those of another.

use std::collections::BTreeSet;
use std::fmt::Debug;

use holdfast_domain::ids::{Millis, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Participant};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;
use holdfast_store::{MemoryStore, Store};

/// A copy of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    participants: Vec<Participant>,
    accounts: Vec<Account>,
    funds: Vec<FundsMovement>,
    transfers: Vec<Transfer>,
    holds: Vec<TransferNo>,
}

impl Rows {
    /// The rows of a store, its movements of funds among `funds`.
    #[must_use]
    pub fn of(store: &MemoryStore, funds: &BTreeSet<TransferId>) -> Rows {
        Rows {
            participants: store.participants().into_iter().cloned().collect(),
            accounts: store.accounts().into_iter().copied().collect(),
            funds: funds.iter().filter_map(|id| store.funds(*id)).copied().collect(),
            transfers: store.transfers_from(TransferNo(0), usize::MAX).into_iter().cloned().collect(),
            holds: store.holds(Millis::MAX, None, usize::MAX).into_iter().map(|row| row.no).collect(),
        }
    }

    /// The first row in which two stores differ, in words; `None` if they are the same.
    #[must_use]
    pub fn difference(&self, other: &Rows) -> Option<String> {
        first_difference("participants", &self.participants, &other.participants)
            .or_else(|| first_difference("accounts", &self.accounts, &other.accounts))
            .or_else(|| first_difference("movements of funds", &self.funds, &other.funds))
            .or_else(|| first_difference("transfers", &self.transfers, &other.transfers))
            .or_else(|| first_difference("open holds", &self.holds, &other.holds))
    }
}

fn first_difference<T: Debug + PartialEq>(what: &str, left: &[T], right: &[T]) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} {what} against {}", left.len(), right.len()));
    }
    let (left, right) = left.iter().zip(right).find(|(left, right)| left != right)?;
    Some(format!("{what}: {left:?} against {right:?}"))
}
