//! Every row of a store, to be compared with those of another.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use holdfast_domain::ids::{Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::participants::{Account, FundsMovement, Participant};
use holdfast_domain::tokens::{LockRow, TokenRow};
use holdfast_domain::transfers::Transfer;
use holdfast_store::{LocalStore, MemoryStore, Store, StoreError};

/// A copy of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    participants: Vec<Participant>,
    accounts: Vec<Account>,
    funds: Vec<FundsMovement>,
    endpoints: Vec<(ParticipantId, String, String)>,
    transfers: Vec<Transfer>,
    holds: Vec<TransferNo>,
    tokens: Vec<TokenRow>,
    locks: Vec<Arc<LockRow>>,
}

impl Rows {
    /// The rows of the plain store, its movements of funds among `funds`.
    #[must_use]
    pub fn of_witness(store: &MemoryStore, funds: &BTreeSet<TransferId>) -> Rows {
        Rows::with(store, store.transfers_from(TransferNo(0)).cloned().collect(), funds)
    }

    /// The rows of the hub's store: what is open from memory, what has ended from the disk.
    ///
    /// # Errors
    /// If the disk does not give what was written to it.
    pub fn of_hub(store: &LocalStore, funds: &BTreeSet<TransferId>) -> Result<Rows, StoreError> {
        let history = store.history();
        let ended = history.scan(0, history.end()).map(|row| row.map(|(_, row)| row));
        let mut transfers = ended.collect::<Result<Vec<Transfer>, StoreError>>()?;
        transfers.extend(store.open_transfers(TransferNo(0), usize::MAX).into_iter().cloned());
        transfers.sort_unstable_by_key(|row| row.no);
        Ok(Rows::with(store, transfers, funds))
    }

    fn with<S: Store>(store: &S, transfers: Vec<Transfer>, funds: &BTreeSet<TransferId>) -> Rows {
        let endpoints_of = |row: &&Participant| {
            let id = row.id;
            let endpoints = store.endpoints(id).into_iter();
            endpoints.map(move |(kind, value)| (id, kind.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let (tokens, locks) = vault_of(store);
        Rows {
            participants: store.participants().into_iter().cloned().collect(),
            accounts: store.accounts().into_iter().copied().collect(),
            funds: funds.iter().filter_map(|id| store.funds(*id)).copied().collect(),
            endpoints: store.participants().iter().flat_map(endpoints_of).collect(),
            transfers,
            holds: store.holds(Millis::MAX, None, usize::MAX).into_iter().map(|row| row.no).collect(),
            tokens,
            locks,
        }
    }

    /// The first row in which two stores differ, in words; `None` if they are the same.
    #[must_use]
    pub fn difference(&self, other: &Rows) -> Option<String> {
        first_difference("participants", &self.participants, &other.participants)
            .or_else(|| first_difference("accounts", &self.accounts, &other.accounts))
            .or_else(|| first_difference("movements of funds", &self.funds, &other.funds))
            .or_else(|| first_difference("endpoints", &self.endpoints, &other.endpoints))
            .or_else(|| first_difference("transfers", &self.transfers, &other.transfers))
            .or_else(|| first_difference("open holds", &self.holds, &other.holds))
            .or_else(|| first_difference("tokens", &self.tokens, &other.tokens))
            .or_else(|| first_difference("locks", &self.locks, &other.locks))
    }
}

/// What differs in the rows that are in memory; cheap enough for every turn.
#[must_use]
pub fn difference_in_memory(hub: &LocalStore, witness: &MemoryStore) -> Option<String> {
    let (all, first) = (usize::MAX, TransferNo(0));
    first_difference("participants", &hub.participants(), &witness.participants())
        .or_else(|| first_difference("accounts", &hub.accounts(), &witness.accounts()))
        .or_else(|| {
            let (ours, theirs) = (hub.open_transfers(first, all), witness.open_transfers(first, all));
            first_difference("open transfers", &ours, &theirs)
        })
        .or_else(|| {
            let (ours, theirs) = (hub.holds(Millis::MAX, None, all), witness.holds(Millis::MAX, None, all));
            first_difference("open holds", &ours, &theirs)
        })
        .or_else(|| {
            let (ours, theirs) = (vault_of(hub), vault_of(witness));
            first_difference("tokens", &ours.0, &theirs.0)
                .or_else(|| first_difference("locks", &ours.1, &theirs.1))
        })
}

/// Every live token by its id, and every lock by its spender.
fn vault_of(store: &impl Store) -> (Vec<TokenRow>, Vec<Arc<LockRow>>) {
    let (mut tokens, mut locks) = (Vec::new(), Vec::new());
    store.tokens(&mut |row| tokens.push(row.clone()));
    store.locks(&mut |row| locks.push(Arc::clone(row)));
    tokens.sort_unstable_by(|one, other| one.token.id.cmp(&other.token.id));
    locks.sort_unstable_by(|one, other| one.spender.cmp(&other.spender));
    (tokens, locks)
}

fn first_difference<T: Debug + PartialEq>(what: &str, left: &[T], right: &[T]) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} {what} against {}", left.len(), right.len()));
    }
    let (left, right) = left.iter().zip(right).find(|(left, right)| left != right)?;
    Some(format!("{what}: {left:?} against {right:?}"))
}
