//! Ended transfers, read beside the deciding thread.

use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::Transfer;

use crate::StoreError;
use crate::archive::Which;
use crate::blocks::BlockReader;
use crate::folder::StoreFolder;
use crate::row;
use crate::runs::RunSet;

/// The outcomes of all ended transfers, in the order in which they ended.
#[derive(Clone)]
pub struct History {
    place: StoreFolder,
    reader: BlockReader,
}

impl History {
    pub(super) const fn new(place: StoreFolder, reader: BlockReader) -> History {
        History { place, reader }
    }

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
            let row = row::read(&bytes);
            let row =
                row.ok_or_else(|| damaged(&place, position, "no outcome of a transfer stands there"))?;
            Ok((position + bytes.len() as u64 + 2, row))
        })
    }

    fn outcome(&self, at: u64, id: TransferId) -> Result<Transfer, StoreError> {
        let bytes = self.reader.read(at)?;
        let row = bytes.and_then(|bytes| row::read(&bytes)).filter(|row| row.id == id);
        row.ok_or_else(|| not_the_outcome(&self.place, at, id))
    }
}

fn damaged(place: &StoreFolder, position: u64, found: &str) -> StoreError {
    StoreError::damaged(&Which::Ended.records(&place.dir), position, found)
}

pub(super) fn not_the_outcome(place: &StoreFolder, position: u64, id: TransferId) -> StoreError {
    damaged(place, position, &format!("the index of ids says that the outcome of {id} stands there"))
}

/// Where a transfer was found to be.
pub struct Sought(Where);

enum Where {
    Here(Box<Transfer>),
    Elsewhere { history: History, id: TransferId, hash: u64, at: Option<u64>, runs: RunSet },
}

impl Sought {
    pub(super) fn here(row: Transfer) -> Sought {
        Sought(Where::Here(Box::new(row)))
    }

    pub(super) const fn elsewhere(
        history: History,
        id: TransferId,
        hash: u64,
        at: Option<u64>,
        runs: RunSet,
    ) -> Sought {
        Sought(Where::Elsewhere { history, id, hash, at, runs })
    }

    /// Whether [`Sought::get`] may read the disk.
    #[must_use]
    pub const fn is_on_disk(&self) -> bool {
        matches!(self.0, Where::Elsewhere { .. })
    }

    /// The transfer, if there is one of that id.
    ///
    /// # Errors
    /// If the disk does not hold what was written to it.
    pub fn get(self) -> Result<Option<Transfer>, StoreError> {
        match self.0 {
            Where::Here(row) => Ok(Some(*row)),
            Where::Elsewhere { history, id, hash, at, runs } => {
                let at = match at {
                    Some(at) => Some(at),
                    None => runs.get(hash, id.0)?,
                };
                at.map(|at| history.outcome(at, id)).transpose()
            }
        }
    }
}
