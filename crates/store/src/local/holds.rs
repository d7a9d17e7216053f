//! Checkpoints that somebody is reading: they and what they need are not removed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::jobs::Kept;

/// Who holds what.
#[derive(Clone, Default)]
pub(super) struct Holds(Arc<Mutex<Register>>);

#[derive(Default)]
pub(super) struct Register {
    next: u64,
    held: Vec<(u64, Kept)>,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, Register> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hold(&self, kept: Kept) -> Held {
        let mut state = self.lock();
        let token = state.next;
        state.next += 1;
        let offset = kept.offset;
        state.held.push((token, kept));
        drop(state);
        Held { holds: self.clone(), token, offset }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.lock().held.is_empty()
    }

    /// All that is held now.
    pub(super) fn all(&self) -> Vec<Kept> {
        self.lock().held.iter().map(|(_, kept)| kept.clone()).collect()
    }
}

/// As long as this lives, its checkpoint and what it needs stay on the disk.
#[must_use = "dropping it lets the checkpoint go"]
pub struct Held {
    holds: Holds,
    token: u64,
    offset: u64,
}

impl Held {
    /// Where the checkpoint stands.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holds.lock().held.retain(|(token, _)| *token != self.token);
    }
}
