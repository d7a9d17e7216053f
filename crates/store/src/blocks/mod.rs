//! Append-only records in blocks on the disk: the outcomes of finished transfers, spends, and callback rows.
//!
//! A record lives at a position: the number of its block times 4096, plus the byte in the block where it begins.
//! Records never cross a block, so one read of 4 KiB finds one. Positions follow from the lengths of the records
//! before them and from nothing else: replaying the log gives every record the position it had.
//!
//! Appending is not durable. Only full blocks go to the files, and only a checkpoint makes them durable; it also
//! remembers the [`End`], with the contents of the last, partial block. After a crash the owner opens the files
//! at that end: what lies after it is cut away and comes again from the log. So no block that a checkpoint needs
//! is ever written twice.
//!
//! One thread appends ([`BlockFiles`]), a background thread runs the jobs it hands out ([`WriteJob`], [`Syncer`],
//! [`RemoveJob`]), and any thread reads ([`BlockReader`]) what was published.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `format` | the bytes of a block |
//! | `files` | names, opening at an end, cached handles for reading |
//! | `shared` | what the three sides share: chunks not written yet, and how far the files go |
//! | `writer` | appending |
//! | `jobs` | writing, syncing and removing, away from the deciding thread |
//! | `reader` | one record by position, or many in order |
//! | `verify` | files held against right ones |

mod files;
mod format;
mod jobs;
mod reader;
mod shared;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub(crate) use files::Files;
pub(crate) use format::{Kind, RECORD_MAX};
pub(crate) use jobs::{RemoveJob, Syncer, WriteJob};
pub use reader::BlockReader;
pub(crate) use verify::Mismatch;
pub(crate) use writer::BlockFiles;

use std::path::PathBuf;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId};

/// Blocks in one file: 256 MiB.
const FILE_BLOCKS: u64 = 65_536;
/// Blocks that are written together: 256 KiB. A scan reads as many at a time.
const CHUNK_BLOCKS: usize = 64;

/// A directory of blocks, the log that they belong to, and what their records are.
#[derive(Clone)]
pub(crate) struct BlockFolder {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) dir: PathBuf,
    pub(crate) log_id: LogId,
    pub(crate) kind: Kind,
}

/// Where the records end, and what a checkpoint must remember to go on from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// Where the next record will begin if it fits its block; otherwise it begins the block after.
    pub(crate) position: u64,
    /// The records of the last block, which is not full and therefore in no file yet.
    pub(crate) tail: Vec<u8>,
}

/// How the files are laid out, and what of them must be there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Blocks per file. The files of a directory must always be opened with the same number.
    pub(crate) file_blocks: u64,
    /// Blocks per write. No influence on what is written.
    pub(crate) chunk_blocks: usize,
    /// Everything from this position on must still be there when opened. Before it, files may be missing
    /// because [`BlockFiles::remove_before`] removed them. 0 for records that are kept for ever.
    pub(crate) needed_from: u64,
}

/// Where nothing was ever added.
impl Default for End {
    fn default() -> End {
        End { position: format::HEADER as u64, tail: Vec::new() }
    }
}

impl End {
    /// Whether there is no record before it.
    pub(crate) const fn is_begin(&self) -> bool {
        self.position == format::HEADER as u64
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { file_blocks: FILE_BLOCKS, chunk_blocks: CHUNK_BLOCKS, needed_from: 0 }
    }
}
