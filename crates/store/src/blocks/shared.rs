//! What the appending thread, the background thread and the readers share.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use holdfast_disk::{AlignedBuf, BLOCK, File};

use super::files::Files;
use super::format::{BLOCK_BYTES, block_of, offset_of, record_at, used};
use crate::StoreError;

/// Sealed blocks on their way to one file.
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) bytes: AlignedBuf,
}

impl Chunk {
    /// The block after the last one.
    pub(super) fn after(&self) -> u64 {
        self.first + (self.bytes.len() / BLOCK) as u64
    }
}

pub(super) struct Shared {
    pub(super) files: Files,
    seen: RwLock<Seen>,
    output: Mutex<Output>,
}

/// What readers may see, and where it is: blocks in files, then in waiting chunks, then in the open one.
pub(super) struct Seen {
    /// The first block that was not removed.
    pub(super) start: u64,
    /// Blocks before this one are in the files.
    pub(super) written: u64,
    /// Chunks not written yet, in order.
    pub(super) pending: VecDeque<Arc<Chunk>>,
    /// The first block of `open`.
    pub(super) open_first: u64,
    /// A copy of what the appending thread gathers, at least up to `end`.
    pub(super) open: Vec<u8>,
    /// Readers see the records before this position.
    pub(super) end: u64,
}

/// The writing side of the files.
#[derive(Default)]
pub(super) struct Output {
    /// The file being filled.
    pub(super) file: Option<(u64, Arc<dyn File>)>,
    /// Files written since the last sync.
    pub(super) dirty: Vec<(u64, Arc<dyn File>)>,
    /// A file was created since the last sync.
    pub(super) new_names: bool,
    /// A write or sync failed. What the disk holds is unknown from then on.
    pub(super) failed: bool,
}

impl Output {
    /// Refuses to go on after a failure.
    pub(super) fn healthy(&self, dir: &Path) -> Result<(), StoreError> {
        if self.failed {
            let earlier = std::io::Error::other("an earlier write or sync of these files failed");
            return Err(StoreError::io("go on in", dir)(earlier));
        }
        Ok(())
    }
}

impl Shared {
    pub(super) fn new(files: Files, start: u64, end_block: u64) -> Shared {
        let seen = Seen {
            start,
            written: end_block,
            pending: VecDeque::new(),
            open_first: end_block,
            open: Vec::new(),
            end: 0,
        };
        Shared { files, seen: RwLock::new(seen), output: Mutex::default() }
    }

    pub(super) fn seen(&self) -> RwLockReadGuard<'_, Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn seen_mut(&self) -> RwLockWriteGuard<'_, Seen> {
        self.seen.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the record at `position` into `out`; `false` if it was removed. `end`: instead of the published one.
    pub(super) fn read_into(
        &self,
        position: u64,
        end: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        out.clear();
        let (block, offset) = (block_of(position), offset_of(position));
        let none = || self.files.damaged(block, offset, "no record begins there");
        let seen = self.seen();
        if block < seen.start {
            return Ok(false);
        }
        let end = end.unwrap_or(seen.end);
        if position >= end {
            let found = "a record is looked for there, but the records end before";
            return Err(self.files.damaged(block, offset, found));
        }
        if block >= seen.written {
            let (bytes, used) = seen.in_memory(block, end);
            out.extend_from_slice(record_at(bytes, used, offset).ok_or_else(none)?);
            return Ok(true);
        }
        drop(seen);
        let mut bytes = [0; BLOCK];
        match self.files.read_checked(block, &mut bytes) {
            Ok(used) => out.extend_from_slice(record_at(&bytes, used, offset).ok_or_else(none)?),
            // The file may have been removed since we looked.
            Err(_) if block < self.seen().start => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

impl Seen {
    /// A block that is not in the files yet, and how many of its bytes count if the records end at `end`, before
    /// which it must begin.
    pub(super) fn in_memory(&self, block: u64, end: u64) -> (&[u8], usize) {
        let (first, bytes) = if block >= self.open_first {
            (self.open_first, &self.open[..])
        } else {
            let at = self.pending.partition_point(|chunk| chunk.after() <= block);
            (self.pending[at].first, &self.pending[at].bytes[..])
        };
        let at = offset_in(block - first);
        let bytes = &bytes[at..bytes.len().min(at + BLOCK)];
        let counts = if block == block_of(end) { offset_of(end) } else { used(bytes) };
        (bytes, counts)
    }
}

/// The bytes of so many blocks, for blocks that are in memory.
pub(super) fn offset_in(blocks: u64) -> usize {
    usize::try_from(blocks * BLOCK_BYTES).expect("a chunk fits the memory")
}
