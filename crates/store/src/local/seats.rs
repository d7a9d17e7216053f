//! Hashes to seats. The table is split: a part that must grow moves a 256th of the entries, not all of them at once in the
//! middle of somebody's payment. And no two parts are alike in size, from one to twice as much: were they, all of them would
//! have to grow within the same few thousand entries.

use hashbrown::HashTable;

use crate::hold_index::Seat;

const SHARDS: usize = 256;

/// Entries by their hash; what they stand for lies with the owner.
pub(crate) struct Sharded<T> {
    shards: Vec<HashTable<T>>,
}

/// Seats by the hash of what sits there.
pub(crate) type Seats = Sharded<Seat>;

/// Values of the bits that choose a shard.
const SPREAD: usize = 4096;

/// The shard of each: number `s` begins at `2^(s / 256) - 1` of the way, so each is a little larger than the one before.
static SHARD_OF: [u8; SPREAD] = {
    const ONE: u128 = 1 << 40;
    /// 2^(1 / 256), in parts of 2^40.
    const STEP: u128 = 1_102_492_706_220;
    let mut shards = [0; SPREAD];
    let (mut at, mut shard, mut next) = (0, 0_u8, STEP);
    while at < SPREAD {
        while shard < u8::MAX && next <= ONE + at as u128 * (ONE / SPREAD as u128) {
            shard += 1;
            next = (next * STEP) >> 40;
        }
        shards[at] = shard;
        at += 1;
    }
    shards
};

/// hashbrown takes its tags from the top seven bits and its places from the lowest; the shard is chosen by others.
#[allow(clippy::cast_possible_truncation, reason = "only twelve bits are left")]
fn shard_of(hash: u64) -> usize {
    usize::from(SHARD_OF[(hash >> 44) as usize % SPREAD])
}

impl<T> Default for Sharded<T> {
    fn default() -> Sharded<T> {
        Sharded { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

impl<T> Sharded<T> {
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[shard_of(hash)].find(hash, is_it)
    }

    pub(crate) fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.shards[shard_of(hash)].find_mut(hash, is_it)
    }

    /// Adds an entry that is not there yet; `hash_of` tells the hash of one that is.
    pub(crate) fn insert(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        self.shards[shard_of(hash)].insert_unique(hash, entry, hash_of);
    }

    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        self.shards[shard_of(hash)].find_entry(hash, is_it).ok().map(|entry| entry.remove().0)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }

    /// Makes room for about so many more.
    pub(crate) fn reserve(&mut self, entries: usize, hash_of: impl Fn(&T) -> u64) {
        self.shards.iter_mut().for_each(|shard| shard.reserve(entries / SHARDS, &hash_of));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn hash(number: u32) -> u64 {
        let mixed = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_taken_out() {
        let mut seats = Seats::default();
        (0..10_000).for_each(|seat| seats.insert(hash(seat), seat, |seat| hash(*seat)));
        (0..10_000)
            .step_by(3)
            .for_each(|seat| assert_eq!(seats.remove(hash(seat), |at| *at == seat), Some(seat)));
        for seat in 0..10_000 {
            assert_eq!(seats.find(hash(seat), |at| *at == seat).is_some(), !seat.is_multiple_of(3));
        }
        assert_eq!(seats.len(), 10_000 - 3_334);
    }

    #[test]
    fn every_shard_is_used_and_none_is_much_larger_than_another() {
        let mut counts = [0_usize; SHARDS];
        SHARD_OF.iter().for_each(|shard| counts[usize::from(*shard)] += 1);
        assert!(counts.iter().all(|count| (10..=24).contains(count)), "{counts:?}");
    }

    /// A thousand entries more never move more than a few thousand others.
    #[test]
    fn growth_is_spread() {
        let mut seats = Seats::default();
        let moved = Cell::new(0_u32);
        let mut worst = 0;
        for seat in 0..500_000_u32 {
            if seat.is_multiple_of(1_000) {
                worst = worst.max(moved.take());
            }
            seats.insert(hash(seat), seat, |seat| {
                moved.set(moved.get() + 1);
                hash(*seat)
            });
        }
        assert!(worst < 12_000, "{worst}");
    }
}
