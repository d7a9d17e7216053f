//! Where the bytes of a run stand, and their checksums. The table is in the module above.

use std::path::Path;

use holdfast_disk::{BLOCK, LogId};

use super::bloom::{Filter, Line};
use super::{Entry, RunFolder, RunName, hash_id};
use crate::StoreError;

pub(super) const MAGIC: [u8; 8] = *b"HOLDFRUN";
pub(super) const VERSION: u16 = 1;
pub(super) const BLOCK_BYTES: u64 = BLOCK as u64;

/// Bytes of a block that are items; the block's end follows.
pub(super) const ITEM_BYTES: usize = 4080;
const COUNT: usize = 4088;
const CRC: usize = 4092;

pub(super) const ENTRY: usize = 24;
pub(super) const FENCE: usize = 16;
pub(super) const LINE: usize = 64;
pub(super) const ENTRIES_PER_BLOCK: usize = ITEM_BYTES / ENTRY;
pub(super) const FENCES_PER_BLOCK: usize = ITEM_BYTES / FENCE;
pub(super) const LINES_PER_BLOCK: usize = ITEM_BYTES / LINE;

/// No run has more ids or lines than this, so that no sum below overflows.
const RUN_IDS_MAX: u64 = 1 << 40;

/// The id whose hash tells one key, or one hash function, from another.
const TOUCHSTONE: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

/// Blocks of one kind, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    /// The number of its first block in the file.
    pub first: u64,
    pub items: u64,
    pub per_block: usize,
}

impl Section {
    pub(super) fn blocks(&self) -> u64 {
        self.items.div_ceil(self.per_block as u64)
    }

    fn end(&self) -> u64 {
        self.first + self.blocks()
    }

    /// How many items the block with that index in the section has.
    pub(super) fn items_in(&self, index: u64) -> usize {
        let before = index * self.per_block as u64;
        usize::try_from(self.items.saturating_sub(before)).map_or(self.per_block, |n| n.min(self.per_block))
    }
}

/// What the first block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub log_id: LogId,
    pub name: RunName,
    pub key_check: u64,
    pub count: u64,
    pub smallest: u128,
    pub largest: u128,
    pub lines: u64,
}

impl Header {
    /// The header of a run that is about to be written.
    pub(super) fn new(folder: &RunFolder, name: RunName, count: u64, ends: (u128, u128)) -> Header {
        assert!((1..=RUN_IDS_MAX).contains(&count), "a run holds 1 to {RUN_IDS_MAX} ids, not {count}");
        Header {
            log_id: folder.log_id,
            name,
            key_check: hash_id(folder.key, TOUCHSTONE),
            count,
            smallest: ends.0,
            largest: ends.1,
            lines: Filter::lines_for(count),
        }
    }

    pub(super) fn data(&self) -> Section {
        Section { first: 1, items: self.count, per_block: ENTRIES_PER_BLOCK }
    }

    pub(super) fn fences(&self) -> Section {
        Section { first: self.data().end(), items: self.data().blocks(), per_block: FENCES_PER_BLOCK }
    }

    pub(super) fn filter(&self) -> Section {
        Section { first: self.fences().end(), items: self.lines, per_block: LINES_PER_BLOCK }
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.filter().end() * BLOCK_BYTES
    }

    /// Where the checksums of its blocks begin: a block of another log or another run fails them.
    pub(super) fn seed(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.log_id.0), &self.name.0.to_le_bytes())
    }

    pub(super) fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[0..8].copy_from_slice(&MAGIC);
        block[8..10].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.log_id.0);
        block[32..40].copy_from_slice(&self.name.0.to_le_bytes());
        block[40..48].copy_from_slice(&self.key_check.to_le_bytes());
        block[48..56].copy_from_slice(&self.count.to_le_bytes());
        block[56..72].copy_from_slice(&self.smallest.to_le_bytes());
        block[72..88].copy_from_slice(&self.largest.to_le_bytes());
        block[88..96].copy_from_slice(&self.data().blocks().to_le_bytes());
        block[96..104].copy_from_slice(&self.fences().blocks().to_le_bytes());
        block[104..112].copy_from_slice(&self.lines.to_le_bytes());
        block[112..120].copy_from_slice(&self.filter().blocks().to_le_bytes());
        block[120..128].copy_from_slice(&self.file_bytes().to_le_bytes());
        let crc = crc32c::crc32c(&block[..CRC]);
        block[CRC..].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads the header at the beginning of a file of `length` bytes. Whose run it is comes later: [`Self::expect`].
    pub(super) fn decode(block: &[u8; BLOCK], path: &Path, length: u64) -> Result<Header, StoreError> {
        if block[0..8] != MAGIC {
            return Err(StoreError::damaged(path, 0, "it does not begin as a run of ids does"));
        }
        if crc32c::crc32c(&block[..CRC]) != u32::from_le_bytes(array_at(block, CRC)) {
            return Err(StoreError::damaged(path, 0, "the header fails its checksum"));
        }
        let found = u16::from_le_bytes(array_at(block, 8));
        if found != VERSION {
            return Err(StoreError::UnsupportedVersion { file: path.to_owned(), found, known: VERSION });
        }
        let number = |at| u64::from_le_bytes(array_at(block, at));
        let header = Header {
            log_id: LogId(array_at(block, 16)),
            name: RunName(number(32)),
            key_check: number(40),
            count: number(48),
            smallest: u128::from_le_bytes(array_at(block, 56)),
            largest: u128::from_le_bytes(array_at(block, 72)),
            lines: number(104),
        };
        let bounds = 1..=RUN_IDS_MAX;
        if !bounds.contains(&header.count) || !bounds.contains(&header.lines) || header.encode() != *block {
            return Err(StoreError::damaged(path, 0, "the fields of the header contradict each other"));
        }
        if length != header.file_bytes() {
            let found = format!("it has {length} bytes and was written with {}", header.file_bytes());
            return Err(StoreError::damaged(path, length.min(header.file_bytes()), found));
        }
        Ok(header)
    }

    /// Refuses a run of another log, under another's name, or with a filter that other hashes made.
    pub(super) fn expect(&self, path: &Path, name: RunName, folder: &RunFolder) -> Result<(), StoreError> {
        if self.log_id != folder.log_id {
            let file = path.to_owned();
            return Err(StoreError::Foreign { file, found: self.log_id, expected: folder.log_id });
        }
        if self.name != name {
            return Err(StoreError::damaged(path, 32, format!("it was written as {}", self.name)));
        }
        if self.key_check != hash_id(folder.key, TOUCHSTONE) {
            let found = "its filter was made with another key or hash function than this directory's";
            return Err(StoreError::damaged(path, 40, found));
        }
        Ok(())
    }
}

/// Writes the end of a block whose items are in place.
pub(super) fn close_block(block: &mut [u8], seed: u32, number: u64, items: usize) {
    let items = u32::try_from(items).expect("a block has at most 255 items");
    block[ITEM_BYTES..COUNT].copy_from_slice(&number.to_le_bytes());
    block[COUNT..CRC].copy_from_slice(&items.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &block[..CRC]);
    block[CRC..].copy_from_slice(&crc.to_le_bytes());
}

/// Tests a block against its checksum, and against where it should stand and what it should hold.
pub(super) fn check_block(
    path: &Path,
    block: &[u8],
    seed: u32,
    number: u64,
    items: usize,
) -> Result<(), StoreError> {
    let damaged = |found: String| Err(StoreError::damaged(path, number * BLOCK_BYTES, found));
    if crc32c::crc32c_append(seed, &block[..CRC]) != u32::from_le_bytes(array_at(block, CRC)) {
        return damaged(format!("block {number} fails its checksum"));
    }
    let stands = u64::from_le_bytes(array_at(block, ITEM_BYTES));
    if stands != number {
        return damaged(format!("block {stands} stands where block {number} should"));
    }
    let has = u32::from_le_bytes(array_at(block, COUNT));
    if usize::try_from(has).ok() != Some(items) {
        return damaged(format!("block {number} has {has} items instead of {items}"));
    }
    Ok(())
}

impl Entry {
    pub(super) fn encode(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[16..].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; ENTRY]) -> Entry {
        Entry { id: id_of(bytes), place: u64::from_le_bytes(array_at(bytes, 16)) }
    }
}

/// The id of an entry.
pub(super) fn id_of(entry: &[u8; ENTRY]) -> u128 {
    u128::from_le_bytes(array_at(entry, 0))
}

impl Line {
    pub(super) fn encode(self) -> [u8; LINE] {
        let mut bytes = [0; LINE];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8; LINE]) -> Line {
        Line(std::array::from_fn(|word| u64::from_le_bytes(array_at(bytes, 8 * word))))
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range has N bytes")
}
