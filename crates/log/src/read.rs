//! Readers beside the writer: they share its index of segments and never read past what is durable.

use std::sync::{Arc, RwLock};

use crate::LogError;
use crate::blocks::{Blocks, Found};
use crate::frame::{Frame, FrameFault};
use crate::index::{Index, MARK_BYTES, read, write};
use crate::log::{FrameSource, Frames, ReadLog};
use crate::segment::{self, SegmentFile};
use holdfast_disk::FileSystem;
use holdfast_disk::LogId;

/// Gives out cursors over a [`SegmentLog`](crate::SegmentLog).
#[derive(Clone)]
pub(crate) struct SharedReader {
    pub fs: Arc<dyn FileSystem>,
    pub log_id: LogId,
    pub index: Arc<RwLock<Index>>,
}

impl ReadLog for SharedReader {
    fn read_from(&self, offset: u64) -> Result<Frames, LogError> {
        let start = read(&self.index).start();
        if offset < start {
            return Err(LogError::BeforeStart { offset, start });
        }
        Ok(Frames::new(SharedFrames { shared: self.clone(), from: offset, cursor: None }))
    }
}

struct SharedFrames {
    shared: SharedReader,
    /// Frames that end at or before this are skipped.
    from: u64,
    cursor: Option<Cursor>,
}

struct Cursor {
    segment: SegmentFile,
    /// In an unwalked segment, what follows it.
    unwalked: Option<Unwalked>,
    blocks: Blocks,
    position: u64,
    offset: u64,
}

struct Unwalked {
    next: SegmentFile,
    /// Position of the last mark that this cursor knows of.
    marked: u64,
}

impl SharedFrames {
    /// Puts the cursor on the next durable frame; `false` if there is none yet.
    fn place(&mut self) -> Result<bool, LogError> {
        let index = read(&self.shared.index);
        let wanted = self.cursor.as_ref().map_or(self.from, |cursor| cursor.offset);
        if wanted >= index.end() {
            return Ok(false);
        }
        let Some((indexed, next)) = index.segment_of(wanted) else {
            return Err(LogError::BeforeStart { offset: wanted, start: index.start() });
        };
        if let Some(cursor) = &mut self.cursor
            && cursor.segment.base == indexed.file.base
        {
            if let Some(filled) = indexed.filled {
                cursor.blocks.raise_limit(filled);
            }
            return Ok(true);
        }
        let (offset, position) = indexed.near(wanted);
        let (segment, filled, next) =
            (indexed.file.clone(), indexed.filled, next.map(|next| next.file.clone()));
        drop(index);
        let opened = match (filled, next) {
            (None, Some(next)) => self.open_unwalked(&segment, next, position),
            (filled, _) => {
                let file = self.shared.fs.open_read(&segment.path);
                file.map(|file| (Blocks::new(file, filled.unwrap_or(position)), None))
                    .map_err(LogError::io("open", &segment.path))
            }
        };
        let (blocks, unwalked) = opened.map_err(|error| self.or_removed(error, wanted))?;
        self.cursor = Some(Cursor { segment, unwalked, blocks, position, offset });
        Ok(true)
    }

    /// Nobody has looked into this segment since the log was opened.
    fn open_unwalked(
        &self,
        segment: &SegmentFile,
        next: SegmentFile,
        marked: u64,
    ) -> Result<(Blocks, Option<Unwalked>), LogError> {
        let (header, file) = segment::open_read(&*self.shared.fs, segment)?;
        header.check_log_id(self.shared.log_id, segment)?;
        Ok((Blocks::new(file, header.length), Some(Unwalked { next, marked })))
    }

    /// A segment that cannot be opened may have been removed after it was looked up.
    fn or_removed(&self, error: LogError, wanted: u64) -> LogError {
        let start = read(&self.shared.index).start();
        if wanted < start { LogError::BeforeStart { offset: wanted, start } } else { error }
    }
}

impl Cursor {
    /// No sound frame stands at the cursor, though one had been durable.
    fn damage(&mut self, fault: Option<FrameFault>, log_id: &LogId) -> LogError {
        let Some(Unwalked { next, .. }) = &self.unwalked else {
            return self.corrupt(fault, "the frame had been durable");
        };
        if fault.is_none() {
            // Zeros up to the end: then this segment is whole, and what is missing stood in another file.
            match self.blocks.inspect_rest(self.position, self.offset, log_id) {
                Err(error) => return LogError::io("read", &self.segment.path)(error),
                Ok(rest) if rest.dirty.is_none() => {
                    let dir = self.segment.path.parent().map(ToOwned::to_owned).unwrap_or_default();
                    return LogError::Gap { dir, offset: self.offset, next: next.path.clone() };
                }
                Ok(_) => {}
            }
        }
        self.corrupt(fault, &format!("the segment of offset {} follows", next.base))
    }

    fn corrupt(&self, fault: Option<FrameFault>, why_damage: &str) -> LogError {
        LogError::corrupt(&self.segment.path, (self.position, self.offset), fault, why_damage)
    }
}

impl FrameSource for SharedFrames {
    fn next_into(&mut self, frame: &mut Frame) -> Result<bool, LogError> {
        let log_id = self.shared.log_id;
        while self.place()? {
            let Some(cursor) = &mut self.cursor else { return Ok(false) };
            let found = cursor
                .blocks
                .frame_at(cursor.position, cursor.offset, &log_id)
                .map_err(LogError::io("read", &cursor.segment.path))?;
            let (header, payload, padded_len) = match found {
                Found::Frame { header, payload, padded_len } => (header, payload, padded_len),
                Found::Nothing => return Err(cursor.damage(None, &log_id)),
                Found::Fault(fault) => return Err(cursor.damage(Some(fault), &log_id)),
            };
            if let Some(unwalked) = &mut cursor.unwalked {
                if header.end_offset() > unwalked.next.base {
                    let fault = FrameFault::WrongOffset { found: header.base_offset };
                    return Err(cursor.damage(Some(fault), &log_id));
                }
                if cursor.position - unwalked.marked >= MARK_BYTES {
                    write(&self.shared.index).mark_unwalked(
                        cursor.segment.base,
                        cursor.offset,
                        cursor.position,
                    );
                    unwalked.marked = cursor.position;
                }
            }
            cursor.position += padded_len;
            cursor.offset = header.end_offset();
            if header.end_offset() > self.from {
                frame.header = header;
                frame.payload.clear();
                frame.payload.extend_from_slice(cursor.blocks.bytes(payload));
                return Ok(true);
            }
        }
        Ok(false)
    }
}
