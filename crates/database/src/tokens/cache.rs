//! The wallets as this node sees them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use holdfast_domain::ids::Millis;
use holdfast_engine::claims::ClaimsTokens;
use holdfast_messages::TokenEvent;
use holdfast_tokens::{
    Config, Fingerprint, Kind, LockRecord, MemorySelector, Owner, Refusal, Scope, Token, TokenId, Transaction,
};
use tokio::sync::Notify;

use super::VaultSettings;
use super::limits::{CACHE_OWNERS_MAX, LOCK_ATTEMPTS};

/// Whose tokens are here.
#[derive(Default)]
struct Owners {
    /// All that they have is here.
    loaded: HashSet<Scope>,
    /// It is on its way here. What others do to it is followed already; or what happens between the moment as of which it is
    /// read and that at which it is here would be missed.
    coming: Vec<Scope>,
}

impl Owners {
    fn have(&self, scope: &Scope) -> bool {
        self.loaded.contains(scope) || self.coming.contains(scope)
    }
}

/// An owner that is being loaded, until this is dropped.
pub(super) struct Coming<'a> {
    cache: &'a TokenCache,
    scope: &'a Scope,
}

impl Coming<'_> {
    /// All is here.
    pub(super) fn note_loaded(&self) {
        self.cache.write().loaded.insert(self.scope.clone());
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let mut owners = self.cache.write();
        if let Some(place) = owners.coming.iter().position(|scope| scope == self.scope) {
            owners.coming.swap_remove(place);
        }
    }
}

/// A cache. It is never mended when it has grown too large or a part of the story is missing: another takes its place.
pub(super) struct TokenCache {
    pub(super) selector: MemorySelector,
    owners: RwLock<Owners>,
    /// Told whenever a claim was decided.
    pub(super) followed: Notify,
}

impl TokenCache {
    pub(super) fn new(settings: &VaultSettings) -> Arc<TokenCache> {
        let config = Config {
            tokens_max: settings.cache_tokens_max,
            bytes_max: usize::MAX,
            waiters_max: settings.waiters_max,
            indexes: settings.indexes.clone(),
            ..Config::default()
        };
        Arc::new(TokenCache {
            selector: MemorySelector::new(config),
            owners: RwLock::default(),
            followed: Notify::new(),
        })
    }

    pub(super) fn has(&self, scope: &Scope) -> bool {
        self.read().loaded.contains(scope)
    }

    fn read(&self) -> RwLockReadGuard<'_, Owners> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Owners> {
        self.owners.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `/metrics` shows.
    #[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
    pub(super) fn publish(&self) {
        let owners = self.read().loaded.len();
        metrics::gauge!("holdfast_token_picture_owners").set(owners as f64);
        metrics::gauge!("holdfast_token_picture_tokens").set(self.selector.token_count() as f64);
        metrics::gauge!("holdfast_token_waiting").set(self.selector.waiting() as f64);
    }

    /// Whether so many owners were asked for that it is time to begin anew.
    pub(super) fn is_full_of_owners(&self) -> bool {
        self.read().loaded.len() >= CACHE_OWNERS_MAX
    }

    /// From now on what others do to that owner's tokens is followed, as if all were here. To be called before they are read.
    pub(super) fn expect<'a>(&'a self, scope: &'a Scope) -> Coming<'a> {
        self.write().coming.push(scope.clone());
        Coming { cache: self, scope }
    }

    /// Whether anybody asked for the tokens of that kind: the others are none of this node's business.
    fn shows(owners: &Owners, kind: &Kind) -> bool {
        let (token_type, currency) = (&kind.token_type, &kind.currency);
        let names = [
            Some(Owner::Wallet(kind.wallet.clone())),
            kind.external_id.clone().map(Owner::ExternalId),
            kind.public_key.clone().map(Owner::PublicKey),
            Some(Owner::Any),
        ];
        names.into_iter().flatten().any(|owner| {
            let (token_type, currency) = (token_type.clone(), currency.clone());
            owners.have(&Scope { owner, token_type, currency })
        })
    }

    fn shown(&self, tokens: &[Token]) -> Vec<Token> {
        let owners = self.read();
        tokens.iter().filter(|token| TokenCache::shows(&owners, &token.kind)).cloned().collect()
    }

    fn known(&self, ids: &[TokenId]) -> Vec<TokenId> {
        ids.iter().filter(|id| self.selector.has_token(id)).cloned().collect()
    }

    /// Takes over what happened, as often as it is told.
    pub(super) fn follow(&self, event: &TokenEvent, now: Millis) -> Result<(), Refusal> {
        match event {
            TokenEvent::Issued(tokens) => self.exchange(&[], tokens, now),
            TokenEvent::Spent { body, transaction, .. } => self.spent(transaction, *body, now),
            TokenEvent::Updated { consumed, produced, broken } => {
                for (spender, fence) in broken {
                    self.unlock(spender, *fence, now);
                }
                self.exchange(consumed, produced, now)
            }
            TokenEvent::Released { spender, fence } => {
                self.unlock(spender, *fence, now);
                Ok(())
            }
            TokenEvent::Shortened { spender, fence, expires_at } => {
                // If it is not known here, or has ended, there is nothing to move.
                drop(self.selector.apply_renew(spender, *fence, *expires_at, now));
                Ok(())
            }
        }
    }

    fn exchange(&self, consumed: &[TokenId], produced: &[Token], now: Millis) -> Result<(), Refusal> {
        let (known, produced) = (self.known(consumed), self.shown(produced));
        if !known.is_empty() || !produced.is_empty() {
            self.selector.apply_update(&known, produced, now)?;
        }
        self.mark_gone(consumed, now)
    }

    /// What is on its way here was read before it was spent, perhaps: marks keep it out. They are left after the exchange, so
    /// whichever comes first, the token or this, it is not here in the end. There is room for many marks; one that had to make
    /// room for another costs an attempt.
    fn mark_gone(&self, consumed: &[TokenId], now: Millis) -> Result<(), Refusal> {
        if consumed.is_empty() || self.read().coming.is_empty() {
            return Ok(());
        }
        self.selector.apply_update(consumed, Vec::new(), now).map(drop)
    }

    fn spent(&self, transaction: &Transaction, body: Fingerprint, now: Millis) -> Result<(), Refusal> {
        let (consumed, produced) = (self.known(&transaction.consumed), self.shown(&transaction.produced));
        if !consumed.is_empty() || !produced.is_empty() {
            let Transaction { id, spender, .. } = transaction.clone();
            self.selector.apply_spend(&Transaction { id, spender, consumed, produced }, body, now)?;
        }
        self.mark_gone(&transaction.consumed, now)
    }

    /// A lock of that fence has ended; a newer one of the same spender stays.
    pub(super) fn unlock(&self, spender: &str, fence: u64, now: Millis) {
        self.selector.apply_lease_end(spender, fence, now);
    }

    /// Takes tokens in that are not spent.
    pub(super) fn add(&self, tokens: Vec<Token>, now: Millis) -> Result<(), Refusal> {
        self.selector.apply_update(&[], tokens, now).map(drop)
    }

    /// Tokens that turned out to be gone.
    pub(super) fn remove(&self, ids: &[TokenId], now: Millis) -> Result<(), Refusal> {
        self.exchange(ids, &[], now)
    }

    /// Takes over a lock that the database has, as far as its tokens are known here. What the cache has against it is old.
    pub(super) fn lock(&self, record: &LockRecord, now: Millis) {
        let mut record = record.clone();
        for _ in 0..LOCK_ATTEMPTS {
            record.ids = self.known(&record.ids).into();
            if record.ids.is_empty() {
                return;
            }
            if let Some(older) = self.selector.held(&record.spender)
                && older.fence == record.fence
            {
                if older.tokens.len() < record.ids.len() {
                    // Tokens of the lock that became known since it was first seen belong to it too.
                    self.unlock(&record.spender, older.fence, now);
                } else if older.expires_at != record.expires_at {
                    // It was renewed elsewhere. If it has just ended, there is nothing to move.
                    drop(self.selector.apply_renew(&record.spender, record.fence, record.expires_at, now));
                }
            }
            match self.selector.apply_lock(&record, now) {
                // It went between the look and the lock.
                Err(Refusal::UnknownToken(_) | Refusal::TokenConsumed(_)) => {}
                Err(Refusal::SpenderInUse { .. }) => {
                    let Some(older) = self.selector.held(&record.spender) else { return };
                    if older.fence > record.fence {
                        return;
                    }
                    self.unlock(&record.spender, older.fence, now);
                }
                // Another's lock stands in the way that the story will end soon; until then a claim costs an attempt.
                Ok(()) | Err(_) => break,
            }
        }
        self.followed.notify_waiters();
    }
}

impl ClaimsTokens for TokenCache {
    fn selector(&self) -> &MemorySelector {
        &self.selector
    }

    /// Also if there was nothing left to undo: the story may have ended it.
    fn claim_ended(&self, _undone: bool) {
        self.followed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use holdfast_engine::claims::Pending;
    use holdfast_tokens::{Claimed, Random, SelectRequest};

    use super::*;

    /// What another node did may end a claim before the database has judged it; who waits for its outcome hears that too.
    #[test]
    fn the_end_of_a_claim_is_always_told() {
        let cache = TokenCache::new(&VaultSettings::default());
        let scope = Scope::wallet("alice", "EUR");
        cache.expect(&scope).note_loaded();
        cache.add(vec![Token::new("t", "alice", "EUR", 1)], 0).unwrap();
        let request = SelectRequest::new("s", scope, 1);
        let Ok(Claimed::New(claim)) = cache.selector.claim(&request, None, 0, &mut Random::new(1)) else {
            panic!("the token is free")
        };
        let pending = Pending::new(&cache, claim, 0);
        let transaction = Transaction {
            id: "x".into(),
            spender: "s".into(),
            consumed: vec!["t".into()],
            produced: Vec::new(),
        };
        let spent = TokenEvent::Spent { fence: 1, body: Fingerprint(2), transaction };
        let mut followed = pin!(cache.followed.notified());
        followed.as_mut().enable();
        cache.follow(&spent, 0).unwrap();
        drop(pending);
        assert_eq!(followed.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }

    fn token(id: &str) -> Token {
        Token::new(id, "alice", "EUR", 1)
    }

    fn spent(id: &str) -> TokenEvent {
        let consumed = vec![id.into()];
        let transaction =
            Transaction { id: "tx".into(), spender: "s".into(), consumed, produced: Vec::new() };
        TokenEvent::Spent { fence: 1, body: Fingerprint(1), transaction }
    }

    /// Tokens as a load has read them, before or after it is told that one was spent and one came.
    #[test]
    fn what_is_spent_while_its_owner_is_loaded_does_not_come_back() {
        let scope = Scope::wallet("alice", "EUR");
        for told_first in [true, false] {
            let cache = TokenCache::new(&VaultSettings::default());
            let coming = cache.expect(&scope);
            let tell = || {
                cache.follow(&spent("gone"), 0).unwrap();
                cache.follow(&TokenEvent::Issued(vec![token("new")]), 0).unwrap();
            };
            if told_first {
                tell();
            }
            cache.add(vec![token("gone"), token("stays")], 0).unwrap();
            if !told_first {
                tell();
            }
            assert!(!cache.has(&scope));
            coming.note_loaded();
            drop(coming);
            let here = ["gone", "stays", "new"].map(|id| cache.selector.has_token(&id.into()));
            assert_eq!(here, [false, true, true], "told first: {told_first}");
        }
    }

    /// Nothing is remembered of owners that nobody asked for.
    #[test]
    fn what_nobody_asked_for_leaves_no_mark() {
        let cache = TokenCache::new(&VaultSettings::default());
        cache.follow(&spent("t"), 0).unwrap();
        drop(cache.expect(&Scope::wallet("bob", "EUR")));
        cache.follow(&TokenEvent::Issued(vec![token("other")]), 0).unwrap();
        cache.add(vec![token("t")], 0).unwrap();
        assert!(cache.selector.has_token(&"t".into()));
        assert!(!cache.selector.has_token(&"other".into()));
    }
}
