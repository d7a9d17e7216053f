//! The wallets as this node sees them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use holdfast_domain::ids::Millis;
use holdfast_messages::TokenEvent;
use holdfast_tokens::{
    Claim, Config, Fingerprint, Kind, LockRecord, MemorySelector, Owner, Refusal, Scope, Token, TokenId,
    Transaction,
};
use tokio::sync::Notify;

use super::VaultSettings;
use super::limits::PICTURE_OWNERS_MAX;

/// How often a lock is tried while its tokens come and go.
const LOCK_ATTEMPTS: usize = 8;

/// A picture. It is never mended when it has grown too large or a part of the story is missing: another takes its place.
pub(super) struct Picture {
    pub(super) selector: MemorySelector,
    /// Owners whose tokens are all here.
    loaded: RwLock<HashSet<Scope>>,
    /// Told whenever a claim was decided.
    pub(super) followed: Notify,
}

impl Picture {
    pub(super) fn new(settings: &VaultSettings) -> Arc<Picture> {
        let config = Config {
            tokens_max: settings.picture_tokens_max,
            bytes_max: usize::MAX,
            waiters_max: settings.waiters_max,
            indexes: settings.indexes.clone(),
            ..Config::default()
        };
        Arc::new(Picture {
            selector: MemorySelector::new(config),
            loaded: RwLock::default(),
            followed: Notify::new(),
        })
    }

    pub(super) fn has(&self, scope: &Scope) -> bool {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    /// What `/metrics` shows.
    #[allow(clippy::cast_precision_loss, reason = "gauges are for the eye")]
    pub(super) fn publish(&self) {
        let owners = self.loaded.read().unwrap_or_else(PoisonError::into_inner).len();
        metrics::gauge!("holdfast_token_picture_owners").set(owners as f64);
        metrics::gauge!("holdfast_token_picture_tokens").set(self.selector.token_count() as f64);
        metrics::gauge!("holdfast_token_waiting").set(self.selector.waiting() as f64);
    }

    /// Whether so many owners were asked for that it is time to begin anew.
    pub(super) fn is_full_of_owners(&self) -> bool {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).len() >= PICTURE_OWNERS_MAX
    }

    pub(super) fn note_loaded(&self, scope: &Scope) {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).insert(scope.clone());
    }

    /// Whether anybody asked for the tokens of that kind: the others are none of this node's business.
    fn shows(&self, loaded: &HashSet<Scope>, kind: &Kind) -> bool {
        let (token_type, currency) = (&kind.token_type, &kind.currency);
        let names = [
            Some(Owner::Wallet(kind.wallet.clone())),
            kind.external_id.clone().map(Owner::ExternalId),
            kind.public_key.clone().map(Owner::PublicKey),
            Some(Owner::Any),
        ];
        names.into_iter().flatten().any(|owner| {
            let (token_type, currency) = (token_type.clone(), currency.clone());
            loaded.contains(&Scope { owner, token_type, currency })
        })
    }

    fn shown(&self, tokens: &[Token]) -> Vec<Token> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().filter(|token| self.shows(&loaded, &token.kind)).cloned().collect()
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
        }
    }

    fn exchange(&self, consumed: &[TokenId], produced: &[Token], now: Millis) -> Result<(), Refusal> {
        let (consumed, produced) = (self.known(consumed), self.shown(produced));
        if consumed.is_empty() && produced.is_empty() {
            return Ok(());
        }
        self.selector.apply_update(&consumed, produced, now).map(drop)
    }

    fn spent(&self, transaction: &Transaction, body: Fingerprint, now: Millis) -> Result<(), Refusal> {
        let (consumed, produced) = (self.known(&transaction.consumed), self.shown(&transaction.produced));
        if consumed.is_empty() && produced.is_empty() {
            return Ok(());
        }
        let Transaction { id, spender, .. } = transaction.clone();
        self.selector.apply_spend(&Transaction { id, spender, consumed, produced }, body, now)
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

    /// Takes over a lock that the database has, as far as its tokens are known here. What the picture has against it is old.
    pub(super) fn lock(&self, record: &LockRecord, now: Millis) {
        let mut record = record.clone();
        for _ in 0..LOCK_ATTEMPTS {
            record.ids = self.known(&record.ids).into();
            if record.ids.is_empty() {
                return;
            }
            // Tokens of the lock that became known since it was first seen belong to it too.
            if let Some(older) = self.selector.held(&record.spender)
                && older.fence == record.fence
                && older.tokens.len() < record.ids.len()
            {
                self.unlock(&record.spender, older.fence, now);
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

/// A claim that is undone unless the database has made it a lock.
pub(super) struct Pending {
    picture: Arc<Picture>,
    claim: Claim,
    now: Millis,
}

impl Pending {
    pub(super) fn new(picture: &Arc<Picture>, claim: Claim, now: Millis) -> Pending {
        Pending { picture: Arc::clone(picture), claim, now }
    }

    pub(super) const fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) const fn picture(&self) -> &Arc<Picture> {
        &self.picture
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.picture.selector.undo(&self.claim, self.now) {
            // Who waited for its outcome chooses for himself now.
            self.picture.followed.notify_waiters();
        }
    }
}
