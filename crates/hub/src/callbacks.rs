//! The callbacks that durable frames gave rise to, on their way to whoever delivers them.
//!
//! Every callback has a number. Numbers follow from the log alone, so a replay gives each the same one again, and
//! a deliverer that remembers numbers can go on where it stopped.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};

/// Rows that may wait for the deliverer. It only sorts them, so it is never far behind; if it is, frames wait.
const FEED_ROWS_MAX: usize = 262_144;

/// One message to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackRow {
    /// Its number since the log began.
    pub number: u64,
    /// The offset of the record that caused it, whose bytes a forward hands on.
    pub offset: u64,
    /// When it was decided.
    pub time: Millis,
    /// Who is called.
    pub to: ParticipantId,
    /// About which transfer.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
}

#[derive(Default)]
struct State {
    rows: VecDeque<CallbackRow>,
    closed: bool,
}

/// Hands durable callbacks from the journal to the deliverer.
#[derive(Default)]
pub struct CallbackFeed {
    state: Mutex<State>,
    changed: Condvar,
}

impl CallbackFeed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rows of a frame that is durable.
    pub(crate) fn push(&self, rows: Vec<CallbackRow>) {
        if rows.is_empty() {
            return;
        }
        let crowded = |state: &mut State| state.rows.len() >= FEED_ROWS_MAX && !state.closed;
        let mut state = self.changed.wait_while(self.lock(), crowded).unwrap_or_else(PoisonError::into_inner);
        state.rows.extend(rows);
        drop(state);
        self.changed.notify_all();
    }

    /// Puts in what an earlier run did not deliver, before anything else.
    pub(crate) fn refill(&self, rows: Vec<CallbackRow>) {
        self.lock().rows.extend(rows);
    }

    /// Waits for rows and takes all of them; `None` when there will be no more.
    pub fn take(&self) -> Option<Vec<CallbackRow>> {
        let idle = |state: &mut State| state.rows.is_empty() && !state.closed;
        let mut state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let rows: Vec<CallbackRow> = state.rows.drain(..).collect();
        drop(state);
        self.changed.notify_all();
        (!rows.is_empty()).then_some(rows)
    }

    /// Says that there will be no more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}
