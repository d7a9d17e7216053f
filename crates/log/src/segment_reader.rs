//! Reading a directory without its writer: for tools, on a stopped log, a copy, or beside a running server.
//!
//! Nothing is ever created, written, cut or locked. A frame that is only partly there is simply the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::LogError;
use crate::frame::Frame;
use crate::log::{FrameSource, Frames, ReadLog};
use crate::mark;
use crate::segment_log::{OpenReport, TornTail};
use crate::walk::Walk;
use holdfast_disk::FileSystem;
use holdfast_disk::LogId;

/// A read-only view of a log directory.
#[derive(Clone)]
pub struct SegmentReader {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    log_id: LogId,
}

impl SegmentReader {
    /// Opens the log in `dir`; reads no more than its first segment header.
    pub fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self, LogError> {
        let log_id = Walk::start(Arc::clone(&fs), dir, None)?.log_id();
        Ok(Self { fs, dir: dir.to_owned(), log_id })
    }

    /// The id chosen when the log was created.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Reads and checks everything, as opening for writing would, and reports a torn tail without cutting it.
    pub fn check(&self) -> Result<OpenReport, LogError> {
        let mark = mark::read(&*self.fs, &self.dir)?;
        let mut walk = Walk::start(Arc::clone(&self.fs), &self.dir, None)?;
        let start = walk.segments().first().map_or(0, |segment| segment.base);
        let (mut frames, mut end) = (0, start);
        while let Some(met) = walk.advance()? {
            frames += 1;
            end = met.header.end_offset();
        }
        if let Some(mark) = mark {
            mark.check(&self.dir, self.log_id, end)?;
        }
        let torn_tail = walk.ending().and_then(TornTail::of);
        let segments = walk.segments().len();
        Ok(OpenReport { frames, start, walked_from: start, end, segments, torn_tail })
    }

    /// Frames whose range ends after `offset`, in order. At the end it gives `None` and looks again when called
    /// again, so a tool can follow a running server.
    pub fn frames(&self, offset: u64) -> Result<Frames, LogError> {
        let walk = Walk::start(Arc::clone(&self.fs), &self.dir, Some(offset))?;
        if walk.log_id() != self.log_id {
            return Err(LogError::ForeignSegment {
                file: self.dir.clone(),
                found: walk.log_id(),
                expected: self.log_id,
            });
        }
        Ok(Frames::new(WalkFrames { walk, from: offset }))
    }
}

impl ReadLog for SegmentReader {
    fn read_from(&self, offset: u64) -> Result<Frames, LogError> {
        self.frames(offset)
    }
}

struct WalkFrames {
    walk: Walk,
    /// Frames that end at or before this are skipped.
    from: u64,
}

impl FrameSource for WalkFrames {
    fn next_into(&mut self, frame: &mut Frame) -> Result<bool, LogError> {
        while let Some(met) = self.walk.advance()? {
            if met.header.end_offset() <= self.from {
                continue;
            }
            frame.payload.clear();
            frame.payload.extend_from_slice(self.walk.payload(&met));
            frame.header = met.header;
            return Ok(true);
        }
        Ok(false)
    }
}
