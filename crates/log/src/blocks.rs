//! Sequential reading of one segment in big pieces, frame by frame, and the search for what follows damage.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::frame::{BLOCK, BLOCK_U64, FRAME_HEADER, FrameFault, FrameHeader, SoundHeader, parse_header};
use holdfast_disk::File;
use holdfast_disk::LogId;

/// The first read of a cursor: enough for one frame of a quiet system.
const READ_FIRST: usize = 64 * 1024;
/// Reads grow up to this (and beyond it only for a frame that is larger).
const READ_MAX: usize = 1024 * 1024;

static ZERO_BLOCK: [u8; BLOCK] = [0; BLOCK];

/// A window over a file that moves forward.
pub(crate) struct Blocks {
    file: Arc<dyn File>,
    window: Vec<u8>,
    /// Position of the window's first byte.
    start: u64,
    /// Bytes of the window that are filled.
    filled: usize,
    /// Nothing is read at or past this position.
    limit: u64,
    read_size: usize,
}

/// What stands at a position.
pub(crate) enum Found {
    /// A whole frame. Its payload lies in [`Blocks::bytes`] of this range until the next call.
    Frame {
        header: FrameHeader,
        payload: Range<usize>,
        /// Bytes on disk, padding included.
        padded_len: u64,
    },
    /// Zeros, or the limit: nothing was written here.
    Nothing,
    /// Something that is not a frame.
    Fault(FrameFault),
}

/// What stands after the last sound frame of a segment.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// First and one-past-last byte of the blocks that are not zero.
    pub dirty: Option<(u64, u64)>,
    /// Position and base offset of a frame whose header is sound: everything before it had been durable.
    pub later_frame: Option<(u64, u64)>,
}

impl Blocks {
    /// A window that reads `file` up to `limit`.
    pub fn new(file: Arc<dyn File>, limit: u64) -> Self {
        Self { file, window: Vec::new(), start: 0, filled: 0, limit, read_size: READ_FIRST }
    }

    /// Allows reading further; what was read stays valid, since it lay below the old limit.
    pub fn raise_limit(&mut self, limit: u64) {
        debug_assert!(limit >= self.limit);
        self.limit = limit;
    }

    /// Forgets what was read, for a file that another process writes.
    pub fn forget(&mut self) {
        self.filled = 0;
    }

    /// Makes `need` bytes at `position` available, fewer only at the limit or the end of the file. Returns where
    /// they begin in the window, and how many there are.
    fn fill(&mut self, position: u64, need: usize) -> io::Result<(usize, usize)> {
        let available = |blocks: &Self| {
            let skip = usize::try_from(position.checked_sub(blocks.start)?).ok()?;
            Some((skip, blocks.filled.checked_sub(skip)?))
        };
        let below_limit = usize::try_from(self.limit.saturating_sub(position)).unwrap_or(usize::MAX);
        let need = need.min(below_limit);
        if let Some((skip, have)) = available(self)
            && have >= need
        {
            return Ok((skip, have));
        }
        // Keep what is there already, then read on behind it.
        let kept = match available(self) {
            Some((skip, have)) => {
                self.window.copy_within(skip..skip + have, 0);
                have
            }
            None => 0,
        };
        let want = need.max(self.read_size).min(below_limit);
        self.read_size = (self.read_size * 2).min(READ_MAX);
        if self.window.len() < want {
            self.window.resize(want, 0);
        }
        let read = self.file.read_full_at(&mut self.window[kept..want], position + kept as u64)?;
        self.start = position;
        self.filled = kept + read;
        Ok((0, self.filled))
    }

    /// Looks at `position` for a frame that begins at offset `expected`.
    pub fn frame_at(&mut self, position: u64, expected: u64, log_id: &LogId) -> io::Result<Found> {
        let sound = match self.header_at(position, log_id)? {
            Ok(None) => return Ok(Found::Nothing),
            Ok(Some(sound)) => sound,
            Err(fault) => return Ok(Found::Fault(fault)),
        };
        if sound.padded_len() > self.limit - position {
            return Ok(Found::Fault(FrameFault::PastEnd));
        }
        let len = FRAME_HEADER + sound.payload_len;
        let (at, have) = self.fill(position, len)?;
        if have < len {
            return Ok(Found::Fault(FrameFault::PastEnd));
        }
        let payload = at + FRAME_HEADER..at + len;
        if let Err(fault) = sound.check_payload(&self.window[payload.clone()]) {
            return Ok(Found::Fault(fault));
        }
        if sound.header.base_offset != expected {
            return Ok(Found::Fault(FrameFault::WrongOffset { found: sound.header.base_offset }));
        }
        let padded_len = sound.padded_len();
        Ok(Found::Frame { header: sound.header, payload, padded_len })
    }

    /// The bytes that [`Found::Frame`] points to.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.window[range]
    }

    /// Looks at `position` for a frame header; `None` where the block is zero.
    fn header_at(
        &mut self,
        position: u64,
        log_id: &LogId,
    ) -> io::Result<Result<Option<SoundHeader>, FrameFault>> {
        let (at, have) = self.fill(position, BLOCK)?;
        let block = &self.window[at..at + have.min(BLOCK)];
        if is_zero(block) {
            return Ok(Ok(None));
        }
        Ok(parse_header(block, log_id).map(Some))
    }

    /// Reads everything from `position` to the limit: which blocks are not zero, and whether a frame at or after
    /// offset `expected` begins at a block after the first.
    pub fn inspect_rest(&mut self, position: u64, expected: u64, log_id: &LogId) -> io::Result<Rest> {
        let mut rest = Rest::default();
        let mut here = position;
        while here < self.limit {
            if here >= self.start + self.filled as u64 {
                // Most of a segment was never written: it need not be read.
                let Some(next) = self.file.data_from(here)? else { break };
                here = next / BLOCK_U64 * BLOCK_U64;
            }
            let (at, have) = self.fill(here, BLOCK)?;
            if have == 0 {
                break;
            }
            let block = &self.window[at..at + have.min(BLOCK)];
            if is_zero(block) {
                here += BLOCK_U64;
                continue;
            }
            let first = rest.dirty.map_or(here, |(first, _)| first);
            rest.dirty = Some((first, here + BLOCK_U64));
            if here > position
                && let Ok(sound) = parse_header(block, log_id)
                && sound.header.base_offset >= expected
            {
                rest.later_frame = Some((here, sound.header.base_offset));
                break;
            }
            here += BLOCK_U64;
        }
        Ok(rest)
    }
}

fn is_zero(block: &[u8]) -> bool {
    block == &ZERO_BLOCK[..block.len()]
}
