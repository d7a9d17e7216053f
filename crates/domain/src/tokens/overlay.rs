//! Tokens inside a frame: what its commands have changed so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LockRow, Name, SpendRow, TokenEffect, TokenId, TokenRow};
use crate::ids::Millis;
use crate::view::View;

/// Changes laid over a view. `None`: gone.
#[derive(Default)]
pub(crate) struct TokenOverlay {
    tokens: BTreeMap<TokenId, Option<TokenRow>>,
    locks: BTreeMap<Name, Option<Arc<LockRow>>>,
    spends: BTreeMap<Name, Arc<SpendRow>>,
}

impl TokenOverlay {
    pub(crate) fn token<'a>(&'a self, base: &'a impl View, id: &TokenId) -> Option<&'a TokenRow> {
        match self.tokens.get(id) {
            Some(row) => row.as_ref(),
            None => base.token(id),
        }
    }

    pub(crate) fn is_consumed(&self, base: &impl View, id: &TokenId) -> bool {
        matches!(self.tokens.get(id), Some(None)) || base.is_consumed(id)
    }

    pub(crate) fn lock<'a>(&'a self, base: &'a impl View, spender: &str) -> Option<&'a Arc<LockRow>> {
        match self.locks.get(spender) {
            Some(row) => row.as_ref(),
            None => base.lock(spender),
        }
    }

    pub(crate) fn spend<'a>(&'a self, base: &'a impl View, spender: &str) -> Option<&'a Arc<SpendRow>> {
        self.spends.get(spender).or_else(|| base.spend(spender))
    }

    /// Expiry comes first in a frame, and what the frame itself locks is never due in it.
    pub(crate) fn due_leases(&self, base: &impl View, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let mut due = base.due_leases(now, max.saturating_add(self.locks.len()));
        due.retain(|row| !self.locks.contains_key(&row.spender));
        due.truncate(max);
        due
    }

    pub(crate) fn change(&mut self, base: &impl View, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => {
                let row = TokenRow { token: token.clone(), holder: None };
                self.tokens.insert(token.id.clone(), Some(row));
            }
            TokenEffect::Consumed(id) => drop(self.tokens.insert(id.clone(), None)),
            TokenEffect::Locked(row) => {
                self.set_holder(base, row, Some(&row.spender));
                self.locks.insert(row.spender.clone(), Some(Arc::clone(row)));
            }
            TokenEffect::Unlocked { spender, fence } => {
                let row = Arc::clone(self.lock(base, spender).expect("a lock that ends is there"));
                assert_eq!(row.fence, *fence, "the lock of {spender} that ends is the one there");
                self.set_holder(base, &row, None);
                self.locks.insert(spender.clone(), None);
            }
            TokenEffect::Renewed(row) => {
                self.locks.insert(row.spender.clone(), Some(Arc::clone(row)));
            }
            TokenEffect::Spent(row) => {
                self.spends.insert(row.transaction.spender.clone(), Arc::clone(row));
            }
        }
    }

    fn set_holder(&mut self, base: &impl View, row: &LockRow, holder: Option<&Name>) {
        for id in &row.tokens {
            if let Some(known) = self.token(base, id) {
                let row = TokenRow { token: known.token.clone(), holder: holder.cloned() };
                self.tokens.insert(id.clone(), Some(row));
            }
        }
    }
}
