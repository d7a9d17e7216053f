//! All frames of a directory in order, each one checked, and the verdict at the end.
//!
//! The verdict rests on two facts about the writer. A frame is written only after the one before it is durable;
//! a segment gets its name only after every frame before it is durable. So whatever is broken and followed by a
//! sound frame header, or by another segment, had been acknowledged: that is damage, and the walk refuses. What
//! is broken with nothing after it is a torn tail: unless the disk rots, it was never acknowledged.
//!
//! The walk also works beside a running writer. It may see a frame half-written and, an instant later, the next
//! one whole; so before it speaks of damage it looks a second time.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::LogError;
use crate::blocks::{Blocks, Found};
use crate::frame::{BLOCK_U64, FrameFault, FrameHeader};
use crate::segment::{self, SegmentFile, SegmentHeader};
use holdfast_disk::FileSystem;
use holdfast_disk::LogId;

/// A cursor over the segments of a directory.
pub(crate) struct Walk {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    segments: Vec<SegmentFile>,
    log_id: LogId,
    /// The segment the cursor is in.
    index: usize,
    header: SegmentHeader,
    blocks: Blocks,
    position: u64,
    /// The offset expected at `position`.
    offset: u64,
    ending: Option<Ending>,
}

/// A frame met on the walk.
pub(crate) struct Met {
    pub header: FrameHeader,
    /// Index of its segment.
    pub segment: usize,
    /// Its first byte.
    pub position: u64,
    /// Its bytes on disk.
    pub padded_len: u64,
    payload: Range<usize>,
}

/// Where the log ends, and what stands there.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub file: PathBuf,
    pub position: u64,
    pub offset: u64,
    /// Length of the last segment as created.
    pub length: u64,
    /// What is wrong at `position`; `None` if nothing was written there.
    pub fault: Option<FrameFault>,
    /// Blocks from `position` on that are not zero.
    pub dirty: Option<(u64, u64)>,
}

impl Walk {
    /// A walk that begins with the segment that holds `from`, or with the last one if `from` lies past the end.
    pub fn start(fs: Arc<dyn FileSystem>, dir: &Path, from: Option<u64>) -> Result<Self, LogError> {
        let segments = segment::list(&*fs, dir)?;
        let Some(first) = segments.first() else {
            return Err(LogError::NoLog { dir: dir.to_owned() });
        };
        let from = from.unwrap_or(first.base);
        if from < first.base {
            return Err(LogError::BeforeStart { offset: from, start: first.base });
        }
        let index = segments.partition_point(|segment| segment.base <= from) - 1;
        let (header, blocks) = open_segment(&*fs, dir, &segments[index])?;
        Ok(Self {
            fs,
            dir: dir.to_owned(),
            log_id: header.log_id,
            index,
            position: BLOCK_U64,
            offset: segments[index].base,
            segments,
            header,
            blocks,
            ending: None,
        })
    }

    /// The id of the log.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// The segments as listed.
    pub fn segments(&self) -> &[SegmentFile] {
        &self.segments
    }

    /// Index of the segment the walk stands in.
    pub fn segment(&self) -> usize {
        self.index
    }

    /// The payload of the frame met last.
    pub fn payload(&self, met: &Met) -> &[u8] {
        self.blocks.bytes(met.payload.clone())
    }

    /// The verdict, once [`advance`](Self::advance) has given `None`.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// The next frame; `None` at the end. Called again at the end it looks again, also for new segments.
    pub fn advance(&mut self) -> Result<Option<Met>, LogError> {
        if self.ending.is_some() {
            // Segments first: one listed now was made when all frames before it could be seen.
            let last = self.segments.last().map(|segment| segment.base);
            let listed = segment::list(&*self.fs, &self.dir)?;
            self.segments.extend(listed.into_iter().filter(|segment| Some(segment.base) > last));
            self.blocks.forget();
        }
        loop {
            let fault = match self.look()? {
                Found::Frame { header, payload, padded_len } => {
                    let met =
                        Met { segment: self.index, position: self.position, padded_len, payload, header };
                    self.position += padded_len;
                    self.offset = met.header.end_offset();
                    self.ending = None;
                    return Ok(Some(met));
                }
                Found::Nothing => None,
                Found::Fault(fault) => Some(fault),
            };
            if !self.leave_segment(fault)? {
                return Ok(None);
            }
        }
    }

    fn look(&mut self) -> Result<Found, LogError> {
        let path = &self.segments[self.index].path;
        self.blocks.frame_at(self.position, self.offset, &self.log_id).map_err(LogError::io("read", path))
    }

    /// No frame stands at the cursor. Judges why; `true` if the walk goes on.
    fn leave_segment(&mut self, fault: Option<FrameFault>) -> Result<bool, LogError> {
        if let Some(FrameFault::WrongOffset { .. }) = fault {
            return Err(self.corrupt(fault, "it is sound, but not the one that belongs there"));
        }
        let next = self.segments.get(self.index + 1).cloned();
        if self.ending.is_some() && next.is_none() {
            return Ok(false);
        }
        let rest = self
            .blocks
            .inspect_rest(self.position, self.offset, &self.log_id)
            .map_err(LogError::io("read", &self.segments[self.index].path))?;
        if let Some((position, base)) = rest.later_frame {
            self.blocks.forget();
            if matches!(self.look()?, Found::Frame { .. }) {
                return Ok(true);
            }
            let why = format!("a frame of offset {base} follows at byte {position}");
            return Err(self.corrupt(fault, &why));
        }
        let Some(next) = next else {
            self.ending = Some(Ending {
                file: self.segments[self.index].path.clone(),
                position: self.position,
                offset: self.offset,
                length: self.header.length,
                fault,
                dirty: rest.dirty,
            });
            return Ok(false);
        };
        if rest.dirty.is_some() || next.base < self.offset {
            return Err(self.corrupt(fault, &format!("the segment of offset {} follows", next.base)));
        }
        if next.base > self.offset {
            return Err(LogError::Gap { dir: self.dir.clone(), offset: self.offset, next: next.path });
        }
        self.enter(self.index + 1)?;
        Ok(true)
    }

    fn enter(&mut self, index: usize) -> Result<(), LogError> {
        let segment = &self.segments[index];
        let (header, blocks) = open_segment(&*self.fs, &self.dir, segment)?;
        header.check_log_id(self.log_id, segment)?;
        self.index = index;
        self.header = header;
        self.blocks = blocks;
        self.position = BLOCK_U64;
        self.ending = None;
        Ok(())
    }

    fn corrupt(&self, fault: Option<FrameFault>, why_damage: &str) -> LogError {
        let file = &self.segments[self.index].path;
        LogError::corrupt(file, (self.position, self.offset), fault, why_damage)
    }
}

fn open_segment(
    fs: &dyn FileSystem,
    dir: &Path,
    segment: &SegmentFile,
) -> Result<(SegmentHeader, Blocks), LogError> {
    match segment::open_read(fs, segment) {
        Ok((header, file)) => {
            let blocks = Blocks::new(file, header.length);
            Ok((header, blocks))
        }
        // Beside a running writer: it was listed, and old segments were removed since.
        Err(error) => match segment::list(fs, dir)?.first() {
            Some(first) if first.base > segment.base => {
                Err(LogError::BeforeStart { offset: segment.base, start: first.base })
            }
            _ => Err(error),
        },
    }
}
