//! Verified blocks of one kind, one after the other, read in large pieces.

use std::path::Path;

use holdfast_disk::{BLOCK, File};

use super::format::{self, BLOCK_BYTES, ITEM_BYTES, Section};
use super::write::PIECE;
use crate::StoreError;

const PIECE_BLOCKS: usize = PIECE / BLOCK;

/// Walks through a section. Shows no block before its checksum was tested.
pub(super) struct BlockReader<'a> {
    file: &'a dyn File,
    path: &'a Path,
    seed: u32,
    section: Section,
    /// Index in the section of the block to be shown next.
    next: u64,
    /// Whole blocks; those before `at` have been shown.
    buf: Vec<u8>,
    at: usize,
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(file: &'a dyn File, path: &'a Path, seed: u32, section: Section) -> BlockReader<'a> {
        BlockReader { file, path, seed, section, next: 0, buf: Vec::new(), at: 0 }
    }

    /// Goes on to the next block and says how many items it has; `None` after the last.
    pub(super) fn advance(&mut self) -> Result<Option<usize>, StoreError> {
        if self.next == self.section.blocks() {
            return Ok(None);
        }
        let number = self.section.first + self.next;
        if self.at == self.buf.len() {
            self.fill(number)?;
        }
        let items = self.section.items_in(self.next);
        let block = &self.buf[self.at..self.at + BLOCK];
        format::check_block(self.path, block, self.seed, number, items)?;
        self.at += BLOCK;
        self.next += 1;
        Ok(Some(items))
    }

    /// The items of the block that [`Self::advance`] went to, as arrays of their size.
    pub(super) fn items<const N: usize>(&self) -> &[[u8; N]] {
        let block = &self.buf[self.at - BLOCK..self.at];
        let items = self.section.items_in(self.next - 1);
        &block[..ITEM_BYTES].as_chunks().0[..items]
    }

    /// Index in the section of that block.
    pub(super) fn index(&self) -> u64 {
        self.next - 1
    }

    /// Where that block begins in the file.
    pub(super) fn position(&self) -> u64 {
        (self.section.first + self.index()) * BLOCK_BYTES
    }

    fn fill(&mut self, number: u64) -> Result<(), StoreError> {
        let left = self.section.blocks() - self.next;
        let blocks = usize::try_from(left).map_or(PIECE_BLOCKS, |left| left.min(PIECE_BLOCKS));
        self.buf.resize(blocks * BLOCK, 0);
        self.at = 0;
        read_whole(self.file, self.path, &mut self.buf, number * BLOCK_BYTES)
    }
}

/// Fills `buf`; a file that ends before that has lost something.
pub(super) fn read_whole(
    file: &dyn File,
    path: &Path,
    buf: &mut [u8],
    position: u64,
) -> Result<(), StoreError> {
    let read = file.read_full_at(buf, position).map_err(StoreError::io("read", path))?;
    if read < buf.len() {
        return Err(StoreError::damaged(path, position + read as u64, "the file ends too early"));
    }
    Ok(())
}
