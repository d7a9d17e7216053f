//! Where everything is: the segments, how far they are filled, and where some of their frames begin.
//!
//! A segment before the point from which the log was opened is **unwalked**: only its name is known. Its frames end
//! where the next segment begins. Readers check it when they get there and leave marks for those who follow.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::frame::{BLOCK_U64, FrameHeader};
use crate::segment::SegmentFile;

/// One position is remembered per this many bytes of a segment: a reader that starts anywhere walks at most so far
/// (in an unwalked segment, from the last mark on).
pub(crate) const MARK_BYTES: u64 = 256 * 1024;

/// Written by the appender, after the sync.
#[derive(Default)]
pub(crate) struct Index {
    segments: Vec<Indexed>,
    end: u64,
}

/// What is known about one segment.
pub(crate) struct Indexed {
    pub file: SegmentFile,
    /// Position after the last durable frame; `None` for an unwalked segment.
    pub filled: Option<u64>,
    /// (offset, position) of some frames.
    marks: Vec<(u64, u64)>,
}

impl Indexed {
    /// Offset and position of a frame at or before `offset`, near it if one is remembered.
    pub fn near(&self, offset: u64) -> (u64, u64) {
        let before = self.marks.partition_point(|&(marked, _)| marked <= offset);
        before.checked_sub(1).map_or((self.file.base, BLOCK_U64), |mark| self.marks[mark])
    }

    fn mark(&mut self, offset: u64, position: u64) {
        if self.marks.last().is_none_or(|&(_, at)| position.saturating_sub(at) >= MARK_BYTES) {
            self.marks.push((offset, position));
        }
    }
}

impl Index {
    /// Adds a segment after the others. It is filled up to there; `None`: only its name is known, and another must follow.
    pub fn add_segment(&mut self, segment: &SegmentFile, filled: Option<u64>) {
        self.end = segment.base;
        self.segments.push(Indexed { file: segment.clone(), filled, marks: Vec::new() });
    }

    /// Adds a frame to the last segment.
    pub fn add_frame(&mut self, header: &FrameHeader, position: u64, padded_len: u64) {
        let Some(segment) = self.segments.last_mut() else { return };
        debug_assert_eq!(Some(position), segment.filled);
        segment.mark(header.base_offset, position);
        segment.filled = Some(position + padded_len);
        self.end = header.end_offset();
    }

    /// Remembers a frame that a reader found in the unwalked segment of offset `base`. Readers begin at a mark, so
    /// everything before it has been checked once.
    pub fn mark_unwalked(&mut self, base: u64, offset: u64, position: u64) {
        // The segment may have been removed meanwhile.
        if let Ok(at) = self.segments.binary_search_by_key(&base, |segment| segment.file.base) {
            self.segments[at].mark(offset, position);
        }
    }

    /// The first offset there is.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(self.end, |segment| segment.file.base)
    }

    /// The offset after the last record.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Every segment, oldest first.
    pub fn segments(&self) -> &[Indexed] {
        &self.segments
    }

    /// The segment in which `offset` lies, if none is missing, and the one after it. `None` before the start.
    pub fn segment_of(&self, offset: u64) -> Option<(&Indexed, Option<&Indexed>)> {
        let after = self.segments.partition_point(|segment| segment.file.base <= offset);
        Some((&self.segments[after.checked_sub(1)?], self.segments.get(after)))
    }

    /// Forgets the first segment, if all its frames end at or before `offset` and another one follows, and returns
    /// its file.
    pub fn take_first_before(&mut self, offset: u64) -> Option<PathBuf> {
        let second = self.segments.get(1)?;
        (second.file.base <= offset).then(|| self.segments.remove(0).file.path)
    }
}

pub(crate) fn read(index: &RwLock<Index>) -> RwLockReadGuard<'_, Index> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write(index: &RwLock<Index>) -> RwLockWriteGuard<'_, Index> {
    index.write().unwrap_or_else(PoisonError::into_inner)
}
