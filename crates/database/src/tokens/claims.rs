//! A claim on its way: set aside in the cache, judged by the database, or undone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_domain::ids::Millis;
use holdfast_engine::claims::{self, claim_once};
use holdfast_postgres::tokens::{ClaimVerdict, StoredSelection, WantedClaim};
use holdfast_tokens::{
    Fingerprint, NOT_DECIDED, Predicate, Random, Refusal, SelectRequest, Selection, Token, TokenId,
};
use tokio::sync::oneshot;

use super::cache::TokenCache;
use super::feed::Refresh;
use super::limits::{CONFLICTS_BEFORE_REFRESH, LOST_PAUSE_US, LOST_REMEMBERED, TWIN_LOOK, TWIN_WAIT_MS};
use super::vault::{TokenVault, ended};
use super::workers::ClaimJob;

type Ready = claims::Ready<TokenCache>;
type Pending = claims::Pending<TokenCache>;

/// What the database has judged.
enum Judged {
    Selected(Selection, Origin),
    /// Another was faster with these; the cache knows why by now, unless the other is not done yet.
    Lost(Arc<[Token]>),
    /// The spender's selection has just ended.
    Over,
}

/// How a request has fared so far.
#[derive(Default)]
struct Luck {
    /// Tokens that another has in hand and that look free all the same: he is not done yet.
    lost: Arc<HashSet<TokenId>>,
    /// Claims lost, without having waited or paused in between.
    attempts: usize,
    /// The same, without having waited.
    conflicts: usize,
    /// Whether the cache was brought up to date, and nothing was waited for since.
    fresh: bool,
}

impl Luck {
    fn note(&mut self, cache: &TokenCache, tokens: &[Token]) {
        let free = tokens.iter().filter(|token| cache.selector.is_free(&token.id));
        let room = LOST_REMEMBERED.saturating_sub(self.lost.len());
        let lost = Arc::make_mut(&mut self.lost);
        lost.extend(free.take(room).map(|token| token.id.clone()));
    }

    /// The predicate of a choice among all others; `None` if nothing was lost.
    fn others(&self, predicate: Option<&Predicate>) -> Option<Predicate> {
        if self.lost.is_empty() {
            return None;
        }
        let (lost, predicate) = (Arc::clone(&self.lost), predicate.cloned());
        Some(Arc::new(move |token: &Token| {
            !lost.contains(&token.id) && predicate.as_ref().is_none_or(|predicate| predicate(token))
        }))
    }
}

/// Where a selection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// This call has locked its tokens.
    Made,
    /// An earlier call of the same content has.
    Found,
}

/// How the cache's no should be looked at twice, if it should: it may be behind. What is too little in all is not more without
/// the locks.
const fn may_be_old(refusal: &Refusal) -> Option<Refresh> {
    match refusal {
        Refusal::InsufficientFunds(_) => Some(Refresh::News),
        Refusal::FundsLocked(_) | Refusal::NoExactMatch(_) | Refusal::TooManyInputs { .. } => {
            Some(Refresh::AlsoEnds)
        }
        _ => None,
    }
}

impl TokenVault {
    /// Chooses and locks tokens, all or nothing; waits up to `wait_ms` for those that others hold.
    ///
    /// # Errors
    /// With true numbers, if there are none to be had.
    pub async fn select_where(
        &self,
        request: SelectRequest,
        predicate: Option<&Predicate>,
        wait_ms: i64,
    ) -> Result<Selection, Refusal> {
        self.select_counted(request, predicate, wait_ms).await.map(|(selection, _)| selection)
    }

    /// The same; tells whether this call made the selection.
    pub(super) async fn select_counted(
        &self,
        request: SelectRequest,
        predicate: Option<&Predicate>,
        wait_ms: i64,
    ) -> Result<(Selection, Origin), Refusal> {
        let selected = self.select_and_lock(request, predicate, wait_ms).await;
        match &selected {
            Ok(_) => self.selections.increment(1),
            Err(refusal) => {
                metrics::counter!("holdfast_token_refused_total", "reason" => refusal.name()).increment(1);
            }
        }
        selected
    }

    async fn select_and_lock(
        &self,
        request: SelectRequest,
        predicate: Option<&Predicate>,
        wait_ms: i64,
    ) -> Result<(Selection, Origin), Refusal> {
        request.check()?;
        self.check_request(&request)?;
        // Before the first connection nobody knows what time it is.
        self.loaded(&request.scope).await?;
        let until = self.clock.now().saturating_add(wait_ms);
        let mut luck = Luck::default();
        loop {
            let cache = self.loaded(&request.scope).await?;
            let claimed = self.claim_next(&cache, &request, predicate, until, &mut luck).await;
            let Some((waited, claimed)) = claimed else { continue };
            luck.fresh &= !waited;
            let selected = match claimed {
                // Less than was asked for is half a no: it may be old as well.
                Ok(Ready::New(pending))
                    if !luck.fresh && pending.claim().sum < u128::from(request.amount) =>
                {
                    drop(pending);
                    self.refresh(&request.scope, Refresh::AlsoEnds).await?;
                    luck.fresh = true;
                    None
                }
                Ok(Ready::New(pending)) => self.won(&request, pending, waited, &mut luck).await?,
                Ok(Ready::Held(selection)) => {
                    self.still_held(&request, &selection).await?.map(|selection| (selection, Origin::Found))
                }
                Err(refusal) => self.looked_at_twice(&cache, &request, refusal, &mut luck).await?,
            };
            if let Some(selected) = selected {
                return Ok(selected);
            }
        }
    }

    /// Sets tokens aside in the cache, others than those that were lost; with whether it had to wait. `None`: there are no others,
    /// and those that were lost are looked at again.
    async fn claim_next(
        &self,
        cache: &Arc<TokenCache>,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        until: Millis,
        luck: &mut Luck,
    ) -> Option<(bool, Result<Ready, Refusal>)> {
        let Some(others) = luck.others(predicate) else {
            return Some(self.claim(cache, request, predicate, until).await);
        };
        if let Some(ready) = self.claim_others(cache, request, &others) {
            return Some((false, Ok(ready)));
        }
        // There is no other choice: whoever was faster is done soon, and then the cache tells.
        self.pause_a_little().await;
        luck.lost = Arc::default();
        if until > self.clock.now() {
            luck.attempts = 0;
        }
        None
    }

    /// Has the database judge a claim. `None`: another was faster, and there is reason to choose anew.
    async fn won(
        &self,
        request: &SelectRequest,
        pending: Pending,
        waited: bool,
        luck: &mut Luck,
    ) -> Result<Option<(Selection, Origin)>, Refusal> {
        let tokens = match self.judge(request, pending).await? {
            Judged::Selected(selection, origin) => return Ok(Some((selection, origin))),
            Judged::Lost(tokens) => tokens,
            Judged::Over => Arc::default(),
        };
        self.conflicts.increment(1);
        if waited {
            // Whoever has waited was not in anybody's way meanwhile.
            *luck = Luck::default();
        }
        (luck.attempts, luck.conflicts) = (luck.attempts + 1, luck.conflicts + 1);
        if luck.attempts >= self.claim_attempts {
            return Err(Refusal::Contention { attempts: luck.attempts });
        }
        // So many in a row are no coincidence: the cache does not know of locks that it should know of.
        if luck.conflicts.is_multiple_of(CONFLICTS_BEFORE_REFRESH) {
            self.refresh(&request.scope, Refresh::News).await?;
        }
        // One that takes what it can get would get less than there may be.
        if !request.allow_shortfall {
            luck.note(&self.feed.cache(), &tokens);
        }
        Ok(None)
    }

    /// Looks again where the cache's no may be old. `None`: there is reason to choose anew.
    async fn looked_at_twice(
        &self,
        cache: &Arc<TokenCache>,
        request: &SelectRequest,
        refusal: Refusal,
        luck: &mut Luck,
    ) -> Result<Option<(Selection, Origin)>, Refusal> {
        match refusal {
            // The cache was replaced: whoever waited in the old one begins again.
            Refusal::Contention { .. } if !Arc::ptr_eq(cache, &self.feed.cache()) => return Ok(None),
            refusal if luck.fresh => return Err(refusal),
            refusal @ Refusal::SpenderInUse { .. } => {
                if let Some(selection) = self.forget_old(cache, request, refusal).await? {
                    return Ok(Some((selection, Origin::Found)));
                }
            }
            refusal => match may_be_old(&refusal) {
                Some(how) => self.refresh(&request.scope, how).await?,
                None => return Err(refusal),
            },
        }
        luck.fresh = true;
        Ok(None)
    }

    /// Sets tokens aside that were not lost before, if there are such. Nothing is waited for: the numbers of a refusal would not
    /// be true. They are drawn from all places: somebody else is in this node's part, or it would not have lost.
    fn claim_others(
        &self,
        cache: &Arc<TokenCache>,
        request: &SelectRequest,
        others: &Predicate,
    ) -> Option<Ready> {
        let (now, mut random) = (self.clock.now(), Random::new(self.draws.draw()));
        let claimed = cache.selector.claim(request, Some(others), now, &mut random).ok()?;
        Some(Ready::of(claimed, cache, now))
    }

    /// Those who met pause for different times, so that they do not meet again.
    async fn pause_a_little(&self) {
        let spread = LOST_PAUSE_US.end - LOST_PAUSE_US.start;
        let pause = Duration::from_micros(LOST_PAUSE_US.start + self.draws.draw() % spread);
        tokio::time::sleep(pause).await;
    }

    /// Sets tokens aside, waiting for them until `until`; with whether it had to wait.
    async fn claim(
        &self,
        cache: &Arc<TokenCache>,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        until: Millis,
    ) -> (bool, Result<Ready, Refusal>) {
        let mut waited = false;
        let mut patience: Option<Instant> = None;
        loop {
            // From here on no news is missed.
            let followed = cache.followed.notified();
            tokio::pin!(followed);
            followed.as_mut().enable();
            let random = Random::new(self.draws.draw()).within(self.feed.share());
            let (now, waits) = (|| self.clock.now(), || waited = true);
            match claim_once(cache, (request, predicate), until, now, random, waits, ended).await {
                // The same request a moment ago is on its way to the database: its answer is this one's too.
                Err(Refusal::SpenderInUse { reason, .. }) if reason == NOT_DECIDED => {
                    let until = *patience.get_or_insert_with(|| self.patience(until));
                    if Instant::now() >= until {
                        return (waited, Err(Refusal::Contention { attempts: 1 }));
                    }
                    drop(tokio::time::timeout(TWIN_LOOK, followed).await);
                }
                other => return (waited, other),
            }
        }
    }

    /// Until when the same request a moment ago is waited for.
    fn patience(&self, until: Millis) -> Instant {
        let wait = until.saturating_sub(self.clock.now()).max(0).saturating_add(TWIN_WAIT_MS);
        Instant::now() + Duration::from_millis(wait.unsigned_abs())
    }

    /// Has the database judge a claim.
    async fn judge(&self, request: &SelectRequest, pending: Pending) -> Result<Judged, Refusal> {
        let body = request.fingerprint();
        let claim = pending.claim().clone();
        let wanted = WantedClaim {
            spender: request.spender.clone(),
            body,
            amount: request.amount,
            lease_ms: request.lease_ms,
            tokens: claim.tokens.clone(),
        };
        let (answer, receive) = oneshot::channel();
        self.queue.claim(ClaimJob { wanted, pending, since: Instant::now(), answer })?;
        let in_use = |reason| Refusal::SpenderInUse { spender: request.spender.clone(), reason };
        match receive.await.map_err(|_| ended())?? {
            ClaimVerdict::Locked { fence, expires_at, .. } => {
                let (spender, tokens) = (request.spender.clone(), claim.tokens);
                let (sum, amount) = (claim.sum, request.amount);
                let selection = Selection { spender, tokens, sum, amount, expires_at, fence };
                Ok(Judged::Selected(selection, Origin::Made))
            }
            ClaimVerdict::Taken => {
                let ids = claim.tokens.iter().map(|token| token.id.clone()).collect();
                self.learn(ids).await?;
                Ok(Judged::Lost(claim.tokens))
            }
            // Between the judgement and this look it may have ended; then the request begins anew.
            ClaimVerdict::Holds { same: true } => {
                let stored = self.stored_selection(&request.spender, body).await?;
                Ok(stored.map_or(Judged::Over, |selection| Judged::Selected(selection, Origin::Found)))
            }
            ClaimVerdict::Holds { same: false } => Err(in_use("it holds a selection of another request")),
            ClaimVerdict::Spent => Err(in_use("it has spent already")),
        }
    }

    /// The spender's live selection of that request, as the database has it. The cache does not take it over: it may have ended
    /// since it was read, and that may have been told already.
    async fn stored_selection(&self, spender: &str, body: Fingerprint) -> Result<Option<Selection>, Refusal> {
        let stored = self.stored(spender).await?;
        let now = self.clock.now();
        match stored {
            Some(StoredSelection::Held { body: held, selection, .. })
                if held == body && selection.expires_at > now =>
            {
                Ok(Some(selection))
            }
            _ => Ok(None),
        }
    }

    /// The cache knows a selection of the spender: it is the answer if the database has it too; else the cache forgets it.
    async fn still_held(
        &self,
        request: &SelectRequest,
        seen: &Selection,
    ) -> Result<Option<Selection>, Refusal> {
        let body = request.fingerprint();
        let stored = self.stored_selection(&request.spender, body).await?;
        if stored.as_ref().is_none_or(|stored| stored.fence != seen.fence) {
            self.feed.cache().unlock(&request.spender, seen.fence, self.clock.now());
        }
        Ok(stored)
    }

    /// The cache says that the spender's name is in use. What the database says counts: the spender's selection if it was
    /// asked for by the same request, the refusal if by another; and where it knows of none, the cache forgets it.
    async fn forget_old(
        &self,
        cache: &Arc<TokenCache>,
        request: &SelectRequest,
        refusal: Refusal,
    ) -> Result<Option<Selection>, Refusal> {
        let now = self.clock.now();
        match self.stored(&request.spender).await? {
            Some(StoredSelection::Spent { .. }) => return Err(refusal),
            Some(StoredSelection::Held { body, selection, .. }) if selection.expires_at > now => {
                if body != request.fingerprint() {
                    return Err(refusal);
                }
                cache.selector.forget_spender(&request.spender, now);
                return self.stored_selection(&request.spender, body).await;
            }
            Some(StoredSelection::Held { .. }) | None => {}
        }
        cache.selector.forget_spender(&request.spender, now);
        Ok(None)
    }
}
