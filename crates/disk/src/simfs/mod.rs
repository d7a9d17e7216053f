//! A file system in memory that loses power, lies and fills up on demand.
//!
//! Every file has a live image (what reads see) and a durable one (what the medium holds), and the list of writes
//! between them. Names likewise: creating, renaming and removing is durable only after the directory's sync.
//! [`SimFs::crash`] returns what a machine would find afterwards: the durable state, plus a seeded choice per
//! 512-byte sector of each unsynced write, plus a seeded prefix of each directory's unsynced name changes. Bytes,
//! lengths and names survive apart from each other: a new name can lead to an empty file, and a file can be long
//! and hold zeros.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `files` | the traits of [`crate::fs`], as a program sees them |
//! | `inject` | what a simulator can do to the medium |
//! | `faults` | the faults that are planned, and a count of those that struck |
//! | `state` | files, names, the room taken and the time spent; what a loss of power leaves |
//! | `image` | the bytes of one file |
//! | `extents` | which of its blocks take room |
//! | `choices` | the seeded choices of a crash |
//!
//! Deterministic: the same calls and seeds give the same bytes. Simplifications: directories themselves are
//! durable at once, renames stay within a directory, a sector is never half-written.

mod choices;
mod extents;
mod faults;
mod files;
mod image;
mod inject;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::FileSystem;
pub use faults::{FaultHit, FaultKind, Rotten};
use image::Inode;
use state::{FileSystemState, crashed, not_found};

/// A handle on a simulated file system; clones are the same one.
#[derive(Clone)]
pub struct SimFs {
    state: Arc<Mutex<FileSystemState>>,
}

/// How often the medium was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Calls of `write_at`, `set_len` and `allocate`.
    pub writes: u64,
    /// Bytes given to `write_at`.
    pub bytes_written: u64,
    /// Calls of `sync_data` and `sync_dir`.
    pub syncs: u64,
}

/// The service time of the medium, in nanoseconds. Nothing sleeps: see [`SimFs::busy_nanos`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// For every read, write, change of length, allocation and sync.
    pub per_op: u64,
    /// For every byte read or written on top.
    pub per_byte: u64,
}

impl SimFs {
    /// An empty file system. The seed goes into every choice a later [`crash`](Self::crash) makes.
    pub fn new(seed: u64) -> Self {
        Self::holding(FileSystemState::new(seed))
    }

    /// This file system as a program takes it.
    pub fn shared(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.clone())
    }

    /// What the medium holds after a loss of power now. `self` stays as it is, so one moment can be crashed with
    /// many seeds. The survivor has no locks, no failures planned and counts from zero; it keeps the capacity and
    /// the pace, and its [`faults`](Self::faults) begin with what this crash did.
    pub fn crash(&self, seed: u64) -> SimFs {
        Self::holding(self.lock().survivor(seed))
    }

    /// How often the medium was asked so far.
    pub fn counters(&self) -> SimCounters {
        self.lock().meter.counters
    }

    /// The names of all files, in all directories, sorted, as a running program sees them.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().live.keys().cloned().collect()
    }

    /// The names of all files that are sure to be there after a loss of power.
    pub fn durable_paths(&self) -> Vec<PathBuf> {
        self.lock().durable.keys().cloned().collect()
    }

    /// A file's whole contents as reads see them.
    pub fn bytes_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.lock().node_at(path).map(|node| node.content.live_bytes())
    }

    /// A file's whole contents as the medium holds them, under the name that is durable.
    pub fn durable_bytes_of(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.lock();
        let id = *state.durable.get(path).ok_or_else(not_found)?;
        state.node(id).map(|node| node.content.durable_bytes())
    }

    /// Puts a file there with these contents, all durable: a fixture. Takes room, but does not ask for it.
    pub fn put(&self, path: &Path, contents: &[u8]) {
        let mut state = self.lock();
        state.dirs.extend(path.ancestors().skip(1).map(Path::to_owned));
        let mut inode = Inode::default();
        inode.write(contents, 0);
        inode.sync();
        let id = state.new_inode(inode);
        state.put_name(path, id);
    }

    fn holding(state: FileSystemState) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, FileSystemState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if the power is still on.
    fn powered(&self) -> io::Result<MutexGuard<'_, FileSystemState>> {
        let state = self.lock();
        if state.meter.syncs_left == Some(0) { Err(crashed()) } else { Ok(state) }
    }
}
