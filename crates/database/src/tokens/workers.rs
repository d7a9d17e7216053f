//! Claims and spends of many callers, in one statement each: while one statement waits for the disk, the next callers gather.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use holdfast_domain::ids::Millis;
use holdfast_engine::Monitor;
use holdfast_engine::claims::Pending;
use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::{ClaimVerdict, SpendVerdict, WantedClaim, WantedSpend};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{LockRecord, Refusal, TokenId};
use tokio::sync::oneshot;

use super::cache::TokenCache;
use super::clock::TokenClock;
use super::feed::Feed;
use super::limits::{
    BATCH_INPUTS, BATCH_REQUESTS, HELP_AFTER, HELP_FROM, REQUESTS_MAX, ROW_WAIT, TELL_PAUSE, TELL_WITHIN,
};
use super::vault::ended;
use crate::health::Part;
use crate::settings::NodeSettings;

/// A claim that waits for its judgement.
pub(super) struct ClaimJob {
    pub(super) wanted: WantedClaim,
    pub(super) pending: Pending<TokenCache>,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<ClaimVerdict, Refusal>>,
}

/// A spend that waits to be done.
pub(super) struct SpendJob {
    pub(super) wanted: WantedSpend,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<SpendVerdict, Refusal>>,
}

#[derive(Default)]
struct Jobs {
    claims: VecDeque<ClaimJob>,
    spends: VecDeque<SpendJob>,
    /// Workers that are at work.
    busy: usize,
    news: News,
    closed: bool,
}

impl Jobs {
    fn len(&self) -> usize {
        self.claims.len() + self.spends.len()
    }

    /// Since when the first of all waits.
    fn oldest(&self) -> Option<Instant> {
        let (claim, spend) = (self.claims.front(), self.spends.front());
        claim.map(|job| job.since).into_iter().chain(spend.map(|job| job.since)).min()
    }

    /// From when on a worker that is free takes what waits: at once if no other is at work, or many wait. Else the other is back
    /// soon, and takes them together.
    fn taken_from(&self) -> Option<Instant> {
        let oldest = self.oldest()?;
        let alone = self.busy == 0 || self.len() >= HELP_FROM;
        Some(if alone { oldest } else { oldest + HELP_AFTER })
    }
}

/// Spends that other nodes have not been told of.
#[derive(Default)]
struct News {
    /// Since when there are some.
    since: Option<Instant>,
    /// When they were told the last time.
    told: Option<Instant>,
}

impl News {
    /// From when on they are told: at once, unless that was done just now, or more are about to come.
    fn due(&self, more: bool) -> Option<Instant> {
        let since = self.since?;
        let rested = self.told.map_or(since, |told| since.max(told + TELL_PAUSE));
        Some(if more { rested.max(since + TELL_WITHIN) } else { rested })
    }
}

/// What waits for a worker.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Monitor<Jobs>,
}

enum Batch {
    Claims(Vec<ClaimJob>),
    Spends(Vec<SpendJob>),
    /// Other nodes are to be told of spends.
    News,
}

impl Queue {
    fn put(&self, put: impl FnOnce(&mut Jobs)) -> Result<(), Refusal> {
        let mut jobs = self.jobs.lock();
        if jobs.closed {
            return Err(ended());
        }
        let waiting = jobs.len();
        if waiting >= REQUESTS_MAX {
            return Err(Refusal::TooManyWaiters { waiting });
        }
        put(&mut jobs);
        drop(jobs);
        self.jobs.notify_one();
        Ok(())
    }

    pub(super) fn claim(&self, job: ClaimJob) -> Result<(), Refusal> {
        self.put(|jobs| jobs.claims.push_back(job))
    }

    pub(super) fn spend(&self, job: SpendJob) -> Result<(), Refusal> {
        self.put(|jobs| jobs.spends.push_back(job))
    }

    /// Nothing more is taken; what waits is told so.
    pub(super) fn close(&self) {
        let left = {
            let mut jobs = self.jobs.lock();
            jobs.closed = true;
            (std::mem::take(&mut jobs.claims), std::mem::take(&mut jobs.spends))
        };
        drop(left);
        self.jobs.notify_all();
    }

    /// The next requests of one kind, that of whoever has waited longest, or that it is time to tell of spends; `None` when it
    /// is over. [`Queue::put_down`] comes after it.
    fn take(&self) -> Option<Batch> {
        let mut jobs = self.jobs.lock();
        loop {
            if jobs.closed {
                return None;
            }
            let now = Instant::now();
            let news = jobs.news.due(!jobs.spends.is_empty());
            if news.is_some_and(|due| due <= now) {
                jobs.news = News { since: None, told: Some(now) };
                jobs.busy += 1;
                return Some(Batch::News);
            }
            let work = jobs.taken_from();
            if work.is_some_and(|from| from <= now) {
                let batch = next(&mut jobs);
                jobs.busy += 1;
                return Some(batch);
            }
            let until = news.into_iter().chain(work).min();
            jobs = self.jobs.wait(jobs, until.map(|until| until.saturating_duration_since(now)));
        }
    }

    /// A batch is done; whether others are to be told of it.
    fn put_down(&self, spent: bool) {
        let mut jobs = self.jobs.lock();
        jobs.busy = jobs.busy.saturating_sub(1);
        if spent {
            jobs.news.since.get_or_insert_with(Instant::now);
        }
    }
}

/// The next batch; something waits.
fn next(jobs: &mut Jobs) -> Batch {
    let spend = jobs.spends.front().map(|job| job.since);
    let claim = jobs.claims.front().map(|job| job.since);
    let claims_first = match (claim, spend) {
        (Some(claim), Some(spend)) => claim < spend,
        (claim, _) => claim.is_some(),
    };
    if claims_first {
        let inputs = |job: &ClaimJob| job.wanted.tokens.len();
        return Batch::Claims(first(&mut jobs.claims, inputs));
    }
    let inputs = |job: &SpendJob| {
        let transaction = &job.wanted.transaction;
        transaction.consumed.len() + transaction.produced.len()
    };
    Batch::Spends(first(&mut jobs.spends, inputs))
}

/// The first requests, as many as one statement takes; at least one. `inputs`: the rows that one touches.
fn first<T>(jobs: &mut VecDeque<T>, inputs: impl Fn(&T) -> usize) -> Vec<T> {
    let mut taken = Vec::new();
    let mut sum = 0;
    while taken.len() < BATCH_REQUESTS && sum < BATCH_INPUTS {
        let Some(job) = jobs.pop_front() else { break };
        sum += inputs(&job);
        taken.push(job);
    }
    taken
}

/// A thread with its connection.
pub(crate) struct Worker {
    pub(super) settings: Arc<NodeSettings>,
    pub(super) queue: Arc<Queue>,
    pub(super) feed: Arc<Feed>,
    pub(super) clock: Arc<TokenClock>,
    pub(super) part: Arc<Part>,
    pub(super) batches: metrics::Histogram,
}

impl Worker {
    pub(super) fn run(self) {
        let mut store: Option<Store> = None;
        while let Some(batch) = self.queue.take() {
            let spent = match batch {
                Batch::Claims(jobs) => {
                    self.claims(&mut store, jobs);
                    false
                }
                Batch::Spends(jobs) => self.spends(&mut store, jobs),
                // Apart from the transaction: a NOTIFY inside would make all commits wait for each other.
                Batch::News => {
                    if let Err(error) = self.asked(&mut store, Store::try_to_tell_token_change) {
                        tracing::debug!(%error, "others hear of a spend when they look");
                    }
                    false
                }
            };
            self.queue.put_down(spent);
        }
    }

    /// Has something done by the database. After a lost connection nobody knows whether it was; it is asked once more, and who
    /// has it already gets the same answer.
    fn asked<T>(
        &self,
        store: &mut Option<Store>,
        ask: impl Fn(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut once = || {
            if store.is_none() {
                let mut settings = self.settings.store.clone();
                settings.lock_timeout = settings.lock_timeout.min(ROW_WAIT);
                *store = Some(Store::open_for_tokens(&self.settings.store_url, settings)?);
            }
            let connection = store.as_mut().expect("just made");
            let answer = ask(connection);
            if matches!(answer, Err(Error::Unavailable(_) | Error::Broken(_))) {
                *store = None;
            }
            answer
        };
        let answer = match once() {
            Err(Error::Unavailable(_)) => once(),
            answer => answer,
        };
        match &answer {
            Err(error @ (Error::Unavailable(_) | Error::Broken(_))) => self.part.fails(error),
            _ => self.part.works(),
        }
        answer
    }

    fn claims(&self, store: &mut Option<Store>, mut jobs: Vec<ClaimJob>) {
        // Who has gone gets no tokens: he would hold them until the lease ends.
        jobs.retain(|job| !job.answer.is_closed());
        if jobs.is_empty() {
            return;
        }
        self.batches.record(count(jobs.len()));
        let wanted: Vec<WantedClaim> = jobs.iter().map(|job| job.wanted.clone()).collect();
        let told = self.clock.told();
        match self.asked(store, |store| store.claim_tokens(&wanted, told)) {
            Ok(verdicts) => {
                let now = self.clock.now();
                for (job, verdict) in jobs.into_iter().zip(verdicts) {
                    settle(&job.pending, &job.wanted, verdict, now);
                    drop(job.pending);
                    // Who has gone finds it again by asking the same.
                    drop(job.answer.send(Ok(verdict)));
                }
            }
            // One that the database refuses or holds up spoils the statement: then each by itself.
            Err(Error::Refused(_) | Error::Busy { .. }) if jobs.len() > 1 => {
                jobs.into_iter().for_each(|job| self.claims(store, vec![job]));
            }
            Err(error) => {
                let refusal = refusal_of(&error);
                for job in jobs {
                    drop(job.pending);
                    drop(job.answer.send(Err(refusal.clone())));
                }
            }
        }
    }

    /// Whether anything was spent.
    fn spends(&self, store: &mut Option<Store>, jobs: Vec<SpendJob>) -> bool {
        self.batches.record(count(jobs.len()));
        let wanted: Vec<WantedSpend> = jobs.iter().map(|job| job.wanted.clone()).collect();
        let told = self.clock.told();
        match self.asked(store, |store| store.spend_tokens(&wanted, told)) {
            Ok(verdicts) => {
                let mut any = false;
                for (job, verdict) in jobs.into_iter().zip(verdicts) {
                    let Some(verdict) = verdict else {
                        // The spender's other request was in the same batch; this one hears what became of it.
                        any |= self.spends(store, vec![job]);
                        continue;
                    };
                    if verdict == SpendVerdict::Spent {
                        any = true;
                        self.follow(&job.wanted);
                    }
                    drop(job.answer.send(Ok(verdict)));
                }
                any
            }
            Err(Error::Refused(_) | Error::Busy { .. }) if jobs.len() > 1 => {
                let each = jobs.into_iter().map(|job| self.spends(store, vec![job]));
                each.fold(false, |any, one| any | one)
            }
            Err(error) if error.is_race() => {
                // Alone, and its tokens are not as its selection says, again and again.
                jobs.into_iter().for_each(|job| drop(job.answer.send(Ok(SpendVerdict::Lost))));
                false
            }
            Err(error) => {
                let refusal = refusal_of(&error);
                jobs.into_iter().for_each(|job| drop(job.answer.send(Err(refusal.clone()))));
                false
            }
        }
    }

    fn follow(&self, spend: &WantedSpend) {
        let WantedSpend { fence, body, transaction } = spend.clone();
        let event = TokenEvent::Spent { fence, body, transaction };
        if let Err(refusal) = self.feed.cache().follow(&event, self.clock.now()) {
            // It comes again among the changes, and is dealt with there.
            tracing::debug!(%refusal, "the cache of tokens could not follow a spend");
        }
    }
}

/// Lets the cache see what the database has decided.
fn settle(pending: &Pending<TokenCache>, wanted: &WantedClaim, verdict: ClaimVerdict, now: Millis) {
    let ClaimVerdict::Locked { fence, since, expires_at } = verdict else { return };
    let ids: Arc<[TokenId]> = wanted.tokens.iter().map(|token| token.id.clone()).collect();
    let WantedClaim { spender, body, amount, .. } = wanted.clone();
    let record = LockRecord { spender, fence, since, expires_at, amount, body, ids };
    pending.claims().lock(&record, now);
}

pub(super) fn refusal_of(error: &Error) -> Refusal {
    match error {
        Error::Busy { attempts, .. } => {
            Refusal::Contention { attempts: usize::try_from(*attempts).unwrap_or(usize::MAX) }
        }
        Error::Refused(cause) => Refusal::Invalid(cause.to_string()),
        other => Refusal::StoreUnavailable(other.to_string()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a bounded count, for the eye")]
fn count(jobs: usize) -> f64 {
    jobs as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_services::Database;
    use holdfast_tokens::{Claimed, Fingerprint, Random, Scope, SelectRequest, Token, Transaction};

    use super::*;
    use crate::scene::without_kafka;

    fn spend(since: Instant) -> SpendJob {
        let transaction =
            Transaction { id: "t".into(), spender: "s".into(), consumed: Vec::new(), produced: Vec::new() };
        let wanted = WantedSpend { fence: 1, body: Fingerprint(1), transaction };
        SpendJob { wanted, since, answer: oneshot::channel().0 }
    }

    #[test]
    fn another_worker_helps_where_many_wait_or_one_for_long() {
        let began = Instant::now();
        let mut jobs = Jobs::default();
        assert_eq!(jobs.taken_from(), None);
        jobs.spends.push_back(spend(began));
        assert_eq!(jobs.taken_from(), Some(began), "nobody is at work");
        jobs.busy = 1;
        assert_eq!(jobs.taken_from(), Some(began + HELP_AFTER));
        jobs.spends.extend((1..HELP_FROM).map(|_| spend(began + HELP_AFTER)));
        assert_eq!(jobs.taken_from(), Some(began));
    }

    #[test]
    fn news_of_spends_are_gathered_and_told_in_time() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut news = News::default();
        assert_eq!(news.due(false), None);
        news.since = Some(at(100));
        assert_eq!(news.due(false), Some(at(100)), "the first one at once");
        news.told = Some(at(99));
        assert_eq!(news.due(false), Some(at(99) + TELL_PAUSE));
        assert_eq!(news.due(true), Some(at(100) + TELL_WITHIN), "more are at hand");
        news.told = Some(at(10));
        assert_eq!(news.due(false), Some(at(100)));
    }

    /// The tail is told also if nobody asks for anything any more.
    #[test]
    fn the_last_news_follow_by_themselves() {
        let queue = Queue::default();
        queue.put_down(true);
        assert!(matches!(queue.take(), Some(Batch::News)));
        queue.put_down(true);
        let began = Instant::now();
        assert!(matches!(queue.take(), Some(Batch::News)));
        assert!(began.elapsed() >= TELL_PAUSE / 2, "{:?}", began.elapsed());
    }

    /// Who hangs up before his turn comes gets no tokens.
    #[test]
    fn nothing_is_locked_for_who_has_gone() {
        let Some(database) = Database::new("tokens_gone_caller") else { return };
        let (settings, clock) = (without_kafka(&database), Arc::new(TokenClock::of_database()));
        let token = Token::new("t", "alice", "EUR", 1);
        let mut store = settings.connect().unwrap();
        store.issue_tokens(std::slice::from_ref(&token), None).unwrap().unwrap();
        let worker = Worker {
            feed: Arc::new(Feed::new(&settings, &clock)),
            queue: Arc::default(),
            part: Part::new("tokens"),
            batches: metrics::Histogram::noop(),
            settings,
            clock,
        };
        let scope = Scope::wallet("alice", "EUR");
        let turn = worker.feed.loads.turn(&scope).unwrap();
        let cache = worker.feed.load(&turn).unwrap();
        let job = |spender: &str| {
            let request = SelectRequest::new(spender, scope.clone(), 1);
            let (now, mut random) = (worker.clock.now(), Random::new(1));
            let Ok(Claimed::New(claim)) = cache.selector.claim(&request, None, now, &mut random) else {
                panic!("the token is free")
            };
            let (spender, body, tokens) =
                (request.spender.clone(), request.fingerprint(), claim.tokens.clone());
            let wanted = WantedClaim { spender, body, amount: 1, lease_ms: 60_000, tokens };
            let (answer, receive) = oneshot::channel();
            let pending = Pending::new(&cache, claim, now);
            (ClaimJob { wanted, pending, since: Instant::now(), answer }, receive)
        };
        let (gone, receive) = job("gone");
        drop(receive);
        worker.claims(&mut None, vec![gone]);
        assert_eq!(database.count("SELECT count(*) FROM token_selection"), 0);
        assert!(cache.selector.is_free(&token.id), "and it is free again");
        let (waits, mut receive) = job("waits");
        worker.claims(&mut None, vec![waits]);
        assert!(matches!(receive.try_recv(), Ok(Ok(ClaimVerdict::Locked { .. }))));
    }
}
