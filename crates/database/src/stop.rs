//! That it is over, told to threads that wait.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Set once; whoever pauses wakes up then.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Pauses, at most so long. Whether it is over.
    pub(crate) fn pause(&self, most: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let (over, _) = self
            .changed
            .wait_timeout_while(over, most, |over| !*over)
            .unwrap_or_else(PoisonError::into_inner);
        *over
    }
}
