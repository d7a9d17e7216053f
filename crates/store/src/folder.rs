//! Where the store's files lie.

use std::path::PathBuf;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId};

use crate::blocks::{BlockFolder, Kind};

/// The folder of checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
pub(crate) const CALLBACKS: &str = "callbacks";

/// The folders in a store's folder. All of them are there once a store was made.
pub const FOLDERS: [&str; 6] = [CHECKPOINTS, "ids", "outcomes", CALLBACKS, "spent-ids", "spends"];

/// A store's folder, and the log that it belongs to.
#[derive(Clone)]
pub(crate) struct StoreFolder {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) dir: PathBuf,
    pub(crate) log_id: LogId,
}

impl StoreFolder {
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.dir.join(CHECKPOINTS)
    }

    pub(crate) fn callbacks(&self) -> BlockFolder {
        self.blocks(CALLBACKS, Kind::Callbacks)
    }

    /// A folder of blocks of that kind.
    pub(crate) fn blocks(&self, name: &str, kind: Kind) -> BlockFolder {
        BlockFolder { fs: Arc::clone(&self.fs), dir: self.dir.join(name), log_id: self.log_id, kind }
    }

    /// The key under which ids are hashed: clients choose ids, and never see the log's id.
    pub(crate) fn key(&self) -> u64 {
        StoreFolder::key_of(self.log_id)
    }

    pub(crate) fn key_of(log_id: LogId) -> u64 {
        let halves = u128::from_le_bytes(log_id.0);
        #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = (halves >> 64) as u64 ^ (halves as u64).rotate_left(32);
        folded
    }
}
