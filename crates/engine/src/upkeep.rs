//! What an operator does with an engine that keeps its data itself: a copy of them, and a word on the clock.

use std::path::{Path, PathBuf};

/// Why a backup is not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupRefusal {
    /// It cannot go there.
    #[error("{0}")]
    Unsuitable(String),
    /// Another one is being made.
    #[error("{0}")]
    Running(String),
    /// The engine or its disk cannot.
    #[error("{0}")]
    Failed(String),
}

/// How far a backup is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupStatus {
    /// None was asked for since the start.
    None,
    /// It is being made.
    Running {
        /// Where it goes.
        dir: PathBuf,
        /// Bytes copied.
        done: u64,
        /// Bytes to copy; 0 as long as that is not known.
        total: u64,
    },
    /// It is whole.
    Done {
        /// Where it lies.
        dir: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// The offset of its checkpoint.
        offset: u64,
        /// The end of its log.
        log_end: u64,
        /// Its files.
        files: usize,
    },
    /// It failed. What was copied is of no use.
    Failed {
        /// Where it went.
        dir: PathBuf,
        /// Why, in words.
        reason: String,
    },
}

/// An engine that an operator looks after.
pub trait Upkeep: Send + Sync {
    /// Begins a backup to `dir`, which must be empty or not exist. Reads the disk.
    ///
    /// # Errors
    /// If it cannot be begun.
    fn begin_backup(&self, dir: &Path) -> Result<(), BackupRefusal>;

    /// The backup that is being made, or the last one.
    fn backup_status(&self) -> BackupStatus;

    /// An operator says that the wall clock is right as it stands now.
    fn confirm_clock(&self);
}
