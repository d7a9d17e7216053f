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
        uuid::Builder::from_random_bytes(drawn.to_be_bytes()).into_uuid().as_u128()
    }
}

/// A part of all places, one of several equal ones. Those who choose from the same tokens without seeing each other begin in
/// different parts, so that they seldom want the same; each goes on into the others' where its own has nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: u32,
    of: u32,
}

impl Share {
    /// All places.
    pub const ALL: Share = Share { number: 0, of: 1 };

    /// The part of that number, counted from 0, of so many.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Share {
        let of = of.max(1);
        Share { number: number % of, of }
    }

    /// Where the part begins and ends among `bound` places.
    fn ends(self, bound: u64) -> (u64, u64) {
        let end = |number: u32| {
            let wide = u128::from(bound) * u128::from(number) / u128::from(self.of);
            u64::try_from(wide).expect("at most the bound")
        };
        (end(self.number), end(self.number + 1))
    }
}

/// A small generator of random numbers (SplitMix64). Fair enough to choose among equals; no secret may hang on it.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    share: Share,
}

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random { state: seed, share: Share::ALL }
    }

    /// Draws places from that part alone.
    #[must_use]
    pub fn within(self, share: Share) -> Self {
        Random { share, ..self }
    }

    /// A place to begin at, below `bound`; 0 if the bound is 0.
    #[inline]
    pub fn place(&mut self, bound: u64) -> u64 {
        if self.share == Share::ALL {
            return self.below(bound);
        }
        let (from, behind) = self.share.ends(bound);
        from + self.below(behind - from)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_beside_each_other_and_are_all() {
        for (bound, of) in [(1, 3), (2, 3), (10, 3), (1_000, 20), (u64::MAX, u32::MAX)] {
            let mut behind = 0;
            for number in (0..of).take(50) {
                let (from, end) = Share::new(number, of).ends(bound);
                assert_eq!(from, behind, "{number} of {of} among {bound}");
                behind = end;
            }
            assert_eq!(Share::new(of - 1, of).ends(bound).1, bound);
        }
    }

    #[test]
    fn places_are_drawn_from_the_own_part() {
        for number in 0..3 {
            let mut random = Random::new(7).within(Share::new(number, 3));
            let drawn: Vec<u64> = (0..100).map(|_| random.place(30)).collect();
            let part = u64::from(number) * 10..u64::from(number) * 10 + 10;
            assert!(part.clone().all(|place| drawn.contains(&place)), "{drawn:?}");
            assert!(drawn.iter().all(|place| part.contains(place)), "{drawn:?}");
        }
        let mut small = Random::new(7).within(Share::new(2, 3));
        assert_eq!((small.place(0), small.place(1)), (0, 0), "also where a part has no place");
    }

    /// Choices of one process alone are what they were.
    #[test]
    fn all_places_are_drawn_as_numbers_are() {
        let (mut places, mut numbers) = (Random::new(9), Random::new(9));
        assert!((1..100).all(|bound| places.place(bound) == numbers.below(bound)));
    }
}
