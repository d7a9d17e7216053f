//! Rows of an archive, read beside the deciding thread.

use holdfast_domain::transfers::Transfer;

use super::Archive;
use crate::StoreError;
use crate::runs::RunSet;

/// Where a row was found to be.
pub struct Sought<R = Transfer>(Where<R>);

enum Where<R> {
    Here(Box<R>),
    Elsewhere { id: u128, hash: u64, at: Option<u64>, runs: RunSet, read: ReadAt<R> },
}

/// Reads the row at a place.
type ReadAt<R> = Box<dyn FnOnce(u64) -> Result<R, StoreError> + Send>;

impl<R> Sought<R> {
    pub(crate) fn here(row: R) -> Sought<R> {
        Sought(Where::Here(Box::new(row)))
    }

    /// Whether [`Sought::get`] may read the disk.
    #[must_use]
    pub const fn is_on_disk(&self) -> bool {
        matches!(self.0, Where::Elsewhere { .. })
    }

    /// The row, if there is one of that id.
    ///
    /// # Errors
    /// If the disk does not hold what was written to it.
    pub fn get(self) -> Result<Option<R>, StoreError> {
        match self.0 {
            Where::Here(row) => Ok(Some(*row)),
            Where::Elsewhere { at: Some(at), read, .. } => read(at).map(Some),
            Where::Elsewhere { id, hash, at: None, runs, read } => runs.get(hash, id)?.map(read).transpose(),
        }
    }
}

impl Archive {
    /// The row of that id, to be read by `read` without disturbing this thread.
    pub(crate) fn seek<R>(
        &self,
        id: u128,
        read: impl FnOnce(u64) -> Result<R, StoreError> + Send + 'static,
    ) -> Sought<R> {
        let hash = self.hash(id);
        let (at, runs, read) = (self.unsealed(hash, id), self.runs.clone(), Box::new(read));
        Sought(Where::Elsewhere { id, hash, at, runs, read })
    }
}
