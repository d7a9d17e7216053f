//! Where each token lies, by id, and which ids were consumed. The innermost lock.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use crate::choose::lane::Handle;
use crate::sync::{Mutex, MutexGuard};
use crate::token::TokenId;

use super::locked;

/// A tombstone lies where a handle would.
const CONSUMED: Handle = Handle(u64::MAX);
const SHARDS: usize = 256;

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Live(Handle),
    Consumed,
    Nothing,
}

#[derive(Debug)]
struct Shard {
    places: HashTable<(TokenId, Handle)>,
    /// Tombstones of tokens that were here, oldest first.
    spent: VecDeque<TokenId>,
    /// Tombstones of tokens that have not been here yet. While the vault loads, none of them is forgotten.
    early: VecDeque<TokenId>,
    hasher: FixedState,
}

impl Shard {
    fn get(&self, hash: u64, id: &TokenId) -> Option<Handle> {
        self.places.find(hash, |(other, _)| other == id).map(|(_, handle)| *handle)
    }

    fn put(&mut self, hash: u64, id: &TokenId, handle: Handle) {
        let hasher = &self.hasher;
        match self.places.find_mut(hash, |(other, _)| other == id) {
            Some((_, place)) => *place = handle,
            None => {
                let entry = (id.clone(), handle);
                self.places.insert_unique(hash, entry, |(id, _)| hasher.hash_one(id));
            }
        }
    }

    fn remove(&mut self, id: &TokenId) {
        let hash = self.hasher.hash_one(id);
        if let Ok(entry) = self.places.find_entry(hash, |(other, _)| other == id) {
            entry.remove();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ids {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
    /// Per shard and kind of tombstone.
    tombstones_max: usize,
}

impl Ids {
    pub(crate) fn new(seed: u64, tombstones_max: usize) -> Self {
        let shard = |_| {
            let hasher = FixedState::with_seed(seed ^ 0x1d);
            let (spent, early) = (VecDeque::new(), VecDeque::new());
            Mutex::new(Shard { places: HashTable::new(), spent, early, hasher })
        };
        Ids {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: FixedState::with_seed(seed ^ 0x1d),
            tombstones_max: tombstones_max.div_ceil(SHARDS).max(1),
        }
    }

    fn shard(&self, id: &TokenId) -> (u64, MutexGuard<'_, Shard>) {
        let hash = self.hasher.hash_one(id);
        let place = usize::try_from((hash >> 32) & 0xff).expect("a byte fits");
        (hash, locked(&self.shards[place]))
    }

    pub(crate) fn find(&self, id: &TokenId) -> Known {
        let (hash, shard) = self.shard(id);
        match shard.get(hash, id) {
            None => Known::Nothing,
            Some(CONSUMED) => Known::Consumed,
            Some(handle) => Known::Live(handle),
        }
    }

    /// Notes where a new token lies. The caller has seen, under the stripe's lock, that the id is unknown; if another
    /// stripe was faster, says what is known and changes nothing.
    pub(crate) fn insert(&self, id: &TokenId, handle: Handle) -> Result<(), Known> {
        let (hash, mut shard) = self.shard(id);
        match shard.get(hash, id) {
            Some(CONSUMED) => Err(Known::Consumed),
            Some(other) => Err(Known::Live(other)),
            None => {
                shard.put(hash, id, handle);
                Ok(())
            }
        }
    }

    /// Forgets a token that never came to be.
    pub(crate) fn remove(&self, id: &TokenId) {
        self.shard(id).1.remove(id);
    }

    /// Leaves a tombstone for a token that was here.
    pub(crate) fn consume(&self, id: &TokenId) {
        let (hash, mut shard) = self.shard(id);
        shard.put(hash, id, CONSUMED);
        shard.spent.push_back(id.clone());
        if shard.spent.len() > self.tombstones_max
            && let Some(oldest) = shard.spent.pop_front()
        {
            shard.remove(&oldest);
        }
    }

    /// Leaves a tombstone for a token that has not been here. `Err` with its place if it has come meanwhile; `Ok(false)`
    /// if there is no room and none may be made.
    pub(crate) fn consume_early(&self, id: &TokenId, keep_all: bool) -> Result<bool, Handle> {
        let (hash, mut shard) = self.shard(id);
        match shard.get(hash, id) {
            Some(CONSUMED) => return Ok(true),
            Some(handle) => return Err(handle),
            None => {}
        }
        if shard.early.len() >= self.tombstones_max {
            if keep_all {
                return Ok(false);
            }
            if let Some(oldest) = shard.early.pop_front() {
                shard.remove(&oldest);
            }
        }
        shard.put(hash, id, CONSUMED);
        shard.early.push_back(id.clone());
        Ok(true)
    }
}
