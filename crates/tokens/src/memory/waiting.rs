//! Waiting for funds that others hold: first come, first served per scope, woken by events, never by polling.
//!
//! A waiter holds nothing. When tokens of its scope become free, arrive or go for good, the thread that caused it tries the
//! queue from the front until one has to go on waiting. The end of a lease and the end of a wait come with
//! [`MemorySelector::tick`], at the time that [`MemorySelector::next_wakeup`] names.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock};

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use super::claim::{Begin, Claim, Claimed};
use super::mirrors::{MIRRORED, bit, scope_of};
use super::spenders::Held;
use super::{After, MemorySelector, locked};
use crate::answer::Selection;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{OwnerKind, Predicate, Scope, SelectRequest};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::token::{Kind, Name};

const SHARDS: usize = 64;

/// Gets the answer of a select that may wait. Called once, under no lock, on the thread that made the answer possible:
/// short, such as a send into a channel.
pub type SelectAnswer = Box<dyn FnOnce(Result<Selection, Refusal>) + Send>;
/// The same for a claim.
pub type ClaimAnswer = Box<dyn FnOnce(Result<Claimed, Refusal>) + Send>;

type Outcome = Result<(Held, bool), Refusal>;
type Job = Box<dyn FnOnce() + Send>;

enum Answer {
    Select(SelectAnswer),
    Claim(ClaimAnswer),
}

impl Answer {
    fn begin(&self) -> Begin {
        match self {
            Answer::Select(_) => Begin::Held,
            Answer::Claim(_) => Begin::Pending,
        }
    }

    fn give(self, spender: Name, outcome: Outcome) {
        match self {
            Answer::Select(answer) => answer(outcome.map(|(held, _)| held.selection(spender))),
            Answer::Claim(answer) => answer(outcome.map(|(held, new)| claimed(spender, held, new))),
        }
    }
}

pub(crate) fn claimed(spender: Name, held: Held, new: bool) -> Claimed {
    if !new {
        return Claimed::Held(held.selection(spender));
    }
    let Held { terms, tokens, sum, amount, .. } = held;
    Claimed::New(Claim { number: terms.claim, spender, tokens, sum, amount })
}

struct Waiter {
    number: u64,
    request: SelectRequest,
    predicate: Option<Predicate>,
    until: i64,
    since: i64,
    random: Random,
    answer: Answer,
}

/// What becomes of a request that may wait.
#[derive(Debug)]
pub enum Selecting<T> {
    /// This, at once.
    Answered(T),
    /// It waits, and can be called off.
    Waits(Ticket),
}

/// Names a waiting request, to call it off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    scope: Scope,
    number: u64,
}

#[derive(Default)]
struct Shard {
    queues: HashMap<Scope, VecDeque<Waiter>, FixedState>,
    /// When each waiter gives up.
    ends: BTreeMap<(i64, u64), Scope>,
}

impl Shard {
    fn take(&mut self, scope: &Scope, number: u64) -> Option<Waiter> {
        let queue = self.queues.get_mut(scope)?;
        let place = queue.iter().position(|waiter| waiter.number == number)?;
        let waiter = queue.remove(place)?;
        self.ends.remove(&(waiter.until, number));
        if queue.is_empty() {
            self.queues.remove(scope);
        }
        Some(waiter)
    }
}

#[derive(Default)]
struct Deliveries {
    jobs: VecDeque<Job>,
    running: bool,
}

pub(crate) struct Waiters {
    shards: Vec<Mutex<Shard>>,
    total: AtomicUsize,
    ever: AtomicU64,
    max: usize,
    /// Nobody may wait any more: this is what they hear.
    closed: OnceLock<Refusal>,
    deliveries: Mutex<Deliveries>,
    hasher: FixedState,
}

impl std::fmt::Debug for Waiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiters").field("total", &self.now()).finish_non_exhaustive()
    }
}

impl Waiters {
    pub(crate) fn new(max: usize) -> Self {
        Waiters {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            total: AtomicUsize::new(0),
            ever: AtomicU64::new(0),
            max,
            closed: OnceLock::new(),
            deliveries: Mutex::new(Deliveries::default()),
            hasher: FixedState::with_seed(0x3a17),
        }
    }

    /// Whether anybody waits. A waiter counts itself before its last look at the tokens: whoever frees some after that look
    /// sees the waiter here, because both held the same lock in between.
    pub(crate) fn is_anybody(&self) -> bool {
        self.total.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn now(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    pub(crate) fn ever(&self) -> u64 {
        self.ever.load(Ordering::Relaxed)
    }

    /// Takes a waiter out of its queue.
    fn take(&self, shard: &mut Shard, scope: &Scope, number: u64) -> Option<Waiter> {
        let waiter = shard.take(scope, number)?;
        self.total.fetch_sub(1, Ordering::SeqCst);
        Some(waiter)
    }

    fn shard(&self, scope: &Scope) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(scope);
        &self.shards[usize::try_from(hash % 64).expect("below 64")]
    }

    /// Runs answers one after the other, never one inside another: an answer that frees tokens adds to the queue.
    fn deliver(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        {
            let mut deliveries = locked(&self.deliveries);
            deliveries.jobs.extend(jobs);
            if deliveries.running {
                return;
            }
            deliveries.running = true;
        }
        struct Done<'a>(&'a Mutex<Deliveries>);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                locked(self.0).running = false;
            }
        }
        // Only an answer that panics leaves through here; the others end below, in one step with finding nothing more.
        let done = Done(&self.deliveries);
        loop {
            let job = {
                let mut deliveries = locked(&self.deliveries);
                match deliveries.jobs.pop_front() {
                    Some(job) => job,
                    None => {
                        deliveries.running = false;
                        break;
                    }
                }
            };
            job();
        }
        std::mem::forget(done);
    }
}

impl MemorySelector {
    /// Selects, and if others hold the funds waits for them until `until`. The answer comes through `answer`: before this
    /// returns (then there is no ticket), or later. If even the end of all locks would not help, it comes at once.
    #[must_use = "the ticket calls the request off; without one the answer has been given"]
    pub fn select_or_wait(
        &self,
        request: SelectRequest,
        predicate: Option<Predicate>,
        until: i64,
        now: i64,
        random: Random,
        answer: SelectAnswer,
    ) -> Option<Ticket> {
        let mut answer = Some(Answer::Select(answer));
        let later = || answer.take().expect("taken once");
        match self.ask_or_wait(&request, predicate.as_ref(), (until, now), random, Begin::Held, later) {
            Selecting::Waits(ticket) => Some(ticket),
            Selecting::Answered(outcome) => {
                answer.expect("nobody waits with it").give(request.spender, outcome);
                None
            }
        }
    }

    /// Claims, and if others hold the funds waits for them until `until`. What can be said at once is returned; only a
    /// request that waits needs somebody to be answered later.
    pub fn claim_or_wait(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        until: i64,
        now: i64,
        random: Random,
        later: impl FnOnce() -> ClaimAnswer,
    ) -> Selecting<Result<Claimed, Refusal>> {
        let later = || Answer::Claim(later());
        match self.ask_or_wait(request, predicate, (until, now), random, Begin::Pending, later) {
            Selecting::Waits(ticket) => Selecting::Waits(ticket),
            Selecting::Answered(outcome) => {
                Selecting::Answered(outcome.map(|(held, new)| claimed(request.spender.clone(), held, new)))
            }
        }
    }

    fn ask_or_wait(
        &self,
        request: &SelectRequest,
        predicate: Option<&Predicate>,
        (until, now): (i64, i64),
        mut random: Random,
        begin: Begin,
        later: impl FnOnce() -> Answer,
    ) -> Selecting<Outcome> {
        let mut after = After::default();
        let may_wait = until > now;
        if !self.waiting.is_anybody() || !may_wait {
            let outcome = self.claim_inner(request, predicate, begin, now, &mut random, &mut after);
            let final_answer = !may_wait || !matches!(&outcome, Err(refusal) if refusal.may_pass());
            if final_answer {
                self.finish(after, now);
                return Selecting::Answered(outcome);
            }
        }
        let scope = &request.scope;
        let mut shard = locked(self.waiting.shard(scope));
        let waiting = self.waiting.total.fetch_add(1, Ordering::SeqCst);
        let closed = self.waiting.closed.get();
        let outcome = if let Some(refusal) = closed {
            // Nobody is before this one any more.
            let outcome = self.claim_inner(request, predicate, begin, now, &mut random, &mut after);
            outcome.map_err(|why| if why.may_pass() { refusal.clone() } else { why })
        } else if waiting >= self.waiting.max {
            Err(Refusal::TooManyWaiters { waiting })
        } else {
            // Others came first; but what can never be given is refused at once.
            let begin = if shard.queues.contains_key(scope) { Begin::Look } else { begin };
            self.claim_inner(request, predicate, begin, now, &mut random, &mut after)
        };
        let asked = if closed.is_none() && matches!(&outcome, Err(refusal) if refusal.may_pass()) {
            let number = self.waiting.ever.fetch_add(1, Ordering::Relaxed) + 1;
            shard.ends.insert((until, number), scope.clone());
            let (request, predicate, answer) = (request.clone(), predicate.cloned(), later());
            let waiter = Waiter { number, request, predicate, until, since: now, random, answer };
            shard.queues.entry(scope.clone()).or_default().push_back(waiter);
            Selecting::Waits(Ticket { scope: scope.clone(), number })
        } else {
            self.waiting.total.fetch_sub(1, Ordering::SeqCst);
            Selecting::Answered(outcome)
        };
        drop(shard);
        self.finish(after, now);
        asked
    }

    /// Calls a waiting request off: its answer will not be given. `false` if it has been given.
    pub fn call_off(&self, ticket: &Ticket, now: i64) -> bool {
        let Ticket { scope, number } = ticket;
        let found = self.waiting.take(&mut locked(self.waiting.shard(scope)), scope, *number);
        // It may have stood before others who can be served.
        let after = self.serve(|after, jobs| self.serve_queue(scope, now, after, jobs));
        self.finish(after, now);
        found.is_some()
    }

    /// Serves those who wait for tokens of these kinds. No lock is held.
    pub(crate) fn serve_waiters(&self, freed: Vec<Arc<Kind>>, now: i64) -> After {
        let kinds = self.mirrored();
        let mut scopes: Vec<Scope> = Vec::new();
        for kind in &freed {
            scopes.extend(scope_of(kind, OwnerKind::Wallet));
            let mirrored = MIRRORED.into_iter().filter(|by| kinds & bit(*by) != 0);
            scopes.extend(mirrored.filter_map(|by| scope_of(kind, by)));
        }
        scopes.sort_unstable();
        scopes.dedup();
        self.serve(|after, jobs| scopes.iter().for_each(|scope| self.serve_queue(scope, now, after, jobs)))
    }

    /// Finds out who can be answered, and then answers them, under no lock.
    fn serve(&self, find: impl FnOnce(&mut After, &mut Vec<Job>)) -> After {
        let (mut after, mut jobs) = (After::default(), Vec::new());
        find(&mut after, &mut jobs);
        self.waiting.deliver(jobs);
        after
    }

    fn serve_queue(&self, scope: &Scope, now: i64, after: &mut After, jobs: &mut Vec<Job>) {
        let mut shard = locked(self.waiting.shard(scope));
        loop {
            let Some(first) = shard.queues.get_mut(scope).and_then(VecDeque::front_mut) else { return };
            // The event may carry an older time than the waiter came with.
            let now = now.max(first.since);
            let outcome = self.try_waiter(first, now, after);
            if matches!(&outcome, Err(refusal) if refusal.may_pass()) {
                return;
            }
            let number = first.number;
            let waiter = self.waiting.take(&mut shard, scope, number).expect("it is the first of its queue");
            jobs.push(Box::new(move || waiter.answer.give(waiter.request.spender, outcome)));
        }
    }

    fn try_waiter(&self, waiter: &mut Waiter, now: i64, after: &mut After) -> Outcome {
        let begin = waiter.answer.begin();
        self.claim_inner(&waiter.request, waiter.predicate.as_ref(), begin, now, &mut waiter.random, after)
    }

    /// Lets time pass: ends leases that have run out and waits that are over, and serves who can be served.
    pub fn tick(&self, now: i64) {
        self.then_finish(now, |after| self.reclaim_everywhere(now, after));
        if !self.waiting.is_anybody() {
            return;
        }
        let after = self.serve(|after, jobs| {
            for shard in &self.waiting.shards {
                let left = self.end_waits(&mut locked(shard), now, after, jobs);
                left.iter().for_each(|scope| self.serve_queue(scope, now, after, jobs));
            }
        });
        self.finish(after, now);
    }

    /// Ends the waits that are over. Returns where those behind them may now be served.
    fn end_waits(&self, shard: &mut Shard, now: i64, after: &mut After, jobs: &mut Vec<Job>) -> Vec<Scope> {
        let mut left: Vec<Scope> = Vec::new();
        while let Some((&(until, number), _)) = shard.ends.first_key_value()
            && until <= now
        {
            let scope = shard.ends.remove(&(until, number)).expect("just seen");
            let Some(mut waiter) = self.waiting.take(shard, &scope, number) else { continue };
            // One last look, so that the refusal has the numbers of its own time.
            let outcome = self.try_waiter(&mut waiter, now, after);
            jobs.push(Box::new(move || waiter.answer.give(waiter.request.spender, outcome)));
            left.push(scope);
        }
        left
    }

    /// Answers all who wait with that refusal, and all who would wait from now on: nobody will come for them any more.
    pub fn end_waiting(&self, refusal: &Refusal) {
        // Before the queues are emptied: whoever enters one later finds it closed.
        drop(self.waiting.closed.set(refusal.clone()));
        let mut jobs: Vec<Job> = Vec::new();
        for shard in &self.waiting.shards {
            let mut shard = locked(shard);
            shard.ends.clear();
            for waiter in shard.queues.drain().flat_map(|(_, queue)| queue) {
                self.waiting.total.fetch_sub(1, Ordering::SeqCst);
                let outcome = Err(refusal.clone());
                jobs.push(Box::new(move || waiter.answer.give(waiter.request.spender, outcome)));
            }
        }
        self.waiting.deliver(jobs);
    }

    /// When [`MemorySelector::tick`] has something to do at the earliest; `None` while nobody waits. It may be early, never
    /// late. Ask again after each request that was left waiting.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<i64> {
        if !self.waiting.is_anybody() {
            return None;
        }
        let mut next = self.next_ends.iter().map(|end| end.load(Ordering::Relaxed)).min();
        for shard in &self.waiting.shards {
            let first = locked(shard).ends.first_key_value().map(|((until, _), _)| *until);
            next = [next, first].into_iter().flatten().min();
        }
        next
    }
}
