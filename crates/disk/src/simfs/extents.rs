//! Which blocks of a file take room on the disk.

/// The unit in which a disk hands out room.
pub(super) const BLOCK: u64 = 4096;

/// The blocks that take room, as runs that neither overlap nor touch: most files are a single run.
#[derive(Clone, Default)]
pub(super) struct Extents {
    /// First block of a run, and the block after its last; in order.
    runs: Vec<(u64, u64)>,
    blocks: u64,
}

impl Extents {
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The blocks that `len` bytes at `position` lie in.
    pub fn spanned(position: u64, len: u64) -> (u64, u64) {
        if len == 0 { (0, 0) } else { (position / BLOCK, position.saturating_add(len).div_ceil(BLOCK)) }
    }

    /// Takes room for the blocks of `from..to` that have none yet.
    pub fn add(&mut self, (mut from, mut to): (u64, u64)) {
        let first = self.runs.partition_point(|&(_, end)| end < from);
        let covered = self.runs.get(first).is_some_and(|&(start, end)| start <= from && to <= end);
        if from >= to || covered {
            return;
        }
        let touched = self.runs[first..].partition_point(|&(start, _)| start <= to);
        for &(start, end) in &self.runs[first..first + touched] {
            self.blocks -= end - start;
            (from, to) = (from.min(start), to.max(end));
        }
        self.runs.splice(first..first + touched, [(from, to)]);
        self.blocks += to - from;
    }

    /// Gives back the room of all blocks from `keep` on.
    pub fn cut(&mut self, keep: u64) {
        let first = self.runs.partition_point(|&(_, end)| end <= keep);
        for (start, end) in self.runs.split_off(first) {
            self.blocks -= end - start.max(keep);
            if start < keep {
                self.runs.push((start, keep));
            }
        }
    }

    /// How far from `from` towards `to` one gets with room for so many new blocks.
    pub fn reach(&self, (from, to): (u64, u64), mut room: u64) -> u64 {
        let mut at = from;
        let first = self.runs.partition_point(|&(_, end)| end <= from);
        for &(start, end) in &self.runs[first..] {
            if at >= to {
                break;
            }
            let hole = start.min(to).saturating_sub(at);
            if hole > room {
                return at + room;
            }
            room -= hole;
            at = end;
        }
        at.saturating_add(room).min(to)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::choices::Choices;
    use super::Extents;

    #[test]
    fn behaves_as_a_set_of_blocks() {
        for seed in 0..200 {
            let mut choices = Choices::new(seed);
            let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
            for _ in 0..40 {
                let from = choices.below(60);
                let to = from + choices.below(12);
                let room = choices.below(8);
                let fits = (from..to)
                    .filter(|block| !model.contains(block))
                    .nth(usize::try_from(room).expect("small"));
                assert_eq!(extents.reach((from, to), room), fits.unwrap_or(to), "seed {seed}");
                if choices.below(5) == 0 {
                    extents.cut(from);
                    model.retain(|&block| block < from);
                } else {
                    extents.add((from, to));
                    model.extend(from..to);
                }
                assert_eq!(extents.blocks(), model.len() as u64, "seed {seed}");
                let apart = extents.runs.windows(2).all(|pair| pair[0].1 < pair[1].0);
                assert!(apart, "runs touch or overlap, seed {seed}: {:?}", extents.runs);
            }
        }
    }

    #[test]
    fn bytes_span_the_blocks_they_touch() {
        assert_eq!(Extents::spanned(0, 0), (0, 0));
        assert_eq!(Extents::spanned(100, 0), (0, 0));
        assert_eq!(Extents::spanned(4095, 2), (0, 2));
        assert_eq!(Extents::spanned(4096, 4096), (1, 2));
    }
}
