//! Ids of finished transfers in sorted runs on the disk.
//!
//! A run maps the ids that finished since the last checkpoint to their places. It is written once and never
//! changed; eight runs of a size are merged into one in the background ([`RunSet::due_merge`]). A miss is answered
//! from memory by a filter; a hit costs one block. A wrong "not there" would let a payment happen twice, so every
//! byte of a run is covered by a checksum that is tested before the byte is believed.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `format` | where the bytes stand, and their checksums |
//! | `bloom` | the filter: one cache line per question |
//! | `write` | sealing: blocks in pieces to a temporary name, synced, renamed |
//! | `read` | verified blocks, one after the other |
//! | `run` | one run: open, look up, walk, verify |
//! | `merge` | several runs into one, in bounded memory |
//! | `set` | the runs that are valid together, and which are due to be merged |
//! | `verify` | ids held against right ones |
//!
//! # The file, version 1
//!
//! Named by twenty digits and `.run`. Little-endian, blocks of 4096 bytes: a header, the data blocks, the fence
//! blocks, the filter blocks, and nothing after them.
//!
//! | header byte | what |
//! | --- | --- |
//! | 0..8 | `HOLDFRUN` |
//! | 8..10 | version, 1 |
//! | 10..16 | zero |
//! | 16..32 | log id |
//! | 32..40 | number of the run, as in its name |
//! | 40..48 | hash of the id 0x0123456789abcdef0123456789abcdef: another key or another hash function shows here |
//! | 48..56 | count of ids, at least 1 |
//! | 56..72 | smallest id |
//! | 72..88 | largest id |
//! | 88..96 | data blocks: count / 170, rounded up |
//! | 96..104 | fence blocks: data blocks / 255, rounded up |
//! | 104..112 | lines of the filter, at least 1 |
//! | 112..120 | filter blocks: lines / 63, rounded up |
//! | 120..128 | length of the file in bytes |
//! | 128..4092 | zero |
//! | 4092..4096 | CRC-32C of the bytes before it |
//!
//! Every other block has up to 4080 bytes of items, zeros, and an end:
//!
//! | byte | what |
//! | --- | --- |
//! | 4080..4088 | number of the block in the file; the header is 0 |
//! | 4088..4092 | count of items in it; only the last block of its kind is not full |
//! | 4092..4096 | CRC-32C of log id (16 bytes), run number (8 bytes) and the block's bytes before it |
//!
//! Items of a data block are 170 entries of 24 bytes, id and place, rising by id over the whole run. Items of a
//! fence block are 255 first ids of data blocks. Items of a filter block are 63 lines of eight 64-bit words.
//!
//! The filter: `h` is the id's hash under the key of the data directory ([`hash_id`]). Its line is
//! `h * lines >> 64`. With `g = h * 0x9e3779b97f4a7c15` modulo 2^64 it sets in word `i` of that line the bit
//! `(g >> (16 + 6 * i)) & 63`.

mod bloom;
mod format;
mod merge;
mod read;
mod run;
mod set;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use foldhash::quality::FixedState;
use holdfast_disk::{FileSystem, LogId};

pub(crate) use merge::merge;
pub(crate) use run::Run;
pub(crate) use set::RunSet;
pub(crate) use verify::{WrongId, compare};
pub(crate) use write::seal;

/// A finished transfer: its id and where the rest of it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub id: u128,
    pub place: u64,
}

/// A directory of runs, the id that they carry, and the key under which their ids are hashed.
#[derive(Clone)]
pub(crate) struct RunFolder {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub log_id: LogId,
    pub key: u64,
}

/// Names a run within its directory. Numbers rise, so that a block of another run is noticed by its checksum; after a crash
/// the number of a run that no checkpoint lists may be given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunName(pub u64);

impl RunName {
    /// The name that a file's name stands for, if it is a run's.
    pub(crate) fn parse(file_name: &str) -> Option<RunName> {
        holdfast_disk::number_in_name(file_name, ".run").map(RunName)
    }

    /// Whether this is the name of a run that was never finished.
    pub(crate) fn is_temporary(file_name: &str) -> bool {
        file_name.strip_suffix(".tmp").is_some_and(|name| RunName::parse(name).is_some())
    }

    /// What it is called until it is whole. A leftover of that name is of no use to anybody.
    fn temporary(self) -> String {
        format!("{self}.tmp")
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.run", self.0)
    }
}

/// The hash of an id under the key of the data directory.
///
/// The hash function multiplies the two halves of the id after mixing one with its key and the other with a
/// constant that anybody can read. An upper half equal to that constant would give 2^64 ids one hash, so the key
/// goes into the upper half as well.
pub(crate) fn hash_id(key: u64, id: u128) -> u64 {
    let veil = u128::from(key.wrapping_mul(0xd6e8_feb8_6659_fd93)) << 64;
    FixedState::with_seed(key).hash_one(id ^ veil)
}
