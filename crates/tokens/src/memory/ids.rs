//! Where each token lies, by id, and which ids were consumed. The innermost lock.

use std::collections::VecDeque;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use crate::choose::lane::Handle;
use crate::sync::Mutex;
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
    places: HashMap<TokenId, Handle, FixedState>,
    /// Tombstones of tokens that were here, oldest first.
    spent: VecDeque<TokenId>,
    /// Tombstones of tokens that have not been here yet. While the vault loads, none of them is forgotten.
    early: VecDeque<TokenId>,
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
            let places = HashMap::with_hasher(FixedState::with_seed(seed ^ 0x1d5));
            Mutex::new(Shard { places, spent: VecDeque::new(), early: VecDeque::new() })
        };
        Ids {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: FixedState::with_seed(seed ^ 0x1d),
            tombstones_max: tombstones_max.div_ceil(SHARDS).max(1),
        }
    }

    fn shard(&self, id: &TokenId) -> &Mutex<Shard> {
        use std::hash::BuildHasher;
        let hash = self.hasher.hash_one(id) & 0xff;
        &self.shards[usize::try_from(hash).expect("a byte fits")]
    }

    pub(crate) fn find(&self, id: &TokenId) -> Known {
        match locked(self.shard(id)).places.get(id) {
            None => Known::Nothing,
            Some(&CONSUMED) => Known::Consumed,
            Some(handle) => Known::Live(*handle),
        }
    }

    /// Notes where a new token lies. The caller has seen, under the stripe's lock, that the id is unknown; if another
    /// stripe was faster, says what is known and changes nothing.
    pub(crate) fn insert(&self, id: &TokenId, handle: Handle) -> Result<(), Known> {
        let mut shard = locked(self.shard(id));
        match shard.places.get(id) {
            Some(&CONSUMED) => Err(Known::Consumed),
            Some(other) => Err(Known::Live(*other)),
            None => {
                shard.places.insert(id.clone(), handle);
                Ok(())
            }
        }
    }

    /// Forgets a token that never came to be.
    pub(crate) fn remove(&self, id: &TokenId) {
        locked(self.shard(id)).places.remove(id);
    }

    /// Leaves a tombstone for a token that was here.
    pub(crate) fn consume(&self, id: &TokenId) {
        let mut shard = locked(self.shard(id));
        shard.places.insert(id.clone(), CONSUMED);
        shard.spent.push_back(id.clone());
        if shard.spent.len() > self.tombstones_max
            && let Some(oldest) = shard.spent.pop_front()
        {
            shard.places.remove(&oldest);
        }
    }

    /// Leaves a tombstone for a token that has not been here. `Err` with its place if it has come meanwhile; `Ok(false)`
    /// if there is no room and none may be made.
    pub(crate) fn consume_early(&self, id: &TokenId, keep_all: bool) -> Result<bool, Handle> {
        let mut shard = locked(self.shard(id));
        match shard.places.get(id) {
            Some(&CONSUMED) => return Ok(true),
            Some(handle) => return Err(*handle),
            None => {}
        }
        if shard.early.len() >= self.tombstones_max {
            if keep_all {
                return Ok(false);
            }
            if let Some(oldest) = shard.early.pop_front() {
                shard.places.remove(&oldest);
            }
        }
        shard.places.insert(id.clone(), CONSUMED);
        shard.early.push_back(id.clone());
        Ok(true)
    }
}
