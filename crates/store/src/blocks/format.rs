//! The bytes of a block.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | CRC-32C of bytes 4..4096, seeded with the CRC-32C of the log id and the kind |
//! | 4..6 | used bytes, this header included |
//! | 6 | format version: 1 |
//! | 7 | kind: 1 outcomes, 2 callbacks, 3 spends |
//! | 8..16 | block number |
//! | 16..used | records: length (2 bytes), contents |
//! | used..4096 | zeros |
//!
//! Numbers are little-endian. The seed and the number make a block that belongs elsewhere fail the check: one of
//! another log, of another kind, or one that the disk put in the wrong place.

use holdfast_disk::{BLOCK, LogId};

pub(super) const HEADER: usize = 16;
pub(super) const LENGTH: usize = 2;
/// The longest record: what one block holds.
pub(crate) const RECORD_MAX: usize = BLOCK - HEADER - LENGTH;
pub(super) const VERSION: u8 = 1;
pub(super) const BLOCK_BYTES: u64 = BLOCK as u64;

/// What the records are. Files of one kind are not taken for files of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// How transfers ended.
    Outcomes = 1,
    /// Callbacks to deliver.
    Callbacks = 2,
    /// Spends, and tokens that were consumed without one.
    Spends = 3,
}

/// Why a block is not the one that was written there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged(String),
    Version(u8),
}

/// Seals blocks, and checks that they are what was sealed.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    seed: u32,
    kind: Kind,
}

impl Stamp {
    pub(super) fn new(log_id: LogId, kind: Kind) -> Stamp {
        Stamp { seed: crc32c::crc32c_append(crc32c::crc32c(&log_id.0), &[kind as u8]), kind }
    }

    /// Writes the header of a block whose records end at `used`.
    pub(super) fn seal(self, block: &mut [u8], number: u64, used: usize) {
        let used = u16::try_from(used).expect("a block has 4096 bytes");
        block[4..6].copy_from_slice(&used.to_le_bytes());
        block[6] = VERSION;
        block[7] = self.kind as u8;
        block[8..HEADER].copy_from_slice(&number.to_le_bytes());
        let crc = crc32c::crc32c_append(self.seed, &block[4..BLOCK]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The used bytes of a block that was read as number `number`.
    pub(super) fn check(self, block: &[u8], number: u64) -> Result<usize, Fault> {
        let damaged = |what: &str| Err(Fault::Damaged(what.to_owned()));
        let crc = u32::from_le_bytes(array(block));
        if block.len() != BLOCK || crc != crc32c::crc32c_append(self.seed, &block[4..]) {
            return damaged("the checksum of the block does not match");
        }
        if block[6] != VERSION {
            return Err(Fault::Version(block[6]));
        }
        if block[7] != self.kind as u8 {
            return damaged("the block is of another kind");
        }
        let found = u64::from_le_bytes(array(&block[8..]));
        if found != number {
            return Err(Fault::Damaged(format!("block {found} lies in the place of block {number}")));
        }
        let used = used(block);
        if !(HEADER..=BLOCK).contains(&used) || !is_whole(block, used) {
            return damaged("the lengths of the records do not fill the block");
        }
        Ok(used)
    }
}

/// The used bytes that the header of a sealed block tells.
pub(super) fn used(block: &[u8]) -> usize {
    usize::from(u16::from_le_bytes(array(&block[4..])))
}

/// Whether the records end exactly at `used`.
pub(super) fn is_whole(block: &[u8], used: usize) -> bool {
    let mut records = Records::new(block, used);
    records.by_ref().for_each(drop);
    records.at == used
}

/// The record that begins at this byte of a block; `None` if none does.
pub(super) fn record_at(block: &[u8], used: usize, offset: usize) -> Option<&[u8]> {
    let (at, record) = Records::new(block, used).find(|(at, _)| *at >= offset)?;
    (at == offset).then_some(record)
}

/// The records of a block in order, each with the byte where it begins. Ends early where a length leads past the
/// end; [`is_whole`] tells whether it would.
pub(super) struct Records<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(block: &'a [u8], used: usize) -> Records<'a> {
        Records { block: &block[..used], at: HEADER }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let begin = self.at + LENGTH;
        let length = usize::from(u16::from_le_bytes(array(self.block.get(self.at..begin)?)));
        let record = self.block.get(begin..begin + length)?;
        let at = std::mem::replace(&mut self.at, begin + length);
        Some((at, record))
    }
}

/// The first bytes of a slice that is long enough.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("the slice is as long as the number")
}

/// The number of the block that holds a position.
pub(super) const fn block_of(position: u64) -> u64 {
    position / BLOCK_BYTES
}

/// The byte in its block that a position names.
#[allow(clippy::cast_possible_truncation, reason = "less than 4096")]
pub(super) const fn offset_of(position: u64) -> usize {
    (position % BLOCK_BYTES) as usize
}

/// The position of a byte of a block.
pub(super) fn position_of(block: u64, offset: usize) -> u64 {
    block * BLOCK_BYTES + offset as u64
}
