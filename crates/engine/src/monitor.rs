//! What several threads look at, change and wait for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A state that one thread at a time has, and those who wait for a change of it. A thread that panics leaves it as it is: every
/// change here is whole before anything can fail.
#[derive(Debug, Default)]
pub struct Monitor<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    /// It begins with that state.
    pub const fn new(state: T) -> Monitor<T> {
        Monitor { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The state, as long as this is held.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes all who wait.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let changed = change(&mut self.lock());
        self.notify_all();
        changed
    }

    /// Wakes all who wait: the state was changed.
    pub fn notify_all(&self) {
        self.changed.notify_all();
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        self.changed.notify_one();
    }

    /// Waits as long as that is so.
    pub fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, T>,
        idle: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as that is so, at most for that time.
    pub fn wait_while_for<'a>(
        &self,
        state: MutexGuard<'a, T>,
        most: Duration,
        idle: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.changed.wait_timeout_while(state, most, idle).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits to be woken; with `most`, no longer than that.
    pub fn wait<'a>(&self, state: MutexGuard<'a, T>, most: Option<Duration>) -> MutexGuard<'a, T> {
        match most {
            Some(most) => self.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
