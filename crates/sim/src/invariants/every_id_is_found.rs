//! A duplicate of any id ever seen is known for what it is: every transfer and every order is found by its id, open or ended, in
//! memory, in a run that a checkpoint sealed, or in one that a merge made. An id that nobody stored is not found.

use std::collections::BTreeSet;

use holdfast_domain::ids::{TransferId, TransferNo};
use holdfast_domain::shop::OrderId;
use holdfast_domain::view::Orders;
use holdfast_store::{LocalStore, MemoryStore, StoreError};

/// Asks the hub's store for every transfer that the log knows, and for those that it does not know.
///
/// # Errors
/// If the disk does not give what was written to it.
pub fn every_id_is_found(
    hub: &LocalStore,
    witness: &MemoryStore,
    named: &BTreeSet<TransferId>,
) -> Result<Result<(), String>, StoreError> {
    let mut known = BTreeSet::new();
    for row in witness.transfers_from(TransferNo(0)) {
        known.insert(row.id);
        let found = hub.seek(row.id).get()?;
        if found.as_ref() != Some(row) {
            return Ok(Err(format!("{row:?} is sought by its id, and found is {found:?}")));
        }
    }
    let strangers = known.iter().map(|id| TransferId(id.0 ^ 1)).filter(|id| !known.contains(id)).take(8);
    for id in named.difference(&known).copied().chain(strangers.collect::<Vec<_>>()) {
        if let Some(row) = hub.seek(id).get()? {
            return Ok(Err(format!("{id} was never stored, and found is {row:?}")));
        }
    }
    Ok(Ok(()))
}

/// The same for orders: those that are not paid and those that are, and the newest where an init made a paid one anew.
///
/// # Errors
/// If the disk does not give what was written to it.
pub fn every_order_is_found(
    hub: &LocalStore,
    witness: &MemoryStore,
    named: &BTreeSet<OrderId>,
) -> Result<Result<(), String>, StoreError> {
    for id in named {
        let found = hub.seek_order(id).get()?;
        let right = witness.order(id);
        if found.as_ref() != right {
            return Ok(Err(format!("order {id} should be {right:?}, and found is {found:?}")));
        }
    }
    Ok(Ok(()))
}
