//! Ended transfers, read beside the deciding thread.

use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::Transfer;

use crate::StoreError;
use crate::blocks::BlockReader;
use crate::row;

/// The outcomes of all ended transfers, in the order in which they ended.
#[derive(Clone)]
pub struct History(pub(super) BlockReader);

impl History {
    /// Where the outcomes end now. Taken between two frames, all before it is durable.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.0.end()
    }

    /// The outcomes from `from` (0, or a place that this gave) to `to`, each with the place after it.
    pub fn scan(&self, from: u64, to: u64) -> impl Iterator<Item = Result<(u64, Transfer), StoreError>> {
        self.0.scan(from, to).map(|record| {
            let (position, bytes) = record?;
            let none = || self.0.damaged(position, "no outcome of a transfer stands there");
            let row = row::read(&bytes).ok_or_else(none)?;
            Ok((position + bytes.len() as u64 + 2, row))
        })
    }

    pub(super) fn outcome(&self, at: u64, id: TransferId) -> Result<Transfer, StoreError> {
        let bytes = self.0.read(at)?;
        let row = bytes.and_then(|bytes| row::read(&bytes)).filter(|row| row.id == id);
        row.ok_or_else(|| not_the_outcome(&self.0, at, id))
    }
}

pub(super) fn not_the_outcome(outcomes: &BlockReader, position: u64, id: TransferId) -> StoreError {
    outcomes.damaged(position, &format!("the index of ids says that the outcome of {id} stands there"))
}
