//! The filter of a run: says "not there" at the price of one cache line.
//!
//! An id sets one bit in each of the eight words of one line. The bits depend on the hash alone, so a question to
//! many runs works them out once and then only compares.

use std::sync::Arc;

pub(super) const WORDS: usize = 8;

/// Ids per line of 512 bits: 25 bits per id, about one false alarm in 20,000. A false alarm is a read on the thread
/// that decides, and each run is another chance of one: with 16 bits per id there are eighteen times as many.
pub(super) const IDS_PER_LINE: u64 = 20;

/// The bits of one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Line(pub [u64; WORDS]);

/// A question to any number of filters.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    hash: u64,
    bits: Line,
}

impl Probe {
    #[inline]
    pub(super) fn of(hash: u64) -> Probe {
        // The line is chosen by the upper bits of the hash; the product brings the lower ones up.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bits = Line::default();
        let mut shift = 16;
        for word in &mut bits.0 {
            *word = 1 << ((mixed >> shift) & 63);
            shift += 6;
        }
        Probe { hash, bits }
    }
}

/// The lines of a run. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    lines: Arc<[Line]>,
}

impl Filter {
    /// How many lines a run of so many ids gets.
    pub(super) fn lines_for(ids: u64) -> u64 {
        ids.div_ceil(IDS_PER_LINE).max(1)
    }

    pub(super) fn empty(lines: usize) -> Filter {
        assert!(lines > 0, "a filter has at least one line");
        Filter { lines: (0..lines).map(|_| Line::default()).collect() }
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The lines of a filter that nobody else has yet.
    pub(super) fn lines_mut(&mut self) -> &mut [Line] {
        Arc::get_mut(&mut self.lines).expect("a filter is shared only once it is complete")
    }

    pub(super) fn add(&mut self, hashes: impl Iterator<Item = u64>) {
        let lines = self.lines_mut();
        for hash in hashes {
            let probe = Probe::of(hash);
            let line = &mut lines[line_of(hash, lines.len())];
            for (word, bit) in line.0.iter_mut().zip(probe.bits.0) {
                *word |= bit;
            }
        }
    }

    /// Has the processor fetch the lines of these questions, many at a time. Asking one after the other it would get
    /// no further ahead than a few.
    pub(super) fn fetch(&self, probes: &[Probe]) {
        let lines = probes.iter().map(|probe| line_of(probe.hash, self.lines.len()));
        std::hint::black_box(lines.fold(0, |seen, line| seen ^ self.lines[line].0[0]));
    }

    /// Whether an id with that hash may be in the run. `false` is certain.
    #[inline]
    pub(super) fn may_hold(&self, probe: &Probe) -> bool {
        let line = &self.lines[line_of(probe.hash, self.lines.len())];
        let mut missing = 0;
        for (word, bit) in line.0.iter().zip(probe.bits.0) {
            missing |= bit & !word;
        }
        missing == 0
    }
}

/// The upper half of the product: below `lines`, evenly, and without a division.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the result is below `lines`")]
const fn line_of(hash: u64, lines: usize) -> usize {
    ((hash as u128 * lines as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::hash_id;

    #[test]
    fn what_was_added_is_found_and_false_alarms_are_rare() {
        const IDS: u64 = 100_000;
        // Neighbouring ids, and ids that differ in their upper half only.
        for shift in [0, 64, 100] {
            let hash = |n: u64| hash_id(7, u128::from(n) << shift);
            let mut filter = Filter::empty(usize::try_from(Filter::lines_for(IDS)).expect("small"));
            filter.add((0..IDS).map(hash));
            assert!((0..IDS).all(|n| filter.may_hold(&Probe::of(hash(n)))));
            let alarms = (IDS..11 * IDS).filter(|&n| filter.may_hold(&Probe::of(hash(n)))).count();
            assert!(alarms < 100, "{alarms} false alarms in 1,000,000 questions");
        }
    }

    #[test]
    fn every_line_is_reached() {
        for lines in [1, 3, 64, 1000] {
            assert_eq!((line_of(0, lines), line_of(u64::MAX, lines)), (0, lines - 1));
        }
    }
}
