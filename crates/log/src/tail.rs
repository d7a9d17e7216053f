//! Following the log without polling: a handle that sleeps until the durable end moves.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A cloneable handle on the durable end of a log. Woken by every append and by the end of the log's life.
#[derive(Clone, Debug)]
pub struct Tail {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<TailState>,
    moved: Condvar,
}

#[derive(Debug)]
struct TailState {
    end: u64,
    closed: bool,
}

impl Tail {
    /// A tail that stands at `end`. For implementors of [`Log`](crate::Log).
    pub fn new(end: u64) -> Self {
        let state = Mutex::new(TailState { end, closed: false });
        Self { shared: Arc::new(Shared { state, moved: Condvar::new() }) }
    }

    /// The offset after the last durable record.
    pub fn durable_end(&self) -> u64 {
        self.lock().end
    }

    /// True once the log stopped or was dropped: the end will not move again.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Waits until the log holds the record at `offset`, that is, until its end is past it, and returns the end.
    /// `None` when `timeout` elapsed or the log closed before.
    pub fn wait_past(&self, offset: u64, timeout: Duration) -> Option<u64> {
        let (state, _) = self
            .shared
            .moved
            .wait_timeout_while(self.lock(), timeout, |state| state.end <= offset && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        (state.end > offset).then_some(state.end)
    }

    /// Moves the end and wakes all who wait. For implementors of [`Log`](crate::Log).
    pub fn advance(&self, end: u64) {
        let mut state = self.lock();
        assert!(end >= state.end, "the durable end went back from {} to {end}", state.end);
        state.end = end;
        drop(state);
        self.shared.moved.notify_all();
    }

    /// Says that the end will not move again, and wakes all who wait. For implementors of [`Log`](crate::Log).
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, TailState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
