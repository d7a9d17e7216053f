//! Ended transfers, read beside the deciding thread.

use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::Transfer;

use crate::StoreError;
use crate::archive::Which;
use crate::blocks::BlockReader;
use crate::folder::StoreFolder;
use crate::row;

/// The outcomes of all ended transfers, in the order in which they ended.
#[derive(Clone)]
pub struct History {
    pub(super) place: StoreFolder,
    pub(super) reader: BlockReader,
}

impl History {
    /// Where the outcomes end now. Taken between two frames, all before it is durable.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.reader.end()
    }

    /// The outcomes from `from` (0, or a place that this gave) to `to`, each with the place after it.
    pub fn scan(&self, from: u64, to: u64) -> impl Iterator<Item = Result<(u64, Transfer), StoreError>> {
        let place = self.place.clone();
        self.reader.scan(from, to).map(move |record| {
            let (position, bytes) = record?;
            let none = || Which::Ended.damaged(&place, position, "no outcome of a transfer stands there");
            let row = row::read(&bytes).ok_or_else(none)?;
            Ok((position + bytes.len() as u64 + 2, row))
        })
    }

    pub(super) fn outcome(&self, at: u64, id: TransferId) -> Result<Transfer, StoreError> {
        let bytes = self.reader.read(at)?;
        let row = bytes.and_then(|bytes| row::read(&bytes)).filter(|row| row.id == id);
        row.ok_or_else(|| not_the_outcome(&self.place, at, id))
    }
}

pub(super) fn not_the_outcome(place: &StoreFolder, position: u64, id: TransferId) -> StoreError {
    let found = format!("the index of ids says that the outcome of {id} stands there");
    Which::Ended.damaged(place, position, &found)
}
