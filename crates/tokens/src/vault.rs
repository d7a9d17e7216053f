//! The selector with the system's clock and waiting threads, for programs that want no more than that.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

use crate::answer::{Balance, Lease, LockView, Selection, Transaction};
use crate::contract::TokenSelector;
use crate::limits::{Config, WAIT_MS_MAX};
use crate::memory::MemorySelector;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::request::{Scope, SelectRequest, SpendRequest};
use crate::sync::{AtomicU64, Ordering};
use crate::token::Token;

/// A [`MemorySelector`] that knows the time. Share it between threads in an `Arc`.
#[derive(Debug)]
pub struct Vault {
    selector: MemorySelector,
    started: Instant,
    started_ms: i64,
    seed: AtomicU64,
}

impl Default for Vault {
    fn default() -> Self {
        Vault::new(Config::default())
    }
}

impl Vault {
    /// An empty vault.
    #[must_use]
    pub fn new(config: Config) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads the wall clock")]
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Vault {
            selector: MemorySelector::new(config),
            started: Instant::now(),
            started_ms: i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
            seed: AtomicU64::new(RandomState::new().hash_one(0_u8)),
        }
    }

    /// The selector itself, for all that a vault does not offer.
    #[must_use]
    pub fn selector(&self) -> &MemorySelector {
        &self.selector
    }

    /// The time as the vault tells it: the wall clock at its start, going on steadily.
    #[must_use]
    pub fn now(&self) -> i64 {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.started_ms.saturating_add(passed)
    }

    fn random(&self) -> Random {
        Random::new(self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// Adds new tokens, all or none.
    pub fn issue(&self, tokens: Vec<Token>) -> Result<(), Refusal> {
        self.selector.issue(tokens, self.now())
    }

    /// Chooses and locks tokens, all or nothing.
    pub fn select(&self, request: &SelectRequest) -> Result<Selection, Refusal> {
        self.selector.select(request, self.now(), &mut self.random())
    }

    /// The same, but waits for funds that others hold. The thread sleeps until it is served, a lease ends or the wait is
    /// over.
    pub fn select_within(&self, request: &SelectRequest, wait: Duration) -> Result<Selection, Refusal> {
        let now = self.now();
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).min(WAIT_MS_MAX);
        let (sender, receiver) = channel();
        let answer = Box::new(move |outcome| {
            // The receiver is gone only if this call has ended.
            let _ = sender.send(outcome);
        });
        let until = now.saturating_add(wait_ms);
        let ticket = self.selector.select_or_wait(request.clone(), None, until, now, self.random(), answer);
        if ticket.is_none() {
            return receiver.recv().expect("without a ticket the answer has been given");
        }
        loop {
            let next = self.selector.next_wakeup().unwrap_or(until).min(until);
            let pause = u64::try_from(next.saturating_sub(self.now())).unwrap_or(0);
            match receiver.recv_timeout(Duration::from_millis(pause)) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => self.selector.tick(self.now()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::StoreUnavailable("the vault dropped the request".into()));
                }
            }
        }
    }

    /// Consumes what the spender has selected and produces the outputs and the change.
    pub fn spend(&self, request: &SpendRequest) -> Result<Transaction, Refusal> {
        self.selector.spend(request, self.now())
    }

    /// Moves the end of a live lease.
    pub fn renew(&self, spender: &str, fence: Option<u64>, lease: Duration) -> Result<Lease, Refusal> {
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        self.selector.renew(spender, fence, lease_ms, self.now())
    }

    /// Frees what the spender has locked.
    pub fn release(&self, spender: &str, fence: Option<u64>) -> Result<usize, Refusal> {
        self.selector.release(spender, fence, self.now())
    }

    /// What an owner has.
    pub fn balance(&self, scope: &Scope) -> Result<Balance, Refusal> {
        self.selector.balance(scope, self.now())
    }

    /// The live locks.
    pub fn locks(&self) -> Result<Vec<LockView>, Refusal> {
        self.selector.locks(None, self.now())
    }
}
