//! The vault of all nodes, as one node has it: what it works with, and how it asks the database.

use std::sync::Arc;
use std::time::Instant;

use holdfast_domain::tokens::why_reserved;
use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::{HoldError, StoredSelection};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{Draws, Refusal, Scope, SelectRequest, Token, TokenId};

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
    pub(super) draws: Arc<Draws>,
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

pub(super) fn check_tokens(tokens: &[Token]) -> Result<(), Refusal> {
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

    pub(super) async fn asked<T: Send + 'static>(
        &self,
        mut question: impl FnMut(&mut Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        let asked = self.apart(move |vault| vault.reads.ask(&mut question)).await?;
        asked.map_err(|error| unread(&error))
    }

    /// Has something changed, and tells everybody of it. A refusal is an answer to whoever asked, and changes nothing.
    pub(super) async fn changed<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&mut Store) -> Result<(T, Option<TokenEvent>), HoldError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let changed = self.apart(move |vault| {
            vault.changes.write(|store| {
                let (answer, event) = match change(store) {
                    Ok(changed) => changed,
                    Err(HoldError::Refused(refusal)) => return Ok(Err(refusal)),
                    Err(HoldError::Store(error)) => return Err(error),
                };
                if let Some(event) = event {
                    if let Err(refusal) = vault.feed.cache().follow(&event, vault.clock.now()) {
                        tracing::debug!(%refusal, "the cache of tokens could not follow a change");
                    }
                    store.tell_token_change();
                }
                Ok(Ok(answer))
            })
        });
        changed.await?.map_err(|error| unread(&error))?
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
}
