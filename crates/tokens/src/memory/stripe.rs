//! A stripe: the tokens of the wallets that hash to it, their lanes and their locks, under one mutex.
//!
//! A token lives in exactly one stripe, by (wallet, type, currency), and is locked, freed and consumed only there.

use std::hint::black_box;
use std::sync::Arc;

use hashbrown::HashTable;

use super::few::Few;
use super::slab::Slab;
use crate::answer::Counters;
use crate::choose::lane::{Handle, Lane};
use crate::choose::sorted::{Entry, Sorted};
use crate::choose::{Pick, Shelf};
use crate::limits::NO_END;
use crate::token::{Kind, Name, Text, Token};

pub(crate) const NO_LOCK: u32 = u32::MAX;

/// A token in its place. One line of the cache, so that taking it waits for memory once.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) token: Token,
    pub(crate) lane: u32,
    /// The lock that holds it, or [`NO_LOCK`].
    pub(crate) lock: u32,
}

/// The lanes of one (wallet, type, currency).
#[derive(Debug)]
pub(crate) struct Pool {
    /// Usually in place: every request compares it.
    wallet: Text,
    /// The kind of the pool's first token, for type and currency. Most tokens of a pool are of it, and whoever is given one
    /// counts it: looking here begins what would be waited for later.
    kind: Arc<Kind>,
    pub(crate) lanes: Few<u32>,
}

impl Pool {
    #[inline]
    fn is(&self, wallet: &str, token_type: &str, currency: &str) -> bool {
        self.wallet.as_bytes() == wallet.as_bytes()
            && &*self.kind.token_type == token_type
            && &*self.kind.currency == currency
    }

    fn is_of(&self, kind: &Kind) -> bool {
        self.is(&kind.wallet, &kind.token_type, &kind.currency)
    }
}

/// A kind of which there are tokens here: its one shared copy, and the lane they run in.
#[derive(Debug)]
struct KindEntry {
    hash: u64,
    kind: Arc<Kind>,
    tokens: usize,
    lane: u32,
}

/// On what terms tokens are locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Names the lock for ever; a number in the slab is used again.
    pub(crate) claim: u64,
    pub(crate) fence: u64,
    pub(crate) since: i64,
    pub(crate) expires_at: i64,
    /// Whether the host has yet to confirm it; until then it does not end by itself.
    pub(crate) pending: bool,
}

/// The part of a spender's lock that lies in this stripe.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) spender: Name,
    pub(crate) terms: Terms,
    /// Whether a token of it was consumed from outside.
    pub(crate) broken: bool,
    pub(crate) slots: Few<u32>,
}

impl Lock {
    /// When it ends by itself.
    pub(crate) fn end(&self) -> i64 {
        if self.terms.pending { NO_END } else { self.terms.expires_at }
    }

    pub(crate) fn is_live(&self, now: i64) -> bool {
        self.end() > now || self.end() == NO_END
    }
}

/// Locks by their end.
#[derive(Debug, Default)]
struct Ends(Sorted);

impl Ends {
    /// Negative times come before all others in unsigned numbers too.
    fn entry(end: i64, number: u32) -> Entry {
        Entry { quantity: end.cast_unsigned() ^ (1 << 63), handle: Handle(number.into()) }
    }

    fn insert(&mut self, end: i64, number: u32) {
        self.0.insert(Self::entry(end, number));
    }

    fn remove(&mut self, end: i64, number: u32) {
        self.0.remove(Self::entry(end, number));
    }

    fn first(&self) -> Option<(i64, u32)> {
        let first = self.0.first()?;
        Some(((first.quantity ^ (1 << 63)).cast_signed(), first.handle.slot()))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub(crate) number: u32,
    pub(crate) slots: Slab<Slot>,
    pub(crate) lanes: Slab<Lane>,
    pub(crate) locks: Slab<Lock>,
    ends: Ends,
    pools: HashTable<(u64, Pool)>,
    kinds: HashTable<KindEntry>,
    pub(crate) counters: Counters,
}

impl Shelf for Stripe {
    fn token(&self, handle: Handle) -> &Token {
        &self.slots.get(handle.slot()).expect("a lane holds only tokens that are there").token
    }
}

impl Stripe {
    pub(crate) fn new(number: u32) -> Self {
        Stripe { number, ..Stripe::default() }
    }

    pub(crate) fn pool(&self, hash: u64, wallet: &str, token_type: &str, currency: &str) -> Option<&Pool> {
        let same = |(_, pool): &(u64, Pool)| pool.is(wallet, token_type, currency);
        self.pools.find(hash, same).map(|(_, pool)| pool)
    }

    fn pool_mut(&mut self, hash: u64, kind: &Arc<Kind>) -> &mut Pool {
        let same = |(_, pool): &(u64, Pool)| pool.is_of(kind);
        let new =
            || (hash, Pool { wallet: (&*kind.wallet).into(), kind: kind.clone(), lanes: Few::default() });
        &mut self.pools.entry(hash, same, |(hash, _)| *hash).or_insert_with(new).into_mut().1
    }

    /// Each pool with its owner, for those who look for fragmented wallets.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (&str, &Name, &Name, &[u32])> {
        let all = self.pools.iter().map(|(_, pool)| pool);
        all.map(|pool| (pool.wallet.as_str(), &pool.kind.token_type, &pool.kind.currency, pool.lanes.all()))
    }

    /// Takes a token in, free. Returns where it lies, and the bytes of its kind if it is the first of it.
    pub(crate) fn insert(
        &mut self,
        pool_hash: u64,
        kind_hash: u64,
        mut token: Token,
        share: impl Fn(&Name) -> Name,
    ) -> (Handle, Option<usize>) {
        let same = |known: &KindEntry| known.hash == kind_hash && known.kind == token.kind;
        let (lane, new_kind) = match self.kinds.find_mut(kind_hash, same) {
            Some(known) => {
                known.tokens += 1;
                token.kind = known.kind.clone();
                (known.lane, None)
            }
            None => {
                let kind = Arc::make_mut(&mut token.kind);
                (kind.token_type, kind.currency) = (share(&kind.token_type), share(&kind.currency));
                let lane = self.lane_for(pool_hash, &token.kind);
                let entry = KindEntry { hash: kind_hash, kind: token.kind.clone(), tokens: 1, lane };
                self.kinds.insert_unique(kind_hash, entry, |known| known.hash);
                (lane, Some(token.kind.bytes()))
            }
        };
        let quantity = token.quantity;
        let slot = self.slots.insert(Slot { token, lane, lock: NO_LOCK });
        let handle = Handle::new(self.number, slot);
        self.lane_mut(lane).add_free(quantity, handle);
        (handle, new_kind)
    }

    fn lane_for(&mut self, pool_hash: u64, kind: &Arc<Kind>) -> u32 {
        let numbers = self.pool_mut(pool_hash, kind).lanes.all().to_vec();
        let fits = |number: &&u32| {
            self.lanes
                .get(**number)
                .is_some_and(|lane| lane.notary == kind.notary && lane.issuer == kind.issuer)
        };
        if let Some(number) = numbers.iter().find(fits) {
            return *number;
        }
        let number = self.lanes.insert(Lane::new(kind.notary.clone(), kind.issuer.clone()));
        self.pool_mut(pool_hash, kind).lanes.push(number);
        number
    }

    /// Takes a token out, whatever holds it. Returns it, and the bytes of its kind if it was the last of it.
    pub(crate) fn remove(&mut self, pool_hash: u64, kind_hash: u64, slot: u32) -> (Token, Option<usize>) {
        let Slot { token, lane, lock } = self.slots.remove(slot).expect("the caller found the token here");
        let handle = Handle::new(self.number, slot);
        if lock == NO_LOCK {
            self.lane_mut(lane).remove_free(token.quantity, handle);
        } else {
            self.lane_mut(lane).remove_locked(token.quantity);
            if let Some(lock) = self.locks.get_mut(lock) {
                lock.broken = true;
                lock.slots.remove(slot);
            }
        }
        self.drop_lane_if_empty(pool_hash, &token.kind, lane);
        let same = |known: &KindEntry| Arc::ptr_eq(&known.kind, &token.kind);
        let mut gone = None;
        if let Ok(mut entry) = self.kinds.find_entry(kind_hash, same) {
            entry.get_mut().tokens -= 1;
            if entry.get().tokens == 0 {
                gone = Some(token.kind.bytes());
                entry.remove();
            }
        }
        (token, gone)
    }

    fn drop_lane_if_empty(&mut self, pool_hash: u64, kind: &Arc<Kind>, lane: u32) {
        if !self.lane_mut(lane).is_empty() {
            return;
        }
        self.lanes.remove(lane);
        let pool = self.pool_mut(pool_hash, kind);
        pool.lanes.remove(lane);
        if !pool.lanes.all().is_empty() {
            return;
        }
        let same = |(_, pool): &(u64, Pool)| pool.is_of(kind);
        if let Ok(entry) = self.pools.find_entry(pool_hash, same) {
            entry.remove();
        }
    }

    pub(crate) fn lane_mut(&mut self, lane: u32) -> &mut Lane {
        self.lanes.get_mut(lane).expect("a token's lane is there as long as the token")
    }

    /// Locks free tokens. `picks` are the lock's, and `lane` is theirs if they have only one.
    pub(crate) fn add_lock(&mut self, lock: Lock, picks: &[Pick], lane: Option<u32>) -> u32 {
        let end = lock.end();
        let number = self.locks.insert(lock);
        for pick in picks {
            let found = self.slots.get_mut(pick.handle.slot()).expect("the caller found the token here");
            assert_eq!(found.lock, NO_LOCK, "a locked token cannot be locked again");
            found.lock = number;
            // The caller will count the kind; it may as well be on its way from memory while the lane is changed.
            black_box(Arc::strong_count(&found.token.kind));
        }
        match lane {
            // Nothing here waits for what the slots say: they may still be on their way, too.
            Some(lane) => self.lane_mut(lane).lock_all(picks),
            None => {
                let lane_of =
                    |stripe: &Stripe, pick: &Pick| stripe.slots.get(pick.handle.slot()).map(|slot| slot.lane);
                let same = |a: &Pick, b: &Pick| lane_of(self, a) == lane_of(self, b);
                let lanes: Vec<(&[Pick], u32)> =
                    picks.chunk_by(same).filter_map(|some| Some((some, lane_of(self, &some[0])?))).collect();
                lanes.into_iter().for_each(|(some, lane)| self.lane_mut(lane).lock_all(some));
            }
        }
        self.note_end(end, number);
        number
    }

    fn note_end(&mut self, end: i64, number: u32) {
        if end != NO_END {
            self.ends.insert(end, number);
        }
    }

    /// The lock of that number, if it still belongs to that claim.
    pub(crate) fn lock_of(&self, number: u32, claim: u64) -> Option<&Lock> {
        self.locks.get(number).filter(|lock| lock.terms.claim == claim)
    }

    /// Gives a lock other terms and keeps the order of ends.
    pub(crate) fn change_lock(&mut self, number: u32, terms: Terms) {
        let lock = self.locks.get_mut(number).expect("the caller found the lock");
        let before = lock.end();
        lock.terms = terms;
        let after = lock.end();
        if before != after {
            self.ends.remove(before, number);
            self.note_end(after, number);
        }
    }

    /// Ends a lock; its tokens are free again.
    pub(crate) fn free_lock(&mut self, number: u32) -> Lock {
        let lock = self.locks.remove(number).expect("the caller found the lock");
        self.ends.remove(lock.end(), number);
        if let [slot] = lock.slots.all() {
            let (lane, entry) = self.unlock_slot(*slot);
            self.lane_mut(lane).unlock_all(&[entry]);
            return lock;
        }
        let freed: Vec<(u32, Entry)> = lock.slots.all().iter().map(|slot| self.unlock_slot(*slot)).collect();
        let mut entries = Vec::with_capacity(freed.len());
        for some in freed.chunk_by(|a, b| a.0 == b.0) {
            entries.clear();
            entries.extend(some.iter().map(|(_, entry)| *entry));
            self.lane_mut(some[0].0).unlock_all(&entries);
        }
        lock
    }

    /// Takes the lock off a token. Returns where it goes in which lane.
    fn unlock_slot(&mut self, slot: u32) -> (u32, Entry) {
        let found = self.slots.get_mut(slot).expect("a locked token is there");
        found.lock = NO_LOCK;
        (found.lane, Entry { quantity: found.token.quantity, handle: Handle::new(self.number, slot) })
    }

    /// Ends locks whose lease has run out. Each lock costs this once.
    pub(crate) fn first_expired(&self, now: i64) -> Option<u32> {
        self.ends.first().filter(|(end, _)| *end <= now).map(|(_, number)| number)
    }

    /// When the first lock ends by itself.
    pub(crate) fn next_end(&self) -> i64 {
        self.ends.first().map_or(NO_END, |(end, _)| end)
    }
}

impl Stripe {
    /// Whether a token is held by more than a claim that waits to be confirmed.
    pub(crate) fn is_locked_for_good(&self, slot: u32) -> bool {
        let lock = self.slots.get(slot).and_then(|found| self.locks.get(found.lock));
        lock.is_some_and(|lock| !lock.terms.pending)
    }

    /// Takes a token away from the claim that holds it, if one does. The claim is broken by that.
    pub(crate) fn take_from_claim(&mut self, slot: u32) {
        let Some(found) = self.slots.get_mut(slot) else { return };
        let Some(lock) = self.locks.get_mut(found.lock) else { return };
        lock.broken = true;
        lock.slots.remove(slot);
        found.lock = NO_LOCK;
        let (lane, quantity) = (found.lane, found.token.quantity);
        let handle = Handle::new(self.number, slot);
        self.lane_mut(lane).unlock(quantity, handle);
    }

    /// Takes a lock away from its tokens, which the caller removes.
    pub(crate) fn take_lock(&mut self, number: u32) -> Lock {
        let lock = self.locks.remove(number).expect("the caller found the lock");
        self.ends.remove(lock.end(), number);
        lock
    }
}
