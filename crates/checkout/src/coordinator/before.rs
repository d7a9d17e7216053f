//! What a coordinator knew before a step, of the tries that the step names. A step that is not stored is taken back by it, and
//! costs what it touches, however many tries are open.

use super::Coordinator;
use super::saga::Saga;
use crate::ids::{Key, Offset};

/// Made by [`Coordinator::before`].
#[derive(Debug)]
pub struct Before {
    /// Each try once.
    tries: Vec<(Key, Option<Saga>)>,
    next: Option<Offset>,
    outcome_offset: Option<Offset>,
}

impl Coordinator {
    /// Remembers what is known of these tries. [`Coordinator::take_back`] undoes whatever was done to them since, and to no
    /// others.
    #[must_use]
    pub fn before<'k>(&self, keys: impl IntoIterator<Item = &'k Key>) -> Before {
        let mut keys: Vec<&Key> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        let tries = keys.into_iter().map(|key| (key.clone(), self.open.get(key).cloned())).collect();
        Before { tries, next: self.next, outcome_offset: self.outcome_offset }
    }

    /// Knows again what it knew then.
    pub fn take_back(&mut self, before: Before) {
        for (key, saga) in before.tries {
            self.forget(&key);
            if let Some(saga) = saga {
                self.starts.insert(saga.start, key.clone());
                self.open.insert(key, saga);
            }
        }
        self.next = before.next;
        self.outcome_offset = before.outcome_offset;
    }
}
