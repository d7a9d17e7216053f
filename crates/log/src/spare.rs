//! The next segment, allocated ahead of need, so that the appender does not stop for it.
//!
//! One blank segment is wanted as soon as the one before was taken. A background thread of the hub sits in
//! [`SparePreparer::run`]; a simulator or a test calls [`SparePreparer::prepare_if_wanted`] where it likes. With
//! neither, the appender makes its segments itself.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::LogError;
use crate::segment::{Blank, SPARE_NAME, make_blank};
use holdfast_disk::FileSystem;

/// A cloneable handle that prepares spare segments for one [`SegmentLog`](crate::SegmentLog).
#[derive(Clone)]
pub struct SparePreparer {
    shared: Arc<Shared>,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    bytes: u64,
    state: Mutex<SpareState>,
    changed: Condvar,
}

enum Spare {
    /// To be made.
    Wanted,
    /// Somebody is at it.
    Busy,
    /// Whole and synced.
    Ready(Blank),
    /// The last try failed. The appender will try for itself and report.
    Failed,
}

struct SpareState {
    spare: Spare,
    closed: bool,
}

impl SparePreparer {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, dir: &Path, bytes: u64) -> Self {
        let state = Mutex::new(SpareState { spare: Spare::Wanted, closed: false });
        let path = dir.join(SPARE_NAME);
        Self { shared: Arc::new(Shared { fs, path, bytes, state, changed: Condvar::new() }) }
    }

    /// Prepares spares until the log is closed, sleeping while none is wanted. A failed spare is logged and not
    /// tried again before the next rotation.
    pub fn run(&self) {
        loop {
            let waiting = |state: &mut SpareState| !matches!(state.spare, Spare::Wanted) && !state.closed;
            let state = self.shared.changed.wait_while(self.lock(), waiting);
            let closed = state.unwrap_or_else(PoisonError::into_inner).closed;
            if closed {
                return;
            }
            if let Err(error) = self.prepare_if_wanted() {
                tracing::warn!(
                    error = error.one_line(),
                    "no spare segment; the next rotation will be slower"
                );
            }
        }
    }

    /// Prepares a spare now if one is wanted; `true` if it did.
    pub fn prepare_if_wanted(&self) -> Result<bool, LogError> {
        {
            let mut state = self.lock();
            if state.closed || !matches!(state.spare, Spare::Wanted) {
                return Ok(false);
            }
            state.spare = Spare::Busy;
        }
        // If this panics, the guard still tells those who wait.
        let mut done = Done { preparer: self, spare: Spare::Failed };
        let shared = &self.shared;
        if let Some(blank) = make_blank(&*shared.fs, &shared.path, shared.bytes, || self.lock().closed)? {
            done.spare = Spare::Ready(blank);
        }
        Ok(matches!(done.spare, Spare::Ready(_)))
    }

    /// The spare and its temporary path, if there is one of at least `bytes`. Waits for one in the making:
    /// that is less work than another. The next one is wanted from now on.
    pub(crate) fn take(&self, bytes: u64) -> Option<(Blank, PathBuf)> {
        if bytes > self.shared.bytes {
            return None;
        }
        let busy = |state: &mut SpareState| matches!(state.spare, Spare::Busy);
        let waited = self.shared.changed.wait_while(self.lock(), busy);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut state.spare, Spare::Failed) {
            Spare::Ready(blank) => Some((blank, self.shared.path.clone())),
            _ => None,
        }
    }

    /// Asks for a new spare; called when the one taken has its final name, so that the temporary name is free.
    pub(crate) fn want(&self) {
        let mut state = self.lock();
        if !matches!(state.spare, Spare::Ready(_) | Spare::Busy) {
            state.spare = Spare::Wanted;
            self.shared.changed.notify_all();
        }
    }

    /// Ends [`run`](Self::run), and waits until nobody writes in the directory any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.shared.changed.notify_all();
        let busy = |state: &mut SpareState| matches!(state.spare, Spare::Busy);
        drop(self.shared.changed.wait_while(state, busy));
    }

    fn lock(&self) -> MutexGuard<'_, SpareState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Done<'a> {
    preparer: &'a SparePreparer,
    spare: Spare,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.preparer.lock().spare = std::mem::replace(&mut self.spare, Spare::Failed);
        self.preparer.shared.changed.notify_all();
    }
}
