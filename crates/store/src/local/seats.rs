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

/// Seats by the hash of what sits there. Half of the hash stands beside the seat: a table that grows need not look at what sits
/// there, and a look at a row is nearly never in vain.
#[derive(Default)]
pub(crate) struct Seats {
    seats: Sharded<(u32, Seat)>,
}

impl Seats {
    /// The hash that the table works with, made of the half that it keeps.
    fn spread(half: u32) -> u64 {
        u64::from(half).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the lower half is kept")]
    const fn half(hash: u64) -> u32 {
        hash as u32
    }

    /// The seat of that hash that is the one.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(Seat) -> bool) -> Option<Seat> {
        let half = Seats::half(hash);
        let found = self.seats.find(Seats::spread(half), |(known, seat)| *known == half && is_it(*seat));
        found.map(|(_, seat)| *seat)
    }

    /// Adds a seat that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, seat: Seat) {
        let half = Seats::half(hash);
        self.seats.insert(Seats::spread(half), (half, seat), |(half, _)| Seats::spread(*half));
    }

    /// Takes a seat out, if it is there.
    pub(crate) fn remove(&mut self, hash: u64, seat: Seat) -> bool {
        let half = Seats::half(hash);
        self.seats.remove(Seats::spread(half), |entry| *entry == (half, seat)).is_some()
    }

    /// Makes room for about so many more.
    pub(crate) fn reserve(&mut self, seats: usize) {
        self.seats.reserve(seats, |(half, _)| Seats::spread(*half));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.seats.len()
    }
}

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
        (0..10_000).for_each(|seat| seats.insert(hash(seat), seat));
        (0..10_000).step_by(3).for_each(|seat| assert!(seats.remove(hash(seat), seat)));
        for seat in 0..10_000 {
            assert_eq!(seats.find(hash(seat), |at| at == seat).is_some(), !seat.is_multiple_of(3));
        }
        assert_eq!(seats.len(), 10_000 - 3_334);
    }

    #[test]
    fn one_that_has_the_same_half_of_a_hash_is_told_apart() {
        let mut seats = Seats::default();
        (0..100).for_each(|seat| seats.insert(7 + (u64::from(seat) << 32), seat));
        assert_eq!(seats.find(7, |at| at == 63), Some(63));
        assert!(seats.remove(7, 63) && !seats.remove(7, 63));
        assert_eq!((seats.find(7, |at| at == 63), seats.len()), (None, 99));
    }

    /// What the table makes of halves must use every part of it.
    #[test]
    fn halves_are_spread() {
        let mut counts = [0_usize; SHARDS];
        (0..256_000_u32).for_each(|seat| counts[shard_of(Seats::spread(Seats::half(hash(seat))))] += 1);
        assert!(counts.iter().all(|count| (500..=1_700).contains(count)), "{counts:?}");
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
        let mut seats: Sharded<Seat> = Sharded::default();
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
