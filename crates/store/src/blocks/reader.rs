//! Reading, from any thread, beside the one that appends.

use std::sync::Arc;

use holdfast_disk::BLOCK;

use super::CHUNK_BLOCKS;
use super::format::{HEADER, Records, block_of, offset_of, position_of};
use super::shared::{Shared, offset_in};
use crate::StoreError;

/// Reads what was published.
#[derive(Clone)]
pub struct BlockReader {
    pub(super) shared: Arc<Shared>,
}

impl BlockReader {
    /// The record at `position`; `None` if it was removed. A position where no record begins, or one after what
    /// was published, is damage: positions come from records and indexes that name existing records only.
    ///
    /// # Errors
    /// If the disk does not hold what was written to it.
    pub fn read(&self, position: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut record = Vec::new();
        Ok(self.read_into(position, &mut record)?.then_some(record))
    }

    /// As [`BlockReader::read`], into memory that is used again. `false`: the record was removed.
    pub(crate) fn read_into(&self, position: u64, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.shared.read_into(position, None, out)
    }

    /// Where the first record that is still there begins, or will begin.
    #[must_use]
    pub fn start(&self) -> u64 {
        position_of(self.shared.seen().start, HEADER)
    }

    /// Where what was published ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.shared.seen().end
    }

    /// The records from `from` on, as far as they begin before `to` and are published now. `from` is where a
    /// record begins, where the records once ended, or where a block begins; anything else is damage. What was
    /// removed, before or meanwhile, is left out: the positions tell. Ends after the first error.
    pub fn scan(
        &self,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>), StoreError>> + use<> {
        Scan {
            blocks: Blocks::new(Arc::clone(&self.shared), block_of(from), to),
            from,
            records: Vec::new().into_iter(),
        }
    }

    /// What stands at that place is sound and yet not what should stand there.
    #[must_use]
    pub fn damaged(&self, position: u64, found: &str) -> StoreError {
        StoreError::damaged(&self.shared.files.dir, position, found)
    }

    /// Reads and checks every block that is published and begins before `to`; returns the number of records
    /// before `to`.
    #[cfg(test)]
    pub(crate) fn verify(&self, to: u64) -> Result<u64, StoreError> {
        let mut blocks = Blocks::new(Arc::clone(&self.shared), 0, to);
        // A block in a file can hold records that are not published.
        let (to, mut count) = (blocks.to, 0);
        while let Some(Block { number, bytes, used }) = blocks.next()? {
            if bytes[used..].iter().any(|byte| *byte != 0) {
                return Err(self.shared.files.damaged(number, used, "the rest of the block is not zero"));
            }
            count += Records::new(bytes, used).filter(|(at, _)| position_of(number, *at) < to).count() as u64;
        }
        Ok(count)
    }
}

/// Records in order, with their positions.
struct Scan {
    blocks: Blocks,
    from: u64,
    /// What is left of the last block.
    records: std::vec::IntoIter<(u64, Vec<u8>)>,
}

impl Iterator for Scan {
    type Item = Result<(u64, Vec<u8>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(Ok(record));
            }
            match self.next_block() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.blocks.to = 0;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Scan {
    fn next_block(&mut self) -> Result<bool, StoreError> {
        let (from, to) = (self.from, self.blocks.to);
        let Some(Block { number, bytes, used }) = self.blocks.next()? else { return Ok(false) };
        let begin = offset_of(from);
        if number == block_of(from) && begin > HEADER && begin != used {
            let begins = Records::new(bytes, used).any(|(at, _)| at == begin);
            if !begins {
                return Err(self.blocks.shared.files.damaged(number, begin, "no record begins there"));
            }
        }
        let records = Records::new(bytes, used).map(|(at, record)| (position_of(number, at), record));
        let wanted = records.filter(|(position, _)| (from..to).contains(position));
        self.records =
            wanted.map(|(position, record)| (position, record.to_vec())).collect::<Vec<_>>().into_iter();
        Ok(true)
    }
}

/// A checked block, and how many of its bytes count.
struct Block<'a> {
    number: u64,
    bytes: &'a [u8],
    used: usize,
}

/// Checked blocks in order, read a chunk at a time.
struct Blocks {
    shared: Arc<Shared>,
    /// The next block to show, and the position before which blocks begin.
    next: u64,
    to: u64,
    /// Blocks that were read, from `first` on, and the used bytes of each; `None`: not checked yet.
    first: u64,
    bytes: Vec<u8>,
    used: Vec<Option<usize>>,
}

impl Blocks {
    fn new(shared: Arc<Shared>, next: u64, to: u64) -> Blocks {
        let to = to.min(shared.seen().end);
        Blocks { shared, next, to, first: 0, bytes: Vec::new(), used: Vec::new() }
    }

    /// The next block.
    fn next(&mut self) -> Result<Option<Block<'_>>, StoreError> {
        let held = self.first..self.first + self.used.len() as u64;
        if !held.contains(&self.next) && !self.fill()? {
            return Ok(None);
        }
        let (number, at) = (self.next, offset_in(self.next - self.first));
        self.next += 1;
        let bytes = &self.bytes[at..self.bytes.len().min(at + BLOCK)];
        let used = match self.used[at / BLOCK] {
            Some(used) => used,
            None => self.shared.files.check(bytes, number)?,
        };
        Ok(Some(Block { number, bytes, used }))
    }

    /// Reads on; `false` at the end.
    fn fill(&mut self) -> Result<bool, StoreError> {
        loop {
            self.bytes.clear();
            self.used.clear();
            let seen = self.shared.seen();
            self.next = self.next.max(seen.start);
            self.first = self.next;
            if position_of(self.next, HEADER) >= self.to {
                return Ok(false);
            }
            // The block after the last one that begins before `to`.
            let after = block_of(self.to - HEADER as u64 - 1) + 1;
            let most = self.next + CHUNK_BLOCKS as u64;
            if self.next >= seen.written {
                for block in self.next..after.min(most) {
                    let (bytes, used) = seen.in_memory(block, seen.end);
                    self.bytes.resize(offset_in(block - self.first), 0);
                    self.bytes.extend_from_slice(&bytes[..used]);
                    self.used.push(Some(used));
                }
                return Ok(true);
            }
            let files = &self.shared.files;
            let file_end = files.file_of(self.next) + files.file_blocks;
            let after = after.min(most).min(file_end).min(seen.written);
            drop(seen);
            let blocks = after - self.first;
            self.bytes.resize(offset_in(blocks), 0);
            match files.read(self.first, &mut self.bytes) {
                Ok(()) => {
                    self.used.resize(offset_in(blocks) / BLOCK, None);
                    return Ok(true);
                }
                // The file may have been removed since we looked; then go on behind it.
                Err(_) if self.next < self.shared.seen().start => {}
                Err(error) => return Err(error),
            }
        }
    }
}
