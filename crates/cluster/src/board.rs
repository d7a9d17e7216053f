//! Which sources this node may send for, and which of them have something to send.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_postgres::Claim;

#[derive(Debug, Default)]
struct State {
    /// By the number of the source.
    claims: BTreeMap<i32, Claim>,
    ringing: BTreeSet<i32>,
    over: bool,
}

/// Between those who claim sources and the relay that sends for them.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source was claimed. The one who had it before may have left something.
    pub(crate) fn put(&self, claim: Claim) {
        let mut state = self.lock();
        state.claims.insert(claim.segment_id, claim);
        state.ringing.insert(claim.segment_id);
        drop(state);
        self.changed.notify_all();
    }

    /// That claim is no longer ours; a later one of the same source stays.
    pub(crate) fn remove(&self, claim: &Claim) {
        let mut state = self.lock();
        if state.claims.get(&claim.segment_id).is_some_and(|known| known.epoch == claim.epoch) {
            state.claims.remove(&claim.segment_id);
            state.ringing.remove(&claim.segment_id);
        }
    }

    /// The source has something to send.
    pub(crate) fn ring(&self, segment_id: i32) {
        let mut state = self.lock();
        if state.claims.contains_key(&segment_id) {
            state.ringing.insert(segment_id);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for sources with something to send, and takes them. `None` when it is over and nothing rings.
    pub(crate) fn take(&self, most: Duration) -> Option<Vec<Claim>> {
        let idle = |state: &mut State| state.ringing.is_empty() && !state.over;
        let waited = self.changed.wait_timeout_while(self.lock(), most, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.ringing.is_empty() && state.over {
            return None;
        }
        let ringing = std::mem::take(&mut state.ringing);
        Some(ringing.iter().filter_map(|segment| state.claims.get(segment).copied()).collect())
    }

    /// Nothing more will be claimed.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use holdfast_postgres::Source;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn claim(segment_id: i32, epoch: i64) -> Claim {
        Claim { source: Source::timeout(segment_id), segment_id, epoch, offset: 0 }
    }

    #[test]
    fn what_was_claimed_rings_and_what_was_lost_does_not() {
        let board = Board::default();
        board.put(claim(1, 1));
        board.put(claim(2, 1));
        board.remove(&claim(2, 1));
        board.ring(2);
        assert_eq!(board.take(SOON), Some(vec![claim(1, 1)]));
        board.put(claim(1, 2));
        board.remove(&claim(1, 1));
        assert_eq!(board.take(SOON), Some(vec![claim(1, 2)]), "the later claim stays");
        board.ring(1);
        board.end();
        assert_eq!(board.take(SOON), Some(vec![claim(1, 2)]), "what rings is still taken");
        assert_eq!(board.take(SOON), None);
    }
}
