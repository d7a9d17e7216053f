//! Letting go of old segments, on any thread, while the appender goes on; and where all of them lie.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::LogError;
use crate::index::{Index, read, write};
use crate::running::Running;
use holdfast_disk::FileSystem;

/// A segment as it lies on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSpan {
    /// Its first offset.
    pub base: u64,
    /// Its file.
    pub path: PathBuf,
    /// Bytes up to the end of its last durable frame; `None` for one that nobody has read since the log was opened.
    pub filled: Option<u64>,
}

/// A cloneable handle that removes old segments of one [`SegmentLog`](crate::SegmentLog).
#[derive(Clone)]
pub struct Retention {
    shared: Arc<Shared>,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    index: Arc<RwLock<Index>>,
    running: Running,
    /// Whether the log was closed. Held while a segment is removed: one at a time, and none after the close.
    closed: Mutex<bool>,
}

impl Retention {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        index: Arc<RwLock<Index>>,
        running: Running,
    ) -> Self {
        let dir = dir.to_owned();
        Self { shared: Arc::new(Shared { fs, dir, index, running, closed: Mutex::new(false) }) }
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn start(&self) -> u64 {
        read(&self.shared.index).start()
    }

    /// The segments as they lie now, oldest first, and the offset at which the last one ends.
    #[must_use]
    pub fn segments(&self) -> (Vec<SegmentSpan>, u64) {
        let index = read(&self.shared.index);
        let spans = index.segments().iter().map(|segment| SegmentSpan {
            base: segment.file.base,
            path: segment.file.path.clone(),
            filled: segment.filled,
        });
        (spans.collect(), index.end())
    }

    /// Removes the segments that hold nothing at or after `offset`, oldest first, and returns how many. Whole
    /// segments only, never the last. Readers who stand in one get [`LogError::BeforeStart`]. A failure stops the
    /// log: nobody knows then which names the directory has. Refused once the log is closed.
    pub fn remove_before(&self, offset: u64) -> Result<usize, LogError> {
        let mut removed = 0;
        while self.remove_first_before(offset)? {
            removed += 1;
        }
        Ok(removed)
    }

    /// Removes the first segment if it may go. Durable when it returns: were two removed at once, a crash could leave
    /// the older one and so a gap.
    fn remove_first_before(&self, offset: u64) -> Result<bool, LogError> {
        let Shared { fs, dir, index, running, .. } = &*self.shared;
        let closed = self.lock();
        if *closed {
            return Err(LogError::Stopped { cause: format!("the log in {} was closed", dir.display()) });
        }
        running.check()?;
        let Some(path) = write(index).take_first_before(offset) else { return Ok(false) };
        let removed = fs
            .remove(&path)
            .map_err(LogError::io("remove", &path))
            .and_then(|()| fs.sync_dir(dir).map_err(LogError::io("sync", dir)));
        removed.map(|()| true).map_err(|error| running.stop(error))
    }

    /// Lets nobody remove anything any more, and waits for who is at it.
    pub(crate) fn close(&self) {
        *self.lock() = true;
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
