//! Claims and spends of many callers, in one statement each: while one statement waits for the disk, the next callers gather.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_domain::ids::Millis;
use holdfast_messages::TokenEvent;
use holdfast_postgres::tokens::{ClaimVerdict, SpendVerdict, WantedClaim, WantedSpend};
use holdfast_postgres::{Error, Store};
use holdfast_tokens::{LockRecord, Refusal, TokenId};
use tokio::sync::oneshot;

use super::clock::TokenClock;
use super::feed::Feed;
use super::limits::{BATCH_INPUTS, BATCH_REQUESTS, REQUESTS_MAX};
use super::picture::Pending;
use crate::health::Part;
use crate::settings::NodeSettings;

/// A claim that waits for its judgement.
pub(super) struct ClaimJob {
    pub(super) wanted: WantedClaim,
    pub(super) pending: Pending,
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
    closed: bool,
}

impl Jobs {
    fn len(&self) -> usize {
        self.claims.len() + self.spends.len()
    }
}

/// What waits for a hand.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

enum Batch {
    Claims(Vec<ClaimJob>),
    Spends(Vec<SpendJob>),
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut Jobs)) -> Result<(), Refusal> {
        let mut jobs = self.lock();
        if jobs.closed {
            return Err(Refusal::StoreUnavailable("the node is ending".to_owned()));
        }
        let waiting = jobs.len();
        if waiting >= REQUESTS_MAX {
            return Err(Refusal::TooManyWaiters { waiting });
        }
        put(&mut jobs);
        drop(jobs);
        self.changed.notify_one();
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
            let mut jobs = self.lock();
            jobs.closed = true;
            (std::mem::take(&mut jobs.claims), std::mem::take(&mut jobs.spends))
        };
        drop(left);
        self.changed.notify_all();
    }

    /// The next requests of one kind, that of whoever has waited longest; `None` when it is over.
    fn take(&self) -> Option<Batch> {
        let idle = |jobs: &mut Jobs| jobs.len() == 0 && !jobs.closed;
        let mut jobs = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if jobs.closed {
            return None;
        }
        let spend = jobs.spends.front().map(|job| job.since);
        let claim = jobs.claims.front().map(|job| job.since);
        let claims_first = match (claim, spend) {
            (Some(claim), Some(spend)) => claim < spend,
            (claim, _) => claim.is_some(),
        };
        if claims_first {
            let inputs = |job: &ClaimJob| job.wanted.tokens.len();
            return Some(Batch::Claims(first(&mut jobs.claims, inputs)));
        }
        let inputs = |job: &SpendJob| {
            let transaction = &job.wanted.transaction;
            transaction.consumed.len() + transaction.produced.len()
        };
        Some(Batch::Spends(first(&mut jobs.spends, inputs)))
    }
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
pub(crate) struct Hand {
    pub(super) settings: Arc<NodeSettings>,
    pub(super) queue: Arc<Queue>,
    pub(super) feed: Arc<Feed>,
    pub(super) clock: Arc<TokenClock>,
    pub(super) part: Arc<Part>,
    pub(super) batches: metrics::Histogram,
}

impl Hand {
    pub(super) fn run(self) {
        let mut store: Option<Store> = None;
        while let Some(batch) = self.queue.take() {
            let told = match batch {
                Batch::Claims(jobs) => {
                    self.claims(&mut store, jobs);
                    false
                }
                Batch::Spends(jobs) => self.spends(&mut store, jobs),
            };
            // Apart from the transaction: a NOTIFY inside would make all commits wait for each other.
            if told && let Some(Err(error)) = store.as_mut().map(Store::tell_token_change) {
                tracing::debug!(%error, "others hear of a spend when they look");
                store = None;
            }
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
                let settings = &self.settings;
                *store = Some(Store::open_for_tokens(&settings.store_url, settings.store.clone())?);
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

    fn claims(&self, store: &mut Option<Store>, jobs: Vec<ClaimJob>) {
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
        if let Err(refusal) = self.feed.picture().follow(&event, self.clock.now()) {
            // It comes again among the changes, and is dealt with there.
            tracing::debug!(%refusal, "the picture of tokens could not follow a spend");
        }
    }
}

/// Lets the picture see what the database has decided.
fn settle(pending: &Pending, wanted: &WantedClaim, verdict: ClaimVerdict, now: Millis) {
    let ClaimVerdict::Locked { fence, since, expires_at } = verdict else { return };
    let ids: Arc<[TokenId]> = wanted.tokens.iter().map(|token| token.id.clone()).collect();
    let WantedClaim { spender, body, amount, .. } = wanted.clone();
    let record = LockRecord { spender, fence, since, expires_at, amount, body, ids };
    pending.picture().lock(&record, now);
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
