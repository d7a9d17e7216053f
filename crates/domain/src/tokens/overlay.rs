//! Tokens inside a frame: what its commands have changed so far.

use std::sync::Arc;

use holdfast_checkout::lookup::Lookup;

use super::{LockRow, Name, SpendRow, Token, TokenEffect, TokenId, TokenView};
use crate::ids::Millis;
use crate::view::View;

/// Changes laid over a view. `None`: gone.
#[derive(Default)]
pub(crate) struct TokenOverlay {
    tokens: Lookup<TokenId, Changed>,
    locks: Lookup<Name, Option<Arc<LockRow>>>,
    spends: Lookup<Name, Arc<SpendRow>>,
}

/// What became of a token.
enum Changed {
    /// It is gone.
    Gone,
    /// It came, and is held so.
    New(Token, Option<Name>),
    /// It lives below, and is held so now.
    Held(Option<Name>),
}

impl TokenOverlay {
    pub(crate) fn token<'a>(&'a self, base: &'a impl View, id: &TokenId) -> Option<TokenView<'a>> {
        match self.tokens.get(id) {
            None => base.token(id),
            Some(Changed::Gone) => None,
            Some(Changed::New(token, holder)) => Some(TokenView { token, holder: holder.as_ref() }),
            Some(Changed::Held(holder)) => {
                base.token(id).map(|below| TokenView { holder: holder.as_ref(), ..below })
            }
        }
    }

    pub(crate) fn is_consumed(&self, base: &impl View, id: &TokenId) -> bool {
        matches!(self.tokens.get(id), Some(Changed::Gone)) || base.is_consumed(id)
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
        due.retain(|row| !self.locks.contains(&row.spender));
        due.truncate(max);
        due
    }

    pub(crate) fn change(&mut self, base: &impl View, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => {
                self.tokens.insert(token.id.clone(), Changed::New(token.clone(), None));
            }
            TokenEffect::Consumed(id) => drop(self.tokens.insert(id.clone(), Changed::Gone)),
            TokenEffect::Locked(row) => {
                self.set_holder(row, Some(&row.spender));
                self.locks.insert(row.spender.clone(), Some(Arc::clone(row)));
            }
            TokenEffect::Unlocked { spender, fence } => {
                let row = Arc::clone(self.lock(base, spender).expect("a lock that ends is there"));
                assert_eq!(row.fence, *fence, "the lock of {spender} that ends is the one there");
                self.set_holder(&row, None);
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

    fn set_holder(&mut self, row: &LockRow, holder: Option<&Name>) {
        for id in row.tokens.iter() {
            match self.tokens.get_mut(id) {
                Some(Changed::Gone) => {}
                Some(Changed::New(_, held) | Changed::Held(held)) => *held = holder.cloned(),
                None => drop(self.tokens.insert(id.clone(), Changed::Held(holder.cloned()))),
            }
        }
    }
}
