//! A new data directory, written without a running hub: whoever makes data sets closes the frames and says when each was.
//!
//! The frames are decided by the same code as live ones, so a start, a replay and a verification agree with them.

use std::path::Path;
use std::sync::Arc;

use holdfast_disk::DirLock;
use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::Millis;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::records::Sealed;
use holdfast_log::{FileSystem, FrameBuf, Log, LogId, SegmentLog, SegmentOptions};
use holdfast_store::LocalStore;

use crate::core::Core;
use crate::hub::{OpenError, Opened};
use crate::limits::CHECKPOINT_LOG_BYTES;

/// A data directory that is being made.
pub struct Offline {
    log: SegmentLog,
    core: Core<LocalStore>,
    _lock: DirLock,
}

impl Offline {
    /// Makes a data directory where nothing is yet.
    ///
    /// # Errors
    /// [`OpenError::NotEmpty`] if there is anything in it, or if it cannot be made.
    pub fn create(fs: Arc<dyn FileSystem>, data: &Path, log_id: LogId) -> Result<Offline, OpenError> {
        let unusable = |source| OpenError::Data { data: data.to_owned(), source };
        fs.create_dir_all(data).map_err(unusable)?;
        if !fs.list(data).map_err(unusable)?.is_empty() {
            return Err(OpenError::NotEmpty(data.to_owned()));
        }
        let opened = Opened::open(fs, data, SegmentOptions::default(), log_id)?;
        let (log, core, lock) = opened.into_parts();
        Ok(Offline { log, core, _lock: lock })
    }

    /// The rows as they stand.
    #[must_use]
    pub const fn store(&self) -> &LocalStore {
        self.core.store()
    }

    /// The time of the last frame.
    #[must_use]
    pub const fn last_time(&self) -> Millis {
        self.core.last_time()
    }

    /// Decides a frame of that time (or of the last frame's, if that was later) and writes it; durable when this returns.
    /// Holds that ran out end only by a command that says so.
    ///
    /// # Errors
    /// If it cannot be written; the directory is of no use then.
    pub fn frame(&mut self, time: Millis, commands: &[Command]) -> Result<Effects, OpenError> {
        let (bytes, commands) = Sealed::of(commands).into_parts();
        let count = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        self.core.load(&commands)?;
        let time = time.max(self.core.last_time());
        let header = self.core.next_header(count, time, PrepareOrder::Arrival);
        let mut frame = FrameBuf::with_capacity(bytes.len());
        frame.push(&bytes);
        self.log.append(&mut frame, &header)?;
        let effects = self.core.advance(&header, &commands, std::iter::once(bytes.as_slice()));
        if self.core.unsaved_bytes() >= CHECKPOINT_LOG_BYTES {
            self.core.begin_checkpoint();
        }
        self.core.run_jobs()?;
        Ok(effects)
    }

    /// Leaves a checkpoint, so that the first start is a fast one, and marks the end of the log.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn finish(mut self) -> Result<(), OpenError> {
        self.core.begin_checkpoint();
        self.core.run_jobs()?;
        Ok(self.log.mark_end()?)
    }
}
