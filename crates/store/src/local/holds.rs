//! Checkpoints that somebody is reading: they and what they need are not removed.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::jobs::Kept;

/// What is held, as long as its holder lives.
#[derive(Clone, Default)]
pub(super) struct Holds(Arc<Mutex<Vec<Weak<Kept>>>>);

impl Holds {
    pub(super) fn hold(&self, kept: Kept) -> Held {
        let kept = Arc::new(kept);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&kept));
        Held(kept)
    }

    /// All that is held now.
    pub(super) fn all(&self) -> Vec<Kept> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|kept| kept.strong_count() > 0);
        held.iter().filter_map(Weak::upgrade).map(|kept| Kept::clone(&kept)).collect()
    }
}

/// As long as this lives, its checkpoint and what it needs stay on the disk.
#[must_use = "dropping it lets the checkpoint go"]
pub struct Held(Arc<Kept>);

impl Held {
    /// Where the checkpoint stands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }
}
