//! The selector in memory, following the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use holdfast_domain::ids::Millis;
use holdfast_domain::tokens::{LockRow, TokenEffect, TokenId};
use holdfast_engine::claims::ClaimsTokens;
use holdfast_store::Store;
use holdfast_tokens::{Config, LockRecord, MemorySelector, Refusal, Token};
use tokio::sync::Notify;

use super::TokenOptions;

/// Tokens that are loaded together at the start.
const LOAD_PAGE: usize = 4_096;

/// What can be selected: the durable tokens and locks, and claims that are on their way.
pub struct TokenIndex {
    pub(super) selector: MemorySelector,
    max: usize,
    /// Tokens that records on their way may add.
    coming: AtomicUsize,
    conflicts: AtomicU64,
    /// Told whenever a frame with tokens is durable.
    followed: Notify,
    errors: metrics::Counter,
}

impl TokenIndex {
    /// The index of what a store holds.
    ///
    /// # Errors
    /// If the tokens and locks of the store contradict each other.
    pub fn of(store: &impl Store, now: Millis, options: &TokenOptions) -> Result<TokenIndex, Refusal> {
        let selector = MemorySelector::new(Config {
            // The bound is the vault's: what is in the log must find its place.
            tokens_max: usize::MAX,
            bytes_max: usize::MAX,
            waiters_max: options.waiters_max,
            indexes: options.indexes.kinds(),
            // What was consumed or spent is remembered by the store, for ever; the index needs the newest only.
            ..Config::default()
        });
        load(&selector, store, now)?;
        Ok(TokenIndex {
            selector,
            max: options.max,
            coming: AtomicUsize::new(0),
            conflicts: AtomicU64::new(0),
            followed: Notify::new(),
            errors: metrics::counter!("holdfast_token_index_errors_total"),
        })
    }

    /// Ready when the next frame with tokens is durable.
    pub(super) fn followed(&self) -> tokio::sync::futures::Notified<'_> {
        self.followed.notified()
    }

    /// Takes room for tokens that a record may add, until the room is dropped.
    pub(super) fn room_for(self: &Arc<Self>, tokens: usize) -> Result<Room, Refusal> {
        let coming = self.coming.fetch_add(tokens, Ordering::SeqCst);
        let room = Room { index: Arc::clone(self), tokens };
        let full = || self.selector.token_count().saturating_add(coming).saturating_add(tokens) > self.max;
        if tokens > 0 && full() {
            return Err(Refusal::Full { what: "the vault (tokens.max) is", limit: self.max });
        }
        Ok(room)
    }

    /// Takes over a lock that the log has, whatever the index thought: it may have seen the lease end before it heard of the
    /// renewal.
    pub(crate) fn adopt(&self, row: &LockRow, time: Millis) -> Result<(), Refusal> {
        let adopted = self.selector.apply_lock(&lock_record(row), time);
        // A claim that others wait for may have become this lock, or given way to it: no frame will tell them.
        self.followed.notify_waiters();
        adopted
    }

    fn renew(&self, row: &LockRow, time: Millis) -> Result<(), Refusal> {
        match self.selector.apply_renew(&row.spender, row.fence, row.expires_at, time) {
            Ok(_) => Ok(()),
            Err(Refusal::LeaseLost { .. }) => self.adopt(row, time),
            Err(other) => Err(other),
        }
    }

    /// Answers all who wait: nothing will come any more.
    pub(crate) fn end_waiting(&self) {
        self.selector.end_waiting(&Refusal::StoreUnavailable("the hub is ending or has stopped".to_owned()));
    }

    /// A choice was made anew, because the log said no.
    pub(super) fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// Takes over what a durable frame of that time did.
    pub(crate) fn follow(&self, effects: &[TokenEffect], time: Millis) {
        let mut rest = effects;
        while let Some((effect, after)) = rest.split_first() {
            let (followed, left) = match effect {
                TokenEffect::Locked(row) => (self.selector.apply_lock(&lock_record(row), time), after),
                TokenEffect::Renewed(row) => (self.renew(row, time), after),
                TokenEffect::Unlocked { spender, fence } => match spend_after(after, spender) {
                    Some((row, left)) => (self.selector.apply_spend(&row.transaction, row.body, time), left),
                    None => (self.selector.apply_unlock(spender, Some(*fence), time).map(drop), after),
                },
                TokenEffect::Spent(row) => {
                    (self.selector.apply_spend(&row.transaction, row.body, time), after)
                }
                TokenEffect::Produced(_) | TokenEffect::Consumed(_) => {
                    let (consumed, produced, left) = exchange(rest);
                    (self.selector.apply_update(&consumed, produced, time).map(drop), left)
                }
            };
            if let Err(refusal) = followed {
                // The log is right. Whoever selects is judged by it; only the choice may be worse until a restart.
                self.errors.increment(1);
                tracing::error!(%refusal, ?effect, "the index of tokens could not follow the log; restart to load it anew");
            }
            rest = left;
        }
        self.followed.notify_waiters();
    }
}

/// Room for tokens that are on their way.
pub(super) struct Room {
    index: Arc<TokenIndex>,
    tokens: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.index.coming.fetch_sub(self.tokens, Ordering::SeqCst);
    }
}

impl ClaimsTokens for TokenIndex {
    fn selector(&self) -> &MemorySelector {
        &self.selector
    }

    fn claim_ended(&self, undone: bool) {
        if undone {
            self.followed.notify_waiters();
        }
    }
}

fn load(selector: &MemorySelector, store: &impl Store, now: Millis) -> Result<(), Refusal> {
    selector.begin_load();
    let mut page: Vec<Token> = Vec::with_capacity(LOAD_PAGE);
    let mut loaded = Ok(());
    store.tokens(&mut |row| {
        page.push(row.token.clone());
        if page.len() == LOAD_PAGE && loaded.is_ok() {
            loaded = selector.load_page(std::mem::take(&mut page)).map(drop);
        }
    });
    loaded?;
    selector.load_page(page)?;
    let mut locked = Ok(());
    store.locks(&mut |row| {
        if row.is_live(now) && locked.is_ok() {
            locked = selector.apply_lock(&lock_record(row), now);
        }
    });
    selector.end_load();
    locked
}

fn lock_record(row: &LockRow) -> LockRecord {
    LockRecord {
        spender: row.spender.clone(),
        fence: row.fence,
        since: row.since,
        expires_at: row.expires_at,
        amount: row.amount,
        body: row.body,
        ids: row.tokens.clone(),
    }
}

/// If what follows the end of a lock is its spend: the spend, and what follows that. Done in one step, so that nobody sees its
/// inputs free in between.
fn spend_after<'a>(
    effects: &'a [TokenEffect],
    spender: &str,
) -> Option<(&'a holdfast_domain::tokens::SpendRow, &'a [TokenEffect])> {
    let moves = |effect: &&TokenEffect| matches!(effect, TokenEffect::Produced(_) | TokenEffect::Consumed(_));
    let count = effects.iter().take_while(moves).count();
    match effects.get(count) {
        Some(TokenEffect::Spent(row)) if *row.transaction.spender == *spender => {
            Some((row, &effects[count + 1..]))
        }
        _ => None,
    }
}

/// Tokens that were issued together or one after another are taken in so many at a time.
const PRODUCED_TOGETHER: usize = 4_096;

/// The moves that stand together at the beginning, and what follows them.
fn exchange(effects: &[TokenEffect]) -> (Vec<TokenId>, Vec<Token>, &[TokenEffect]) {
    let (mut consumed, mut produced) = (Vec::new(), Vec::new());
    for (at, effect) in effects.iter().enumerate() {
        if consumed.is_empty() && produced.len() == PRODUCED_TOGETHER {
            return (consumed, produced, &effects[at..]);
        }
        match effect {
            TokenEffect::Consumed(id) => consumed.push(id.clone()),
            TokenEffect::Produced(token) => produced.push(token.clone()),
            _ => return (consumed, produced, &effects[at..]),
        }
    }
    (consumed, produced, &[])
}

#[cfg(test)]
mod tests {
    use holdfast_domain::tokens::Fingerprint;
    use holdfast_store::MemoryStore;
    use holdfast_tokens::{Random, Scope, SelectRequest, TokenSelector};

    use super::*;

    const NOW: Millis = 1_800_000_000_000;

    fn lock(spender: &str, id: &str, expires_at: Millis) -> LockRow {
        LockRow {
            spender: spender.into(),
            fence: 7,
            since: NOW,
            expires_at,
            amount: 1,
            body: Fingerprint(1),
            tokens: [id.into()].into(),
            funding: None,
        }
    }

    #[test]
    fn a_lease_that_ended_here_before_its_renewal_was_heard_of_is_held_again() {
        let index = TokenIndex::of(&MemoryStore::new(1), NOW, &TokenOptions::default()).unwrap();
        let produced = Token::new("t", "alice", "EUR", 1);
        let row = lock("s", "t", NOW + 10);
        index.follow(&[TokenEffect::Produced(produced), TokenEffect::Locked(Arc::new(row.clone()))], NOW);
        let scope = Scope::wallet("alice", "EUR");
        assert_eq!(index.selector.balance(&scope, NOW + 11).unwrap().free, 1, "the lease is over");
        let renewed = LockRow { expires_at: NOW + 1_000, ..row };
        index.follow(&[TokenEffect::Renewed(Arc::new(renewed))], NOW + 9);
        assert_eq!(index.selector.balance(&scope, NOW + 11).unwrap().locked, 1);
        let other = SelectRequest::new("other", scope, 1);
        let refused = index.selector.select(&other, NOW + 12, &mut Random::new(1)).unwrap_err();
        assert_eq!(refused.name(), "funds-locked");
    }

    /// Somebody waits for the outcome of a claim, and the claim gives way to a lock that the index had lost sight of.
    #[test]
    fn who_waits_hears_of_a_lock_that_was_taken_over() {
        let index = TokenIndex::of(&MemoryStore::new(1), NOW, &TokenOptions::default()).unwrap();
        index.follow(&[TokenEffect::Produced(Token::new("t", "alice", "EUR", 1))], NOW);
        let followed = index.followed();
        tokio::pin!(followed);
        followed.as_mut().enable();
        index.adopt(&lock("s", "t", NOW + 1_000), NOW).unwrap();
        let woken = std::future::Future::poll(
            followed.as_mut(),
            &mut std::task::Context::from_waker(std::task::Waker::noop()),
        );
        assert!(woken.is_ready());
    }
}
