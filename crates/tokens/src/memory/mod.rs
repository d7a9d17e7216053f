//! The selector in memory.
//!
//! Tokens lie in stripes by (wallet, type, currency); a request on one wallet takes one stripe's mutex, so wallets on
//! different stripes never meet. **Order of locks**: wait queue, spender, stripes by rising number, then one mirror or one
//! id shard at a time. No callback and no outside code but the request's predicate runs under any of them.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `stripe`, `slab` | tokens, lanes and locks under one mutex |
//! | `ids` | id to place; tombstones |
//! | `mirrors` | the other index kinds |
//! | `spenders` | who holds what; remembered spends |
//! | `decide` | lanes to picks or refusal |
//! | `claim` | choose and lock in one step |
//! | `journal` | the same in two steps for a host with a log; replay; export and restore |
//! | `hold` | renew, release |
//! | `spend` | inputs to outputs |
//! | `updates` | issue, outside updates, loading |
//! | `waiting` | first come, first served |
//! | `views` | balances, locks, counters |

mod claim;
mod decide;
mod few;
mod hold;
mod ids;
mod journal;
mod mirrors;
mod slab;
mod spend;
mod spenders;
mod stripe;
mod updates;
mod views;
mod waiting;

pub use claim::{Claim, Claimed};
pub use spend::{check_spend, plan_spend};
pub use views::{TokenPage, TokenState};
pub use waiting::{ClaimAnswer, SelectAnswer, Selecting, Ticket};

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::quality::FixedState;

use crate::choose::lane::Handle;
use crate::limits::{Config, MIRROR_BYTES, NO_END, TOKEN_BYTES};
use crate::refusal::Refusal;
use crate::request::OwnerKind;
use crate::sync::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::token::{Kind, Name, Token, TokenId};
use ids::Ids;
use mirrors::Mirrors;
use spenders::Spenders;
use stripe::Stripe;
use waiting::Waiters;

/// Takes a mutex. Nothing panics under one unless the state is broken, and then nobody may go on.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a thread broke off in the middle of a change; the state cannot be trusted")
}

/// Types and currencies shared.
const SHARED_NAMES_MAX: usize = 4_096;

/// Keeps neighbours off each other's cache lines.
#[repr(align(128))]
#[derive(Debug)]
struct Apart<T>(T);

/// Token selection in memory: see the [crate's page](crate).
#[derive(Debug)]
pub struct MemorySelector {
    config: Config,
    stripes: Vec<Apart<Mutex<Stripe>>>,
    /// Per stripe, a time before which no lease ends there. Changed under the stripe's lock.
    next_ends: Vec<AtomicI64>,
    ids: Ids,
    spenders: Spenders,
    mirrors: Mirrors,
    /// The kinds mirrored, as bits. Changes only while all stripes are locked.
    kinds: AtomicU8,
    /// The last fence or claim number given.
    sequence: Apart<AtomicU64>,
    tokens: Apart<AtomicUsize>,
    bytes: AtomicUsize,
    loading: AtomicBool,
    waiting: Waiters,
    hasher: FixedState,
    /// Types and currencies, each once: few of them, compared by every request.
    names: Mutex<BTreeSet<Name>>,
}

/// What has to be done once no lock is held any more.
#[derive(Default)]
pub(crate) struct After {
    /// Kinds of which tokens became free.
    freed: Vec<Arc<Kind>>,
    /// Spenders whose lock of that claim has ended by its lease.
    ended: Vec<(Name, u64)>,
}

/// Stripes locked together, by rising number.
pub(crate) struct Stripes<'a> {
    guards: Vec<MutexGuard<'a, Stripe>>,
}

impl Stripes<'_> {
    pub(crate) fn get(&mut self, number: u32) -> &mut Stripe {
        let place = self.guards.binary_search_by_key(&number, |guard| guard.number);
        &mut self.guards[place.expect("the caller asked for this stripe")]
    }
}

impl MemorySelector {
    /// An empty selector.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let seed = config.hash_seed.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0_u8));
        let count = config.stripes.clamp(1, 1 << 16).next_power_of_two();
        let numbers = 0..u32::try_from(count).expect("clamped above");
        let kinds = config.indexes.iter().fold(0, |kinds, kind| kinds | mirrors::bit(*kind));
        MemorySelector {
            stripes: numbers.map(|number| Apart(Mutex::new(Stripe::new(number)))).collect(),
            next_ends: (0..count).map(|_| AtomicI64::new(NO_END)).collect(),
            ids: Ids::new(seed, config.tombstones_max),
            spenders: Spenders::new(seed, config.spends_max),
            mirrors: Mirrors::new(seed),
            kinds: AtomicU8::new(kinds),
            sequence: Apart(AtomicU64::new(0)),
            tokens: Apart(AtomicUsize::new(0)),
            bytes: AtomicUsize::new(0),
            loading: AtomicBool::new(false),
            waiting: Waiters::new(config.waiters_max),
            hasher: FixedState::with_seed(seed),
            names: Mutex::new(BTreeSet::new()),
            config,
        }
    }

    fn pool_hash(&self, wallet: &str, token_type: &str, currency: &str) -> u64 {
        self.hasher.hash_one((wallet, token_type, currency))
    }

    fn pool_hash_of(&self, kind: &Kind) -> u64 {
        self.pool_hash(&kind.wallet, &kind.token_type, &kind.currency)
    }

    fn stripe_number(&self, pool_hash: u64) -> u32 {
        let mask = u64::try_from(self.stripes.len() - 1).expect("a usize fits");
        u32::try_from((pool_hash >> 32) & mask).expect("32 bits are left")
    }

    fn stripe_of(&self, kind: &Kind) -> u32 {
        self.stripe_number(self.pool_hash_of(kind))
    }

    fn stripe(&self, number: u32) -> MutexGuard<'_, Stripe> {
        locked(&self.stripes[usize::try_from(number).expect("a u32 fits")].0)
    }

    /// Locks several stripes in their order.
    fn stripes(&self, mut numbers: Vec<u32>) -> Stripes<'_> {
        numbers.sort_unstable();
        numbers.dedup();
        Stripes { guards: numbers.into_iter().map(|number| self.stripe(number)).collect() }
    }

    fn all_stripes(&self) -> Stripes<'_> {
        Stripes { guards: self.stripes.iter().map(|stripe| locked(&stripe.0)).collect() }
    }

    /// The next number of the one rising sequence.
    fn next_number(&self) -> u64 {
        self.sequence.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes sure that fences given from now on are above `fence`.
    pub fn raise_fence(&self, fence: u64) {
        self.sequence.0.fetch_max(fence, Ordering::Relaxed);
    }

    fn mirrored(&self) -> u8 {
        self.kinds.load(Ordering::Relaxed)
    }

    /// Builds an index kind that is not kept yet. Everybody waits meanwhile.
    pub fn keep_index(&self, kind: OwnerKind) -> Result<(), Refusal> {
        let bit = mirrors::bit(kind);
        if self.mirrored() & bit == bit {
            return Ok(());
        }
        let stripes = self.all_stripes();
        if self.mirrored() & bit == bit {
            return Ok(());
        }
        let tokens = self.tokens.0.load(Ordering::Relaxed);
        self.reserve_bytes(tokens.saturating_mul(MIRROR_BYTES))?;
        for stripe in &stripes.guards {
            for (slot, found) in stripe.slots.iter() {
                let holder = stripe.locks.get(found.lock).map(|lock| (&lock.spender, lock.end()));
                self.mirrors.add(bit, &found.token, Handle::new(stripe.number, slot), holder);
            }
        }
        self.kinds.fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    /// The one copy of a type or currency.
    fn shared_name(&self, name: &Name) -> Name {
        let mut names = locked(&self.names);
        if let Some(known) = names.get(name) {
            return known.clone();
        }
        // Whoever makes up a new currency for each token gains nothing here, and costs nothing either.
        if names.len() < SHARED_NAMES_MAX {
            names.insert(name.clone());
        }
        name.clone()
    }

    /// Takes bytes from the bound of the memory.
    fn reserve_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.config.bytes_max {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Refusal::Full { what: "the memory for tokens is", limit: self.config.bytes_max });
        }
        Ok(())
    }

    fn token_bytes(&self, id: &TokenId) -> usize {
        let mirrors = usize::try_from(self.mirrored().count_ones()).expect("at most 3");
        TOKEN_BYTES + id.bytes_elsewhere() + mirrors * MIRROR_BYTES
    }

    /// Notes that tokens of a kind became free, if anybody waits for such news.
    fn note_freed(&self, kind: &Arc<Kind>, after: &mut After) {
        if self.waiting.is_anybody() && !after.freed.iter().any(|other| Arc::ptr_eq(other, kind)) {
            after.freed.push(kind.clone());
        }
    }

    /// A token of a stripe became free: tells its mirrors and those who wait.
    fn token_freed(&self, token: &Token, handle: Handle, after: &mut After) {
        self.mirrors.unlock(self.mirrored(), token, handle);
        self.note_freed(&token.kind, after);
    }

    /// Ends one lock of a stripe and frees its tokens.
    fn free_lock(&self, stripe: &mut Stripe, number: u32, after: &mut After) -> stripe::Lock {
        let lock = stripe.free_lock(number);
        if self.mirrored() != 0 || self.waiting.is_anybody() {
            for slot in lock.slots.all() {
                let handle = Handle::new(stripe.number, *slot);
                let token = &stripe.slots.get(*slot).expect("a freed token is there").token;
                self.token_freed(token, handle, after);
            }
        }
        lock
    }

    /// Ends the locks of a stripe whose lease has run out. Each lock costs this once.
    fn reclaim(&self, stripe: &mut Stripe, now: i64, after: &mut After) {
        let mut any = false;
        while let Some(number) = stripe.first_expired(now) {
            let lock = self.free_lock(stripe, number, after);
            stripe.counters.lease_ends += 1;
            after.ended.push((lock.spender, lock.terms.claim));
            any = true;
        }
        if any {
            self.next_end_of(stripe.number).store(stripe.next_end(), Ordering::Relaxed);
        }
    }

    fn next_end_of(&self, stripe: u32) -> &AtomicI64 {
        &self.next_ends[usize::try_from(stripe).expect("a u32 fits")]
    }

    /// Keeps the stripe's earliest end a lower bound. Nothing raises it but a pass that looked.
    fn note_end(&self, stripe: u32, end: i64) {
        let next = self.next_end_of(stripe);
        if end < next.load(Ordering::Relaxed) {
            next.store(end, Ordering::Relaxed);
        }
    }

    /// Ends every lock in the vault whose lease has run out. Costs a look per stripe, and then what there is to end.
    fn reclaim_everywhere(&self, now: i64, after: &mut After) {
        for (number, next) in (0_u32..).zip(&self.next_ends) {
            if next.load(Ordering::Relaxed) > now {
                continue;
            }
            let mut stripe = self.stripe(number);
            self.reclaim(&mut stripe, now, after);
            self.next_end_of(number).store(stripe.next_end(), Ordering::Relaxed);
        }
    }

    /// Makes a change, and then does what had to wait until no lock was held.
    fn then_finish<T>(&self, now: i64, change: impl FnOnce(&mut After) -> T) -> T {
        let mut after = After::default();
        let outcome = change(&mut after);
        self.finish(after, now);
        outcome
    }

    /// Does what had to wait until no lock was held.
    fn finish(&self, mut after: After, now: i64) {
        loop {
            for (spender, claim) in std::mem::take(&mut after.ended) {
                let mut entries = self.spenders.entries(&spender);
                let held = entries.held_mut(&spender).filter(|held| held.terms.claim == claim).cloned();
                if let Some(held) = held {
                    // A lock over several stripes ends in all of them as soon as it ends in one.
                    self.free_parts(&held, &mut after);
                    entries.remove(&spender);
                }
            }
            if after.freed.is_empty() {
                return;
            }
            after = self.serve_waiters(std::mem::take(&mut after.freed), now);
        }
    }
}
