//! Tokens inside a frame: what its commands have changed so far.

use std::sync::Arc;

use holdfast_checkout::lookup::Lookup;

use super::{LockRow, Name, SpendRow, Token, TokenEffect, TokenId, TokenView};
use crate::effects::TokenRows;
use crate::ids::Millis;
use crate::overlay::Overlay;
use crate::view::{Leases, Spenders, Spends, Tokens};

/// Changes laid over a view. `None`: gone.
#[derive(Default)]
pub(crate) struct TokenChanges {
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

impl TokenChanges {
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

impl<V: Tokens + ?Sized> Tokens for Overlay<'_, V> {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        match self.tokens.tokens.get(id) {
            None => self.base.token(id),
            Some(Changed::Gone) => None,
            Some(Changed::New(token, holder)) => Some(TokenView { token, holder: holder.as_ref() }),
            Some(Changed::Held(holder)) => {
                self.base.token(id).map(|below| TokenView { holder: holder.as_ref(), ..below })
            }
        }
    }
}

impl<V: Spenders + ?Sized> Spenders for Overlay<'_, V> {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        match self.tokens.locks.get(spender) {
            Some(row) => row.as_ref(),
            None => self.base.lock(spender),
        }
    }

    fn has_spent(&self, spender: &str) -> bool {
        self.tokens.spends.get(spender).is_some() || self.base.has_spent(spender)
    }
}

impl<V: Spends + ?Sized> Spends for Overlay<'_, V> {
    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.tokens.spends.get(spender).or_else(|| self.base.spend(spender))
    }

    fn is_consumed(&self, id: &TokenId) -> bool {
        matches!(self.tokens.tokens.get(id), Some(Changed::Gone)) || self.base.is_consumed(id)
    }
}

impl<V: Leases + ?Sized> Leases for Overlay<'_, V> {
    /// Expiry comes first in a frame, and what the frame itself locks is never due in it.
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let changed = &self.tokens.locks;
        let mut due = self.base.due_leases(now, max.saturating_add(changed.len()));
        due.retain(|row| !changed.contains(&row.spender));
        due.truncate(max);
        due
    }
}

impl<V: Spenders + ?Sized> TokenRows for Overlay<'_, V> {
    fn token_effect(&mut self, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => {
                self.tokens.tokens.insert(token.id.clone(), Changed::New(token.clone(), None));
            }
            TokenEffect::Consumed(id) => drop(self.tokens.tokens.insert(id.clone(), Changed::Gone)),
            TokenEffect::Locked(row) => {
                self.tokens.set_holder(row, Some(&row.spender));
                self.tokens.locks.insert(row.spender.clone(), Some(Arc::clone(row)));
            }
            TokenEffect::Unlocked { spender, fence } => {
                let row = Arc::clone(self.lock(spender).expect("a lock that ends is there"));
                assert_eq!(row.fence, *fence, "the lock of {spender} that ends is the one there");
                self.tokens.set_holder(&row, None);
                self.tokens.locks.insert(spender.clone(), None);
            }
            TokenEffect::Renewed(row) => {
                self.tokens.locks.insert(row.spender.clone(), Some(Arc::clone(row)));
            }
            TokenEffect::Spent(row) => {
                self.tokens.spends.insert(row.transaction.spender.clone(), Arc::clone(row));
            }
        }
    }
}
