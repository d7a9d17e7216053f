//! Ids of transfers that ended since the last checkpoint, with the place of their outcome. A checkpoint seals them
//! as a run on the disk and they leave memory.
//!
//! Split in shards as the index of open transfers is: a shard that must grow moves a 256th of the entries.

use hashbrown::HashTable;

use crate::runs::{Entry, hash_id};

const SHARDS: usize = 256;

pub(crate) struct RecentIds {
    key: u64,
    shards: Vec<HashTable<Entry>>,
    len: usize,
}

/// hashbrown takes its tags from the top seven bits; the shard is chosen by others.
#[allow(clippy::cast_possible_truncation, reason = "only eight bits are left")]
const fn shard_of(hash: u64) -> usize {
    (hash >> 48) as usize % SHARDS
}

impl RecentIds {
    pub(crate) fn new(key: u64) -> RecentIds {
        RecentIds { key, shards: (0..SHARDS).map(|_| HashTable::new()).collect(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, hash: u64, id: u128) -> Option<u64> {
        self.shards[shard_of(hash)].find(hash, |entry| entry.id == id).map(|entry| entry.place)
    }

    /// Adds an id that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, entry: Entry) {
        let key = self.key;
        self.shards[shard_of(hash)].insert_unique(hash, entry, |entry| hash_id(key, entry.id));
        self.len += 1;
    }

    /// All of them, in no order. `pause` is called again and again.
    pub(crate) fn all(&self, pause: &mut dyn FnMut()) -> Vec<Entry> {
        let mut all = Vec::with_capacity(self.len);
        for shard in &self.shards {
            all.extend(shard);
            pause();
        }
        all
    }
}
