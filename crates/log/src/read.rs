//! Readers beside the writer: they share its index of segments and never read past what is durable.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::LogError;
use crate::blocks::{Blocks, Found};
use crate::frame::{BLOCK_U64, Frame, FrameHeader};
use crate::log::{FrameSource, Frames, ReadLog};
use crate::segment::SegmentFile;
use holdfast_disk::FileSystem;
use holdfast_disk::LogId;

/// One position is remembered per this many bytes of a segment: a reader that starts anywhere walks at most so far.
const MARK_BYTES: u64 = 256 * 1024;

/// Where everything is. Written by the appender, after the sync.
#[derive(Default)]
pub(crate) struct Index {
    segments: Vec<Indexed>,
    end: u64,
}

struct Indexed {
    base: u64,
    path: PathBuf,
    /// Position after the last durable frame.
    filled: u64,
    /// (offset, position) of some frames.
    marks: Vec<(u64, u64)>,
}

impl Index {
    /// Adds an empty segment after the others.
    pub fn add_segment(&mut self, segment: &SegmentFile) {
        let SegmentFile { base, path } = segment.clone();
        self.end = base;
        self.segments.push(Indexed { base, path, filled: BLOCK_U64, marks: Vec::new() });
    }

    /// Adds a frame to the last segment.
    pub fn add_frame(&mut self, header: &FrameHeader, position: u64, padded_len: u64) {
        let Some(segment) = self.segments.last_mut() else { return };
        debug_assert_eq!(position, segment.filled);
        if segment.marks.last().is_none_or(|&(_, at)| position - at >= MARK_BYTES) {
            segment.marks.push((header.base_offset, position));
        }
        segment.filled = position + padded_len;
        self.end = header.end_offset();
    }

    /// The first offset there is.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(self.end, |segment| segment.base)
    }

    /// Forgets the segments whose frames all end at or before `offset`, and returns their files. The last
    /// segment always stays.
    pub fn take_before(&mut self, offset: u64) -> Vec<PathBuf> {
        let mut gone = self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1);
        gone = gone.min(self.segments.len().saturating_sub(1));
        self.segments.drain(..gone).map(|segment| segment.path).collect()
    }
}

/// Gives out cursors over a [`SegmentLog`](crate::SegmentLog).
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
        Ok(Frames::new(SharedFrames {
            fs: Arc::clone(&self.fs),
            log_id: self.log_id,
            index: Arc::clone(&self.index),
            from: offset,
            cursor: None,
        }))
    }
}

struct SharedFrames {
    fs: Arc<dyn FileSystem>,
    log_id: LogId,
    index: Arc<RwLock<Index>>,
    /// Frames that end at or before this are skipped.
    from: u64,
    cursor: Option<Cursor>,
}

struct Cursor {
    base: u64,
    path: PathBuf,
    blocks: Blocks,
    position: u64,
    offset: u64,
}

impl SharedFrames {
    /// Puts the cursor on the next durable frame; `false` if there is none yet.
    fn place(&mut self) -> Result<bool, LogError> {
        let index = read(&self.index);
        let wanted = self.cursor.as_ref().map_or(self.from, |cursor| cursor.offset);
        if wanted >= index.end {
            return Ok(false);
        }
        if wanted < index.start() {
            return Err(LogError::BeforeStart { offset: wanted, start: index.start() });
        }
        let segment = &index.segments[index.segments.partition_point(|s| s.base <= wanted) - 1];
        if let Some(cursor) = &mut self.cursor
            && cursor.base == segment.base
        {
            cursor.blocks.raise_limit(segment.filled);
            return Ok(true);
        }
        let mark = segment.marks.partition_point(|&(offset, _)| offset <= wanted).checked_sub(1);
        let (offset, position) = mark.map_or((segment.base, BLOCK_U64), |mark| segment.marks[mark]);
        let (base, path, filled) = (segment.base, segment.path.clone(), segment.filled);
        drop(index);
        let file = self.fs.open_read(&path).map_err(LogError::io("open", &path))?;
        self.cursor = Some(Cursor { base, path, blocks: Blocks::new(file, filled), position, offset });
        Ok(true)
    }
}

impl FrameSource for SharedFrames {
    fn next_into(&mut self, frame: &mut Frame) -> Result<bool, LogError> {
        while self.place()? {
            let Some(cursor) = &mut self.cursor else { return Ok(false) };
            let found = cursor
                .blocks
                .frame_at(cursor.position, cursor.offset, &self.log_id)
                .map_err(LogError::io("read", &cursor.path))?;
            let what = match found {
                Found::Frame { header, payload, padded_len } => {
                    cursor.position += padded_len;
                    cursor.offset = header.end_offset();
                    if header.end_offset() <= self.from {
                        continue;
                    }
                    frame.header = header;
                    frame.payload.clear();
                    frame.payload.extend_from_slice(cursor.blocks.bytes(payload));
                    return Ok(true);
                }
                Found::Nothing => "nothing is written there".to_owned(),
                Found::Fault(fault) => fault.to_string(),
            };
            return Err(LogError::Corrupt {
                file: cursor.path.clone(),
                position: cursor.position,
                offset: cursor.offset,
                found: format!("{what}, yet the frame had been durable"),
            });
        }
        Ok(false)
    }
}

fn read(index: &RwLock<Index>) -> RwLockReadGuard<'_, Index> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}
