//! What the edges call.

use std::sync::Arc;
use std::time::Instant;

use holdfast_domain::tokens::why_reserved;
use holdfast_engine::LOCKS_SHOWN;
use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::{HoldError, Holdings, StoredSelection};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{
    Draws, Lease, LockView, Name, Refusal, Scope, SelectRequest, Selection, Token, TokenId, TokenPage,
    TokenState, check_lease, check_name,
};

use super::cache::TokenCache;
use super::clock::TokenClock;
use super::feed::{ChangeListener, Feed, FeedError, Refresh, Timer};
use super::limits::CHANGERS_MAX;
use super::workers::{Queue, Worker, refusal_of};
use crate::health::Part;
use crate::reads::{ReadError, Reads};
use crate::settings::NodeSettings;
use crate::stop::Stop;

/// The vault of all nodes, seen from one. Cheap to clone.
#[derive(Clone)]
pub struct TokenVault {
    settings: Arc<NodeSettings>,
    pub(super) clock: Arc<TokenClock>,
    pub(super) feed: Arc<Feed>,
    pub(super) queue: Arc<Queue>,
    reads: Arc<Reads>,
    /// For what changes tokens, and what a spend at another node has to know: lists and balances must not be in its way.
    changes: Arc<Reads>,
    part: Arc<Part>,
    pub(super) claim_attempts: usize,
    draws: Arc<Draws>,
    pub(super) conflicts: metrics::Counter,
    pub(super) selections: metrics::Counter,
}

/// The refusal of a node that ends.
pub(super) fn ended() -> Refusal {
    Refusal::StoreUnavailable(
        "the node is ending, or the threads that would have answered are gone".to_owned(),
    )
}

fn unread(error: &ReadError) -> Refusal {
    match error {
        ReadError::Busy => Refusal::StoreUnavailable("all connections of this node are in use".to_owned()),
        ReadError::Store(error) => refusal_of(error),
    }
}

/// PostgreSQL's texts cannot hold it.
pub(super) fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    if text.contains('\0') {
        return Err(Refusal::Invalid(format!("{what} contains a NUL character")));
    }
    Ok(())
}

fn check_tokens(tokens: &[Token]) -> Result<(), Refusal> {
    for token in tokens {
        token.check()?;
        let kind = &token.kind;
        check_text("the id of a token", token.id.as_str())?;
        if let Some(why) = why_reserved(&token.id) {
            return Err(Refusal::Invalid(why));
        }
        let optional = [&kind.external_id, &kind.public_key, &kind.issuer, &kind.notary];
        for name in
            [&kind.wallet, &kind.token_type, &kind.currency].into_iter().chain(optional.into_iter().flatten())
        {
            check_text("a name of a token", name)?;
        }
        for (name, value) in kind.attributes.iter().flat_map(|all| all.iter()) {
            check_text("an attribute", name)?;
            check_text("an attribute", value)?;
        }
    }
    Ok(())
}

impl TokenVault {
    pub(super) fn new(
        settings: &Arc<NodeSettings>,
        reads: &Arc<Reads>,
        part: Arc<Part>,
        clock: TokenClock,
    ) -> TokenVault {
        let clock = Arc::new(clock);
        TokenVault {
            settings: Arc::clone(settings),
            feed: Arc::new(Feed::new(settings, &clock)),
            clock,
            queue: Arc::default(),
            reads: Arc::clone(reads),
            changes: Arc::new(reads.beside(CHANGERS_MAX)),
            part,
            claim_attempts: settings.tokens.claim_attempts,
            draws: Arc::default(),
            conflicts: metrics::counter!("holdfast_token_conflicts_total"),
            selections: metrics::counter!("holdfast_token_selections_total"),
        }
    }

    pub(super) fn worker(&self) -> Worker {
        Worker {
            settings: Arc::clone(&self.settings),
            queue: Arc::clone(&self.queue),
            feed: Arc::clone(&self.feed),
            clock: Arc::clone(&self.clock),
            part: Arc::clone(&self.part),
            batches: metrics::histogram!("holdfast_token_batch_requests"),
        }
    }

    pub(super) fn listener(&self, stop: &Arc<Stop>) -> ChangeListener {
        ChangeListener { feed: Arc::clone(&self.feed), part: Arc::clone(&self.part), stop: Arc::clone(stop) }
    }

    pub(super) fn timer(&self, stop: &Arc<Stop>) -> Timer {
        Timer { feed: Arc::clone(&self.feed), clock: Arc::clone(&self.clock), stop: Arc::clone(stop) }
    }

    /// Takes nothing more and answers all who wait.
    pub(crate) fn close(&self) {
        self.queue.close();
        self.feed.end_waiting();
    }

    /// Answers those who wait for tokens, when it is called. It does not keep the vault's connections.
    pub(crate) fn end_waiting(&self) -> impl FnOnce() + Send + use<> {
        let feed = Arc::downgrade(&self.feed);
        move || {
            if let Some(feed) = feed.upgrade() {
                feed.end_waiting();
            }
        }
    }

    pub(super) fn begin_anew(&self, now: i64) {
        self.clock.stand_back_at(now);
        self.feed.begin_anew();
    }

    pub(super) fn set_time(&self, now: i64) {
        self.clock.stand_at(now);
    }

    pub(super) fn draw(&self) -> u64 {
        self.draws.draw()
    }

    /// A UUID that nobody has and nobody can guess.
    #[must_use]
    pub fn new_id(&self) -> u128 {
        self.draws.uuid()
    }

    pub(super) fn check_request(&self, request: &SelectRequest) -> Result<(), Refusal> {
        check_text("the spender", &request.spender)?;
        let scope = &request.scope;
        for name in [scope.owner.name(), &scope.token_type, &scope.currency] {
            check_text("a name of the request", name)?;
        }
        Ok(())
    }

    /// Does something that may wait, on a thread for that.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&TokenVault) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let vault = self.clone();
        tokio::task::spawn_blocking(move || work(&vault)).await.map_err(|_| ended())
    }

    /// The cache, with all tokens of that owner.
    pub(super) async fn loaded(&self, scope: &Scope) -> Result<Arc<TokenCache>, Refusal> {
        loop {
            // From here on no end of a load is missed.
            let ended = self.feed.loads.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let cache = self.feed.cache();
            if cache.has(scope) {
                return Ok(cache);
            }
            if let Some(turn) = self.feed.loads.turn(scope) {
                let loaded = self.apart(move |vault| vault.feed.load(&turn)).await?;
                return loaded.map_err(Refusal::from);
            }
            ended.await;
        }
    }

    pub(super) async fn refresh(&self, scope: &Scope, how: Refresh) -> Result<(), Refusal> {
        let (scope, asked) = (scope.clone(), Instant::now());
        let refreshed = self.apart(move |vault| vault.feed.refresh(&scope, how, asked)).await?;
        refreshed.map_err(Refusal::from)
    }

    pub(super) async fn learn(&self, ids: Vec<TokenId>) -> Result<(), Refusal> {
        let learnt: Result<(), FeedError> = self.apart(move |vault| vault.feed.learn(&ids)).await?;
        learnt.map_err(Refusal::from)
    }

    /// What a spender has, as the database knows it.
    pub(super) async fn stored(&self, spender: &str) -> Result<Option<StoredSelection>, Refusal> {
        let (spender, told) = (spender.to_owned(), self.clock.told());
        let asked =
            self.apart(move |vault| vault.changes.ask(|store| store.token_selection(&spender, told))).await?;
        asked.map_err(|error| unread(&error))
    }

    async fn asked<T: Send + 'static>(
        &self,
        mut question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        let asked = self.apart(move |vault| vault.reads.ask(&mut question)).await?;
        asked.map_err(|error| unread(&error))
    }

    /// Has something changed, and tells everybody of it.
    async fn changed<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&mut Store) -> Result<(T, Option<TokenEvent>), Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        let changed = self.apart(move |vault| {
            vault.changes.write(|store| {
                let (answer, event) = change(store)?;
                if let Some(event) = event {
                    if let Err(refusal) = vault.feed.cache().follow(&event, vault.clock.now()) {
                        tracing::debug!(%refusal, "the cache of tokens could not follow a change");
                    }
                    store.tell_token_change();
                }
                Ok(answer)
            })
        });
        changed.await?.map_err(|error| unread(&error))
    }

    /// Chooses and locks tokens, all or nothing; waits up to `wait_ms` for those that others hold.
    ///
    /// # Errors
    /// With true numbers, if there are none to be had.
    pub async fn select(&self, request: SelectRequest, wait_ms: i64) -> Result<Selection, Refusal> {
        self.select_where(request, None, wait_ms).await
    }

    /// Adds new tokens, all or none.
    ///
    /// # Errors
    /// If one is there already or was consumed.
    pub async fn issue(&self, tokens: Vec<Token>) -> Result<(), Refusal> {
        check_tokens(&tokens)?;
        let told = self.clock.told();
        let issued = self.changed(move |store| {
            Ok(match store.issue_tokens(&tokens, told)? {
                Ok(event) => (Ok(()), Some(event)),
                Err(refusal) => (Err(refusal), None),
            })
        });
        issued.await?
    }

    /// Takes over what happened on an outside ledger, in any order. Returns how many tokens came and went.
    ///
    /// # Errors
    /// If a name cannot be, or a transfer holds a consumed token.
    pub async fn update(
        &self,
        consumed: Vec<TokenId>,
        produced: Vec<Token>,
    ) -> Result<(usize, usize), Refusal> {
        for id in &consumed {
            check_name("a consumed id", id.as_str())?;
            check_text("a consumed id", id.as_str())?;
        }
        check_tokens(&produced)?;
        let told = self.clock.told();
        let updated = self.changed(move |store| {
            let event = match store.update_tokens(&consumed, &produced, told)? {
                Ok(event) => event,
                Err(refusal) => return Ok((Err(refusal), None)),
            };
            let counts = match &event {
                Some(TokenEvent::Updated { consumed, produced, .. }) => (produced.len(), consumed.len()),
                _ => (0, 0),
            };
            Ok((Ok(counts), event))
        });
        updated.await?
    }

    /// Moves the end of a live lease to `lease_ms` from now.
    ///
    /// # Errors
    /// If the lease is lost.
    pub async fn renew(&self, spender: Name, fence: Option<u64>, lease_ms: i64) -> Result<Lease, Refusal> {
        check_lease(lease_ms)?;
        check_name("the spender", &spender)?;
        check_text("the spender", &spender)?;
        let told = self.clock.told();
        let renewed = self.changed(move |store| match store.renew_tokens(&spender, fence, lease_ms, told) {
            Ok((lease, event)) => Ok((Ok((spender.clone(), lease)), event)),
            Err(HoldError::Refused(refusal)) => Ok((Err(refusal), None)),
            Err(HoldError::Store(error)) => Err(error),
        });
        let (spender, lease) = renewed.await??;
        let (cache, now) = (self.feed.cache(), self.clock.now());
        // Where the cache has seen the end already, the next claim on these tokens learns that they are held.
        drop(cache.selector.apply_renew(&spender, lease.fence, lease.expires_at, now));
        Ok(lease)
    }

    /// Frees what a spender has locked; how many tokens that were.
    ///
    /// # Errors
    /// If the fence is of another selection.
    pub async fn release(&self, spender: Name, fence: Option<u64>) -> Result<usize, Refusal> {
        check_name("the spender", &spender)?;
        check_text("the spender", &spender)?;
        let told = self.clock.told();
        let released = self.changed(move |store| match store.release_tokens(&spender, fence, told) {
            Ok((freed, event)) => Ok((Ok(freed), event)),
            Err(HoldError::Refused(refusal)) => Ok((Err(refusal), None)),
            Err(HoldError::Store(error)) => Err(error),
        });
        released.await?
    }

    /// What an owner has, and in what pieces.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn holdings(&self, scope: &Scope) -> Result<Holdings, Refusal> {
        let (scope, told) = (scope.clone(), self.clock.told());
        self.asked(move |store| store.token_holdings(&scope, told)).await
    }

    /// The live locks with higher fences than `after`, in their order: of one owner, or of all. With the fence behind which
    /// there may be more; at most `rows` are read, and at most [`LOCKS_SHOWN`].
    ///
    /// # Errors
    /// If the database fails.
    pub async fn locks(
        &self,
        scope: Option<&Scope>,
        after: Option<u64>,
        rows: usize,
    ) -> Result<(Vec<LockView>, Option<u64>), Refusal> {
        let (scope, told, rows) = (scope.cloned(), self.clock.told(), rows.min(LOCKS_SHOWN));
        self.asked(move |store| store.token_lock_views(scope.as_ref(), after, rows, told)).await
    }

    /// How many selects wait at this node.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.feed.cache().selector.waiting()
    }

    /// The database's time, as this node estimates it.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Some of an owner's tokens by rising id, after the one given.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn tokens(
        &self,
        scope: &Scope,
        state: Option<TokenState>,
        after: Option<&TokenId>,
        limit: usize,
    ) -> Result<TokenPage, Refusal> {
        let (scope, after, told) = (scope.clone(), after.cloned(), self.clock.told());
        let limit = limit.max(1);
        let page = self.asked(move |store| store.token_page(&scope, state, after.as_ref(), limit, told));
        let tokens = page.await?;
        let next = tokens.last().filter(|_| tokens.len() == limit).map(|(token, _)| token.id.clone());
        Ok(TokenPage { tokens, next })
    }
}
