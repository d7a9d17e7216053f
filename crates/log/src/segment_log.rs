//! The writer: opens a directory, appends frames, rotates segments.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use crate::LogError;
use crate::active::Active;
use crate::frame::{BLOCK_U64, FRAME_PAYLOAD_MAX, FrameBuf, FrameHeader};
use crate::index::{Index, read, write};
use crate::log::{Log, Reader};
use crate::mark::{self, MARK_TEMPORARY};
use crate::read::SharedReader;
use crate::retention::Retention;
use crate::running::Running;
use crate::segment::{
    self, Blank, INLINE_NAME, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN, SPARE_NAME, SegmentFile,
    SegmentHeader,
};
use crate::spare::SparePreparer;
use crate::tail::Tail;
use crate::walk::{Ending, Walk};
use holdfast_disk::{DirLock, FileSystem, LogId};

/// How segments are made.
#[derive(Clone, Debug)]
pub struct SegmentOptions {
    /// Size of a segment file in bytes, rounded up to blocks. A larger frame gets a larger segment.
    pub segment_bytes: u64,
    /// Who writes, for the segment header (at most 32 bytes are kept).
    pub created_by: String,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        let created_by = concat!("holdfast ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { segment_bytes: SEGMENT_BYTES_DEFAULT, created_by }
    }
}

/// What was found in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// Frames that were read and checked: those from `walked_from` on.
    pub frames: u64,
    /// First offset.
    pub start: u64,
    /// The offset from which frames were read: `start`, or the beginning of the segment that holds the checkpoint.
    pub walked_from: u64,
    /// Offset after the last record.
    pub end: u64,
    /// Segment files.
    pub segments: usize,
    /// An unfinished or rotten last write, if there was one.
    pub torn_tail: Option<TornTail>,
}

/// An unfinished or rotten last write. After a crash it is one whose sync had not returned, so nobody had been told
/// that it was done. Only if the disk rots can it be the last frame that was acknowledged: nothing after it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The last segment.
    pub file: PathBuf,
    /// Where the log ends in it, in bytes.
    pub position: u64,
    /// The offset at which the log ends.
    pub offset: u64,
    /// Bytes, in whole blocks, from there to the last one that was not zero.
    pub bytes: u64,
    /// What was wrong.
    pub reason: String,
}

impl TornTail {
    pub(crate) fn of(ending: &Ending) -> Option<Self> {
        let (_, dirty_end) = ending.dirty?;
        let reason = match ending.fault {
            Some(fault) => fault.to_string(),
            None => "the beginning of the frame was not written".to_owned(),
        };
        Some(Self {
            file: ending.file.clone(),
            position: ending.position,
            offset: ending.offset,
            bytes: dirty_end - ending.position,
            reason,
        })
    }
}

/// A log on segment files in one directory. One per directory: it holds a lock on it.
pub struct SegmentLog {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    options: SegmentOptions,
    log_id: LogId,
    end: u64,
    active: Active,
    index: Arc<RwLock<Index>>,
    tail: Tail,
    spare: SparePreparer,
    retention: Retention,
    running: Running,
    _lock: DirLock,
}

impl SegmentLog {
    /// Opens the log in `dir`, or creates it with `new_log_id` if there is none. Reads and checks every frame;
    /// cuts a torn tail and says so in the report; refuses damage.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: SegmentOptions,
        new_log_id: LogId,
    ) -> Result<(SegmentLog, OpenReport), LogError> {
        Self::open_from(fs, dir, options, new_log_id, None)
    }

    /// As [`open`](Self::open), for a caller whose own durable state covers everything before offset `from`: reads
    /// and checks only the segment that holds `from` and those after it. What lies before can still be read and is
    /// checked then. A log that does not reach `from` is refused as [`LogError::Shortened`], one that begins after
    /// it as [`LogError::BeforeStart`].
    pub fn open_from(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        options: SegmentOptions,
        new_log_id: LogId,
        from: Option<u64>,
    ) -> Result<(SegmentLog, OpenReport), LogError> {
        let shortened = |end| LogError::Shortened { dir: dir.to_owned(), end, reached: from.unwrap_or(0) };
        let segment_bytes = options.segment_bytes.max(SEGMENT_BYTES_MIN).next_multiple_of(BLOCK_U64);
        let options = SegmentOptions { segment_bytes, ..options };
        fs.create_dir_all(dir).map_err(LogError::io("create", dir))?;
        let lock = fs.lock_dir(dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::Locked { dir: dir.to_owned() },
            _ => LogError::io("lock", dir)(error),
        })?;
        remove_leftovers(&*fs, dir)?;
        let mark = mark::read(&*fs, dir)?;
        let segments = segment::list(&*fs, dir)?;
        match segments.last() {
            None if from > Some(0) => return Err(shortened(0)),
            None => create_first(&*fs, dir, &options, new_log_id)?,
            Some(last) => settle(&*fs, dir, last)?,
        }

        let mut walk = Walk::start(Arc::clone(&fs), dir, from)?;
        let mut index = Index::default();
        let (mut frames, mut indexed) = (0, walk.segment());
        walk.segments()[..indexed].iter().for_each(|segment| index.add_segment(segment, None));
        let walked_from = walk.segments()[indexed].base;
        loop {
            let met = walk.advance()?;
            let reached = met.as_ref().map_or_else(|| walk.segments().len(), |met| met.segment + 1);
            for segment in &walk.segments()[indexed..reached] {
                index.add_segment(segment, Some(BLOCK_U64));
            }
            indexed = reached;
            let Some(met) = met else { break };
            index.add_frame(&met.header, met.position, met.padded_len);
            frames += 1;
        }
        let Some(ending) = walk.ending().cloned() else {
            return Err(LogError::NoLog { dir: dir.to_owned() });
        };
        if let Some(mark) = mark {
            mark.check(dir, walk.log_id(), ending.offset)?;
        }
        if from > Some(ending.offset) {
            return Err(shortened(ending.offset));
        }
        let torn_tail = TornTail::of(&ending);
        let file = fs.open_uncached(&ending.file).map_err(LogError::io("open", &ending.file))?;
        if let Some((from, to)) = ending.dirty {
            segment::zero_range(&*file, from, to).map_err(LogError::io("write", &ending.file))?;
            file.sync_data().map_err(LogError::io("sync", &ending.file))?;
        }
        let report = OpenReport {
            frames,
            start: index.start(),
            walked_from,
            end: ending.offset,
            segments: walk.segments().len(),
            torn_tail,
        };
        let (index, tail) = (Arc::new(RwLock::new(index)), Tail::new(ending.offset));
        let running = Running::new(tail.clone());
        let Ending { file: path, position, offset: end, length, .. } = ending;
        let log = SegmentLog {
            log_id: walk.log_id(),
            end,
            // Nobody noted which of the blocks after the end had been written.
            active: Active::new(file, path, position, length, position),
            spare: SparePreparer::new(Arc::clone(&fs), dir, options.segment_bytes),
            retention: Retention::new(Arc::clone(&fs), dir, Arc::clone(&index), running.clone()),
            index,
            tail,
            running,
            _lock: lock,
            dir: dir.to_owned(),
            options,
            fs,
        };
        Ok((log, report))
    }

    /// The handle that prepares spare segments; run it on a thread of its own.
    pub fn spare_preparer(&self) -> SparePreparer {
        self.spare.clone()
    }

    /// The handle that removes old segments; usable on any thread.
    pub fn retention(&self) -> Retention {
        self.retention.clone()
    }

    /// Writes a sealed frame, into a new segment if it does not fit.
    fn write(&mut self, frame: &FrameBuf, header: &FrameHeader) -> Result<(), LogError> {
        let bytes = frame.padded();
        let padded_len = bytes.len() as u64;
        if padded_len > self.active.room() {
            self.rotate(padded_len)?;
        }
        let position = self.active.append(bytes)?;
        write(&self.index).add_frame(header, position, padded_len);
        Ok(())
    }

    /// Begins a new segment at the end of the log with room for `room` bytes.
    fn rotate(&mut self, room: u64) -> Result<(), LogError> {
        let length = self.options.segment_bytes.max(BLOCK_U64 + room);
        let (blank, temporary) = match self.spare.take(length) {
            Some(spare) => spare,
            None => {
                let temporary = self.dir.join(INLINE_NAME);
                (make_blank(&*self.fs, &temporary, length)?, temporary)
            }
        };
        let Blank { file, zeroed_to } = blank;
        let header = SegmentHeader {
            log_id: self.log_id,
            base_offset: self.end,
            length,
            created_by: self.options.created_by.clone(),
        };
        let segment = segment::install(&*self.fs, &*file, &temporary, &self.dir, &header)?;
        write(&self.index).add_segment(&segment, Some(BLOCK_U64));
        self.active = Active::new(file, segment.path, BLOCK_U64, length, zeroed_to);
        self.spare.want();
        mark::write(&*self.fs, &self.dir, self.log_id, self.end)
    }
}

impl Log for SegmentLog {
    fn log_id(&self) -> LogId {
        self.log_id
    }

    fn start(&self) -> u64 {
        read(&self.index).start()
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn append(&mut self, frame: &mut FrameBuf, header: &FrameHeader) -> Result<(), LogError> {
        self.running.check()?;
        if header.base_offset != self.end {
            return Err(LogError::WrongOffset { expected: self.end, found: header.base_offset });
        }
        if header.count == 0 || header.base_offset.checked_add(u64::from(header.count)).is_none() {
            return Err(LogError::BadCount { offset: header.base_offset, count: header.count });
        }
        if frame.payload_len() > FRAME_PAYLOAD_MAX {
            return Err(LogError::FrameTooLarge { bytes: frame.payload_len() });
        }
        frame.seal(header, &self.log_id);
        if let Err(error) = self.write(frame, header) {
            return Err(self.running.stop(error));
        }
        self.end = header.end_offset();
        self.tail.advance(self.end);
        Ok(())
    }

    fn mark_end(&mut self) -> Result<(), LogError> {
        self.running.check()?;
        mark::write(&*self.fs, &self.dir, self.log_id, self.end)
    }

    fn reader(&self) -> Reader {
        Arc::new(SharedReader {
            fs: Arc::clone(&self.fs),
            log_id: self.log_id,
            index: Arc::clone(&self.index),
        })
    }

    fn tail(&self) -> Tail {
        self.tail.clone()
    }
}

impl Drop for SegmentLog {
    fn drop(&mut self) {
        self.tail.close();
        self.spare.close();
        self.retention.close();
    }
}

/// Removes what an earlier process left half-made.
fn remove_leftovers(fs: &dyn FileSystem, dir: &Path) -> Result<(), LogError> {
    for name in [SPARE_NAME, INLINE_NAME, MARK_TEMPORARY] {
        let path = dir.join(name);
        fs.remove_if_there(&path).map_err(LogError::io("remove", &path))?;
    }
    Ok(())
}

fn make_blank(fs: &dyn FileSystem, path: &Path, bytes: u64) -> Result<Blank, LogError> {
    segment::make_blank(fs, path, bytes, || false)?.ok_or_else(|| LogError::Io {
        op: "create",
        path: path.to_owned(),
        source: io::ErrorKind::Interrupted.into(),
    })
}

fn create_first(
    fs: &dyn FileSystem,
    dir: &Path,
    options: &SegmentOptions,
    log_id: LogId,
) -> Result<(), LogError> {
    let temporary = dir.join(INLINE_NAME);
    let Blank { file, .. } = make_blank(fs, &temporary, options.segment_bytes)?;
    let created_by = options.created_by.clone();
    let header = SegmentHeader { log_id, base_offset: 0, length: options.segment_bytes, created_by };
    segment::install(fs, &*file, &temporary, dir, &header).map(|_| ())
}

/// Makes the medium and what is about to be read agree. After kill -9 the cache can hold a frame, and the
/// directory a name, that were never synced; after a failed sync the cache can hold a frame that the disk never
/// got. The first must become durable before anything is built on it, the second must not be believed.
fn settle(fs: &dyn FileSystem, dir: &Path, last: &SegmentFile) -> Result<(), LogError> {
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))?;
    let file = fs.open(&last.path).map_err(LogError::io("open", &last.path))?;
    file.sync_data().map_err(LogError::io("sync", &last.path))?;
    file.drop_cache().map_err(LogError::io("drop the cache of", &last.path))
}
