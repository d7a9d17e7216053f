//! The seeded choices of a crash.

/// What becomes of the sectors of one write.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    None,
    All,
    Some,
}

/// Seeded choices (splitmix64).
pub(super) struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A place in something that has `len` of them; 0 if it has none.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len.max(1) as u64)).unwrap_or(0)
    }

    pub fn yes(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// All and nothing get a fair share: with many sectors a coin per sector would hardly ever give them.
    pub fn fate(&mut self) -> Fate {
        match self.below(4) {
            0 => Fate::None,
            1 => Fate::All,
            _ => Fate::Some,
        }
    }
}
