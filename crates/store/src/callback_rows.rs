//! Callbacks as they were added to the store, for whoever delivers them.

use std::path::PathBuf;

use crate::StoreError;
use crate::blocks::BlockReader;

/// Reads callback rows in the order in which they were added.
#[derive(Clone)]
pub struct CallbackRows {
    reader: BlockReader,
    dir: PathBuf,
}

impl CallbackRows {
    pub(crate) const fn new(reader: BlockReader, dir: PathBuf) -> CallbackRows {
        CallbackRows { reader, dir }
    }

    /// What stands at that place is sound and yet no callback.
    #[must_use]
    pub fn not_a_callback(&self, at: u64) -> StoreError {
        StoreError::damaged(&self.dir, at, "no callback of that number stands there")
    }

    /// Where the rows begin that are still there.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.reader.start()
    }

    /// Where the rows end now.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.reader.end()
    }

    /// The row at a place that adding it gave; `None` if it was removed.
    ///
    /// # Errors
    /// If the disk does not hold what was written to it.
    pub fn read(&self, at: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.reader.read(at)
    }

    /// The rows from `from` to `to` with their places.
    pub fn scan(&self, from: u64, to: u64) -> impl Iterator<Item = Result<(u64, Vec<u8>), StoreError>> {
        self.reader.scan(from, to)
    }
}
