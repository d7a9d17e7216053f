//! Retention: old segments of the log are removed, if somebody said after how long.
//!
//! A segment goes when all its frames are older than that and lie before the oldest of the checkpoints that are kept,
//! so that a start never misses them. Age is measured by the time of the last frame in the checkpoint, not by the wall
//! clock: a clock that jumps ahead must not cost the history. What a removed record led to stays: outcomes and ids are
//! never removed.

use std::sync::{Arc, RwLock, TryLockError};

use holdfast_domain::ids::Millis;
use holdfast_log::{LogError, Reader, Retention};

use crate::progress::Progress;

/// Segments that are removed after one checkpoint, at most: it counts as made only when they are gone.
const SEGMENTS_REMOVED_MAX: usize = 64;
const DAY_MS: Millis = 24 * 60 * 60 * 1_000;

/// Removes old segments after each checkpoint.
pub(crate) struct Pruner {
    pub(crate) retention: Retention,
    pub(crate) reader: Reader,
    pub(crate) days: u32,
    pub(crate) holds: RetentionHolds,
}

/// Read by whoever needs the segments as they are, written by whoever removes some: as long as it is read, none is removed.
pub(crate) type RetentionHolds = Arc<RwLock<()>>;

impl Pruner {
    /// A checkpoint was made with this progress; the log before `not_needed` is not needed to start.
    pub(crate) fn after_checkpoint(&self, not_needed: u64, progress: &[u8]) {
        let Some(progress) = Progress::from_bytes(progress).filter(|_| self.days > 0) else { return };
        let before = progress.last_time.saturating_sub(DAY_MS * Millis::from(self.days));
        let _removing = match self.holds.try_write() {
            Ok(removing) => removing,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        match self.prune(not_needed, before) {
            Ok(0) => {}
            Ok(removed) => {
                tracing::info!(removed, start = self.retention.start(), "old log segments were removed")
            }
            // A failure of the medium has stopped the log, which says so to everybody. What cannot be read stays.
            Err(error) => tracing::warn!(%error, "old log segments were not removed"),
        }
    }

    fn prune(&self, not_needed: u64, before: Millis) -> Result<usize, LogError> {
        let (segments, _) = self.retention.segments();
        let mut remove_before = 0;
        // Times never fall, so a segment is no younger than the first frame of the next one.
        for next in
            segments.iter().skip(1).take(SEGMENTS_REMOVED_MAX).take_while(|next| next.base <= not_needed)
        {
            let first = self.reader.read_from(next.base)?.next_frame()?;
            if first.is_none_or(|first| first.header.time_ms >= before) {
                break;
            }
            remove_before = next.base;
        }
        if remove_before == 0 {
            return Ok(0);
        }
        self.retention.remove_before(remove_before)
    }
}
