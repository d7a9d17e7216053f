//! Where each token lies, by id, and which ids were consumed. The innermost lock.
//!
//! An id is known by 128 bits of SipHash under a secret key: a third of the memory, and nothing to fetch when a table grows or
//! is searched. That two of ten million ids meet has a chance below 1 in 10^24, and nobody without the key can bring it about;
//! the second would be refused as known.

use std::collections::VecDeque;
use std::hash::Hasher;

use hashbrown::HashTable;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::choose::lane::Handle;
use crate::random::Random;
use crate::sync::{Mutex, MutexGuard};
use crate::token::TokenId;

use super::locked;

/// Marks a tombstone. It lies where the handle was and keeps it: a listing can go on behind a token that is gone. No stripe
/// has so high a number.
const CONSUMED: u64 = 1 << 63;
/// The tombstone of a token that never had a place.
const NEVER_HERE: Handle = Handle(u64::MAX);

fn is_tombstone(handle: Handle) -> bool {
    handle.0 & CONSUMED != 0
}

const SHARDS: usize = 256;

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Live(Handle),
    Consumed,
    Nothing,
}

/// What an id is known by.
type Key = (u64, u64);

#[derive(Debug)]
struct Shard {
    places: HashTable<(Key, Handle)>,
    /// Tombstones of tokens that were here, oldest first.
    spent: VecDeque<Key>,
    /// Tombstones of tokens that have not been here yet. While the vault loads, none of them is forgotten.
    early: VecDeque<Key>,
}

impl Shard {
    fn get(&self, key: Key) -> Option<Handle> {
        self.places.find(key.0, |(other, _)| *other == key).map(|(_, handle)| *handle)
    }

    fn put(&mut self, key: Key, handle: Handle) {
        match self.places.find_mut(key.0, |(other, _)| *other == key) {
            Some((_, place)) => *place = handle,
            None => {
                self.places.insert_unique(key.0, (key, handle), |(key, _)| key.0);
            }
        }
    }

    fn remove(&mut self, key: Key) {
        if let Ok(entry) = self.places.find_entry(key.0, |(other, _)| *other == key) {
            entry.remove();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ids {
    shards: Vec<Mutex<Shard>>,
    hasher: SipHasher13,
    /// Per shard and kind of tombstone.
    tombstones_max: usize,
}

impl Ids {
    pub(crate) fn new(seed: u64, tombstones_max: usize) -> Self {
        let shard = |_| {
            let (spent, early) = (VecDeque::new(), VecDeque::new());
            Mutex::new(Shard { places: HashTable::new(), spent, early })
        };
        let mut secret = Random::new(seed ^ 0x1d);
        Ids {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: SipHasher13::new_with_keys(secret.next_u64(), secret.next_u64()),
            tombstones_max: tombstones_max.div_ceil(SHARDS).max(1),
        }
    }

    fn shard(&self, id: &TokenId) -> (Key, MutexGuard<'_, Shard>) {
        let mut hasher = self.hasher;
        hasher.write(id.as_bytes());
        let key = hasher.finish128().as_u64();
        let place = usize::try_from(key.1 >> 56).expect("a byte fits");
        (key, locked(&self.shards[place]))
    }

    pub(crate) fn find(&self, id: &TokenId) -> Known {
        let (key, shard) = self.shard(id);
        match shard.get(key) {
            None => Known::Nothing,
            Some(handle) if is_tombstone(handle) => Known::Consumed,
            Some(handle) => Known::Live(handle),
        }
    }

    /// Where a token lies, or lay before it was consumed.
    pub(crate) fn last_place(&self, id: &TokenId) -> Option<Handle> {
        let (key, shard) = self.shard(id);
        let found = shard.get(key).filter(|handle| *handle != NEVER_HERE)?;
        Some(Handle(found.0 & !CONSUMED))
    }

    /// Notes where a new token lies. The caller has seen, under the stripe's lock, that the id is unknown; if another
    /// stripe was faster, says what is known and changes nothing.
    pub(crate) fn insert(&self, id: &TokenId, handle: Handle) -> Result<(), Known> {
        let (key, mut shard) = self.shard(id);
        match shard.get(key) {
            Some(handle) if is_tombstone(handle) => Err(Known::Consumed),
            Some(other) => Err(Known::Live(other)),
            None => {
                shard.put(key, handle);
                Ok(())
            }
        }
    }

    /// Forgets a token that never came to be.
    pub(crate) fn remove(&self, id: &TokenId) {
        let (key, mut shard) = self.shard(id);
        shard.remove(key);
    }

    /// Leaves a tombstone for a token that was here.
    pub(crate) fn consume(&self, id: &TokenId) {
        let (key, mut shard) = self.shard(id);
        let place = shard.get(key).unwrap_or(NEVER_HERE);
        shard.put(key, Handle(place.0 | CONSUMED));
        shard.spent.push_back(key);
        if shard.spent.len() > self.tombstones_max
            && let Some(oldest) = shard.spent.pop_front()
        {
            shard.remove(oldest);
        }
    }

    /// Leaves a tombstone for a token that has not been here. `Err` with its place if it has come meanwhile; `Ok(false)`
    /// if there is no room and none may be made.
    pub(crate) fn consume_early(&self, id: &TokenId, keep_all: bool) -> Result<bool, Handle> {
        let (key, mut shard) = self.shard(id);
        match shard.get(key) {
            Some(handle) if is_tombstone(handle) => return Ok(true),
            Some(handle) => return Err(handle),
            None => {}
        }
        if shard.early.len() >= self.tombstones_max {
            if keep_all {
                return Ok(false);
            }
            if let Some(oldest) = shard.early.pop_front() {
                shard.remove(oldest);
            }
        }
        shard.put(key, NEVER_HERE);
        shard.early.push_back(key);
        Ok(true)
    }
}
