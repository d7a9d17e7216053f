//! What can go wrong with the store's files, in words an operator can act on.

use std::io;
use std::path::{Path, PathBuf};

use holdfast_disk::LogId;

/// An error of the store. As long as the log goes back to its beginning none of them loses anything: all that is in the
/// store's folder follows from the log.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused an operation.
    #[error("cannot {op} {}; check the disk, its free space and the permissions", path.display())]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },

    /// A file does not hold what was written to it, or is not there.
    #[error(
        "{} is damaged at byte {position}: {found}. Nothing was changed. It can be derived again: stop the hub, move \
         the folder 'store' out of the data directory and start, if the log still begins at offset 0; else restore a \
         backup",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it.
        position: u64,
        /// What is wrong.
        found: String,
    },

    /// A file belongs to another data directory.
    #[error("{} belongs to log {found}, this directory holds log {expected}. Move the file to where it came from", file.display())]
    Foreign {
        /// The stranger.
        file: PathBuf,
        /// The log id in it.
        found: LogId,
        /// The log id of this directory.
        expected: LogId,
    },

    /// A file was written by a later release.
    #[error("{} has format version {found}, this release knows {known}. Start the newer release", file.display())]
    UnsupportedVersion {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u16,
        /// The latest version this code reads.
        known: u16,
    },
}

impl StoreError {
    /// Names the operation and the path of an IO error.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { op, path, source }
    }

    /// A file that is not as it was written.
    pub(crate) fn damaged(file: &Path, position: u64, found: impl Into<String>) -> StoreError {
        StoreError::Damaged { file: file.to_owned(), position, found: found.into() }
    }
}
