//! Appending: memory only. Full blocks gather in a chunk, full chunks wait to be written by a job.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_disk::{AlignedBuf, BLOCK};

use super::files::Files;
use super::format::{
    HEADER, LENGTH, RECORD_MAX, block_of, is_whole, offset_of, position_of, record_at, used,
};
use super::jobs::{RemoveJob, Syncer, WriteJob};
use super::reader::BlockReader;
use super::shared::{Chunk, Shared, offset_in};
use super::{BlockFolder, End, Options};
use crate::StoreError;

/// The records of one kind, as the one thread that appends has them.
pub(crate) struct BlockFiles {
    pub(super) shared: Arc<Shared>,
    chunk_blocks: usize,
    /// Sealed blocks from `open_first` on, then the one being filled.
    open: AlignedBuf,
    open_first: u64,
    /// The number of the block being filled, the last one in `open`.
    block: u64,
    /// Its used bytes; always room for one more length.
    used: usize,
    /// Chunks for which no job was handed out yet.
    queue: VecDeque<Arc<Chunk>>,
}

impl BlockFiles {
    /// Opens the files of a directory at the end that the last checkpoint remembers; without one, empty. What
    /// lies after the end is removed for good: when this returns, no crash brings it back.
    pub(crate) fn create_or_open(
        folder: BlockFolder,
        end: Option<End>,
        options: Options,
    ) -> Result<BlockFiles, StoreError> {
        assert!(options.file_blocks > 0 && options.chunk_blocks > 0, "files and chunks have blocks");
        let files = Files::new(folder, options.file_blocks);
        let end = end.unwrap_or_default();
        let (block, used) = (block_of(end.position), offset_of(end.position));
        let mut open = new_chunk(options.chunk_blocks);
        if used != HEADER + end.tail.len() || used + LENGTH > BLOCK {
            return Err(files.damaged(block, used, "the checkpoint remembers an end that is none"));
        }
        open[HEADER..used].copy_from_slice(&end.tail);
        if !is_whole(&open, used) {
            return Err(files.damaged(block, used, "the checkpoint remembers records that are none"));
        }
        let start = files.cut_to(block, block_of(options.needed_from).min(block))?;
        if start < block {
            // One look at the last block tells the files of another log or another kind.
            files.read_checked(block - 1, &mut [0; BLOCK])?;
        }
        let mut opened = BlockFiles {
            shared: Arc::new(Shared::new(files, start, block)),
            chunk_blocks: options.chunk_blocks,
            open,
            open_first: block,
            block,
            used,
            queue: VecDeque::new(),
        };
        opened.publish();
        Ok(opened)
    }

    /// Adds a record and tells its position. Touches memory only.
    ///
    /// # Panics
    /// If the record is longer than [`RECORD_MAX`].
    pub(crate) fn append(&mut self, record: &[u8]) -> u64 {
        assert!(record.len() <= RECORD_MAX, "a record of {} bytes does not fit a block", record.len());
        if self.used + LENGTH + record.len() > BLOCK {
            self.close_block();
        }
        let position = position_of(self.block, self.used);
        let begin = self.open.len() - BLOCK + self.used;
        let length = u16::try_from(record.len()).expect("a record fits a block");
        let room = &mut self.open[begin..begin + LENGTH + record.len()];
        room[..LENGTH].copy_from_slice(&length.to_le_bytes());
        room[LENGTH..].copy_from_slice(record);
        self.used += LENGTH + record.len();
        if self.used + LENGTH > BLOCK {
            self.close_block();
        }
        position
    }

    /// Lets readers see what was appended. Once per frame is enough.
    pub(crate) fn publish(&mut self) {
        let mut seen = self.shared.seen_mut();
        // The block in which readers saw the end is copied again: its header may be new.
        let from = offset_in(block_of(seen.end).max(self.open_first) - self.open_first);
        let filled = self.open.len() - BLOCK + self.used;
        seen.open.truncate(from);
        seen.open.extend_from_slice(&self.open[from..filled]);
        seen.end = position_of(self.block, self.used);
    }

    /// The next full chunk to write, oldest first. Jobs must run in the order in which they are handed out.
    pub(crate) fn take_job(&mut self) -> Option<WriteJob> {
        self.queue.pop_front().map(|chunk| WriteJob { shared: Arc::clone(&self.shared), chunk })
    }

    /// As [`BlockFiles::take_job`], and in the end what whole blocks there are. A checkpoint calls it until it
    /// gives nothing.
    pub(crate) fn flush_job(&mut self) -> Option<WriteJob> {
        if self.block > self.open_first {
            self.seal_chunk();
        }
        self.take_job()
    }

    /// Chunks in memory that are not in the files yet, whether handed out or not. The owner bounds it.
    #[cfg(test)]
    pub(crate) fn pending_chunks(&self) -> usize {
        self.shared.seen().pending.len()
    }

    /// Where the records end now, published or not.
    pub(crate) fn end(&self) -> End {
        let block = self.open.len() - BLOCK;
        let tail = self.open[block + HEADER..block + self.used].to_vec();
        End { position: position_of(self.block, self.used), tail }
    }

    /// What makes written blocks durable.
    pub(crate) fn sync_handle(&self) -> Syncer {
        Syncer { shared: Arc::clone(&self.shared) }
    }

    /// A view for readers on any thread.
    pub(crate) fn reader(&self) -> BlockReader {
        BlockReader { shared: Arc::clone(&self.shared) }
    }

    /// Puts the record at `position` into `out`, whether it was published or not. Otherwise as
    /// [`BlockReader::read_into`].
    pub(crate) fn read_into(&self, position: u64, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let (block, offset) = (block_of(position), offset_of(position));
        let end = position_of(self.block, self.used);
        if block < self.open_first || position >= end {
            return self.shared.read_into(position, Some(end), out);
        }
        let bytes = &self.open[offset_in(block - self.open_first)..][..BLOCK];
        let used = if block == self.block { self.used } else { used(bytes) };
        let none = || self.shared.files.damaged(block, offset, "no record begins there");
        out.clear();
        out.extend_from_slice(record_at(bytes, used, offset).ok_or_else(none)?);
        Ok(true)
    }

    /// Gives up the files that lie wholly before `position` and are wholly written. Readers miss them from now
    /// on; the job removes them. A checkpoint must no longer need what goes: it cannot come again.
    pub(crate) fn remove_before(&mut self, position: u64) -> Option<RemoveJob> {
        let mut seen = self.shared.seen_mut();
        let files = &self.shared.files;
        let start = files.file_of(block_of(position).min(seen.written));
        if start <= seen.start {
            return None;
        }
        let from = std::mem::replace(&mut seen.start, start);
        drop(seen);
        Some(RemoveJob { shared: Arc::clone(&self.shared), from, to: start })
    }

    fn close_block(&mut self) {
        let begin = self.open.len() - BLOCK;
        self.shared.files.stamp.seal(&mut self.open[begin..], self.block, self.used);
        self.block += 1;
        self.used = HEADER;
        let length = self.open.len();
        self.open.set_len(length + BLOCK);
        // A chunk never crosses files.
        if length / BLOCK >= self.chunk_blocks || self.shared.files.file_of(self.block) == self.block {
            self.seal_chunk();
        }
    }

    /// Makes a chunk of the whole blocks; the one being filled begins the next.
    fn seal_chunk(&mut self) {
        let whole = self.open.len() - BLOCK;
        let mut next = new_chunk(self.chunk_blocks);
        next[..self.used].copy_from_slice(&self.open[whole..whole + self.used]);
        let mut bytes = std::mem::replace(&mut self.open, next);
        bytes.set_len(whole);
        let chunk = Arc::new(Chunk { first: self.open_first, bytes });
        self.open_first = self.block;
        self.queue.push_back(Arc::clone(&chunk));
        let mut seen = self.shared.seen_mut();
        debug_assert_eq!(seen.pending.back().map_or(seen.written, |last| last.after()), chunk.first);
        seen.pending.push_back(chunk);
        seen.open_first = self.block;
        seen.open.clear();
        // More than readers may see, but they look no further than the end.
        seen.open.extend_from_slice(&self.open[..self.used]);
    }
}

/// Room for a chunk and the block that is begun before the chunk is sealed; one block long.
fn new_chunk(blocks: usize) -> AlignedBuf {
    let mut chunk = AlignedBuf::with_capacity((blocks + 1) * BLOCK);
    chunk.set_len(BLOCK);
    chunk
}
