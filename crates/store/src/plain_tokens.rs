//! Tokens of the plain store: everything in sorted maps for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, NO_END, Name, SpendRow, TokenEffect, TokenId, TokenRow};

#[derive(Default)]
pub(crate) struct PlainTokens {
    tokens: BTreeMap<TokenId, TokenRow>,
    consumed: BTreeSet<TokenId>,
    locks: BTreeMap<Name, Arc<LockRow>>,
    spends: BTreeMap<Name, Arc<SpendRow>>,
}

impl PlainTokens {
    pub(crate) fn token(&self, id: &TokenId) -> Option<&TokenRow> {
        self.tokens.get(id)
    }

    pub(crate) fn is_consumed(&self, id: &TokenId) -> bool {
        self.consumed.contains(id)
    }

    pub(crate) fn lock(&self, spender: &str) -> Option<&Arc<LockRow>> {
        self.locks.get(spender)
    }

    pub(crate) fn spend(&self, spender: &str) -> Option<&Arc<SpendRow>> {
        self.spends.get(spender)
    }

    fn leases(&self) -> impl Iterator<Item = &Arc<LockRow>> {
        self.locks.values().filter(|row| row.expires_at != NO_END)
    }

    pub(crate) fn due_leases(&self, now: Millis, max: usize) -> Vec<Arc<LockRow>> {
        let mut due: Vec<_> = self.leases().filter(|row| row.expires_at <= now).cloned().collect();
        due.sort_unstable_by_key(|row| (row.expires_at, row.fence));
        due.truncate(max);
        due
    }

    pub(crate) fn next_lease_end(&self) -> Option<Millis> {
        self.leases().map(|row| row.expires_at).min()
    }

    pub(crate) fn open_leases(&self) -> usize {
        self.leases().count()
    }

    pub(crate) fn tokens(&self) -> impl ExactSizeIterator<Item = &TokenRow> {
        self.tokens.values()
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = &Arc<LockRow>> {
        self.locks.values()
    }

    pub(crate) fn change(&mut self, effect: &TokenEffect) {
        match effect {
            TokenEffect::Produced(token) => {
                let row = TokenRow { token: token.clone(), holder: None };
                let before = self.tokens.insert(token.id.clone(), row);
                assert!(before.is_none(), "token {} lives already", token.id);
            }
            TokenEffect::Consumed(id) => {
                self.tokens.remove(id);
                self.consumed.insert(id.clone());
            }
            TokenEffect::Locked(row) => {
                self.hold(row, Some(&row.spender));
                let before = self.locks.insert(row.spender.clone(), Arc::clone(row));
                assert!(before.is_none(), "{} holds a lock already", row.spender);
            }
            TokenEffect::Unlocked { spender, fence } => {
                let row = self.locks.remove(spender).expect("a lock that ends is there");
                assert_eq!(row.fence, *fence, "the lock of {spender} that ends is the one there");
                self.hold(&row, None);
            }
            TokenEffect::Renewed(row) => {
                let LockRow { spender, fence, expires_at, .. } = &**row;
                let row = self.locks.get_mut(spender).expect("a lock that is renewed is there");
                assert_eq!(row.fence, *fence, "the lock of {spender} that is renewed is the one there");
                Arc::make_mut(row).expires_at = *expires_at;
            }
            TokenEffect::Spent(row) => {
                let before = self.spends.insert(row.transaction.spender.clone(), Arc::clone(row));
                assert!(before.is_none(), "{} has spent already", row.transaction.spender);
            }
        }
    }

    fn hold(&mut self, lock: &LockRow, holder: Option<&Name>) {
        for id in lock.tokens.iter() {
            if let Some(row) = self.tokens.get_mut(id) {
                row.holder = holder.cloned();
            }
        }
    }
}
