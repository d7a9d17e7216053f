//! Transfer id to transfer number.
//!
//! Clients choose the ids, so they are hashed with a key of the data directory that clients never see. The table
//! is split in shards by the top bits of the hash: a shard that must grow moves a 256th of the entries, not all
//! of them at once in the middle of somebody's payment.

use hashbrown::HashTable;

use holdfast_domain::ids::{TransferId, TransferNo};

use crate::runs::hash_id;

const SHARDS: usize = 256;

pub(crate) struct IdIndex {
    key: u64,
    shards: Vec<HashTable<TransferNo>>,
}

impl IdIndex {
    pub(crate) fn new(key: u64) -> IdIndex {
        IdIndex { key, shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    fn hash(&self, id: TransferId) -> u64 {
        hash_id(self.key, id.0)
    }

    /// hashbrown takes its tags from the top seven bits; the shard is chosen by others.
    #[allow(clippy::cast_possible_truncation, reason = "only eight bits are left")]
    const fn shard_of(hash: u64) -> usize {
        (hash >> 48) as usize % SHARDS
    }

    /// The number of the transfer with that id; `id_of` tells the id of a number.
    pub(crate) fn get(&self, id: TransferId, id_of: impl Fn(TransferNo) -> TransferId) -> Option<TransferNo> {
        let hash = self.hash(id);
        self.shards[Self::shard_of(hash)].find(hash, |no| id_of(*no) == id).copied()
    }

    /// Adds an id that is not there yet.
    pub(crate) fn insert(
        &mut self,
        id: TransferId,
        no: TransferNo,
        id_of: impl Fn(TransferNo) -> TransferId,
    ) {
        let hash = self.hash(id);
        let key = self.key;
        self.shards[Self::shard_of(hash)].insert_unique(hash, no, |no| hash_id(key, id_of(*no).0));
    }
}
