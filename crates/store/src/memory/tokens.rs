//! Tokens of the plain store: everything in sorted maps for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::effects::TokenRows;
use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, NO_END, Name, SpendRow, TokenEffect, TokenId, TokenRow, TokenView};
use holdfast_domain::view::{Leases, Spenders, Spends, Tokens};

use super::MemoryStore;

#[derive(Default)]
pub(super) struct PlainTokens {
    pub(super) live: BTreeMap<TokenId, TokenRow>,
    consumed: BTreeSet<TokenId>,
    pub(super) locks: BTreeMap<Name, Arc<LockRow>>,
    spends: BTreeMap<Name, Arc<SpendRow>>,
}

impl PlainTokens {
    pub(super) fn leases(&self) -> impl Iterator<Item = &Arc<LockRow>> {
        self.locks.values().filter(|row| row.expires_at != NO_END)
    }

    fn hold(&mut self, lock: &LockRow, holder: Option<&Name>) {
        for id in lock.tokens.iter() {
            if let Some(row) = self.live.get_mut(id) {
                row.holder = holder.cloned();
            }
        }
    }
}

impl Tokens for MemoryStore {
    fn token(&self, id: &TokenId) -> Option<TokenView<'_>> {
        self.tokens.live.get(id).map(TokenRow::view)
    }
}

impl Spenders for MemoryStore {
    fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.tokens.locks.get(spender)
    }

    fn has_spent(&self, spender: &str) -> bool {
        self.tokens.spends.contains_key(spender)
    }
}

impl Spends for MemoryStore {
    fn is_consumed(&self, id: &TokenId) -> bool {
        self.tokens.consumed.contains(id)
    }

    fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.tokens.spends.get(spender)
    }
}

impl Leases for MemoryStore {
    fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let mut due: Vec<_> = self.tokens.leases().filter(|row| row.expires_at <= now).cloned().collect();
        due.sort_unstable_by_key(|row| (row.expires_at, row.fence));
        due.truncate(max);
        due
    }
}

impl TokenRows for MemoryStore {
    fn token_effect(&mut self, effect: &TokenEffect) {
        let tokens = &mut self.tokens;
        match effect {
            TokenEffect::Produced(token) => {
                let row = TokenRow { token: token.clone(), holder: None };
                let before = tokens.live.insert(token.id.clone(), row);
                assert!(before.is_none(), "token {} lives already", token.id);
            }
            TokenEffect::Consumed(id) => {
                tokens.live.remove(id);
                tokens.consumed.insert(id.clone());
            }
            TokenEffect::Locked(row) => {
                tokens.hold(row, Some(&row.spender));
                let before = tokens.locks.insert(row.spender.clone(), Arc::clone(row));
                assert!(before.is_none(), "{} holds a lock already", row.spender);
            }
            TokenEffect::Unlocked { spender, fence } => {
                let row = tokens.locks.remove(spender).expect("a lock that ends is there");
                assert_eq!(row.fence, *fence, "the lock of {spender} that ends is the one there");
                tokens.hold(&row, None);
            }
            TokenEffect::Renewed(row) => {
                let LockRow { spender, fence, expires_at, .. } = &**row;
                let row = tokens.locks.get_mut(spender).expect("a lock that is renewed is there");
                assert_eq!(row.fence, *fence, "the lock of {spender} that is renewed is the one there");
                Arc::make_mut(row).expires_at = *expires_at;
            }
            TokenEffect::Spent(row) => {
                let before = tokens.spends.insert(row.transaction.spender.clone(), Arc::clone(row));
                assert!(before.is_none(), "{} has spent already", row.transaction.spender);
            }
        }
    }
}
