//! Chance, handed in by the caller: the same seed makes the same choices.

use std::hash::{BuildHasher, RandomState};

use crate::sync::{AtomicU64, Ordering};

/// Numbers that nobody can guess, for hosts: seeds of choices, and ids. Each process draws others.
#[derive(Debug, Default)]
pub struct Draws {
    secret: RandomState,
    drawn: AtomicU64,
}

impl Draws {
    /// The next number.
    pub fn draw(&self) -> u64 {
        self.secret.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// A UUID that nobody has.
    pub fn uuid(&self) -> u128 {
        let drawn = u128::from(self.draw()) << 64 | u128::from(self.draw());
        // Version 4, variant 1, as RFC 9562 has them for random ones.
        drawn & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    }
}

/// A small generator of random numbers (SplitMix64). Fair enough to choose among equals; no secret may hang on it.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("a product of two u64 shifted by 64 fits")
    }

    /// An index below `len`; 0 if there is none.
    pub fn index(&mut self, len: usize) -> usize {
        let bound = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).expect("below a usize")
    }

    /// Puts the first `count` places of `items` in random order, drawn from all of them.
    pub fn shuffle_front<T>(&mut self, items: &mut [T], count: usize) {
        for place in 0..count.min(items.len()) {
            let other = place + self.index(items.len() - place);
            items.swap(place, other);
        }
    }
}
