//! Seeded randomness: small, and the same on every machine and in every release.

use holdfast_domain::series;

/// A stream of choices that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of that seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        series::next(&mut self.0)
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high - low + 1).expect("low is not above high");
        low + i64::try_from(self.below(width)).expect("the width fitted")
    }

    /// As [`between`](Self::between), for sizes.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        low + self.index(high - low + 1)
    }

    /// A place in a list of that length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// `true` in so many of a hundred cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the list, which is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    /// 128 bits.
    pub fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    /// 32 bytes.
    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|piece| *piece = self.next().to_le_bytes());
        bytes
    }
}
