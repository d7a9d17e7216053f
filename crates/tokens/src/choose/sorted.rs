//! Free tokens by amount and place, in sorted runs.
//!
//! A small wallet is one run, found in one piece of memory. A large one is many runs of at most [`RUN`] entries. A run
//! splits when it is full and joins its neighbour when both are nearly empty.

use super::lane::Handle;

/// Most entries of a run: four kilobytes.
const RUN: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) quantity: u64,
    pub(crate) handle: Handle,
}

impl Entry {
    /// Both as one number: compared without a branch.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.quantity) << 64 | u128::from(self.handle.0)
    }
}

#[derive(Debug)]
pub(crate) enum Sorted {
    Small(Vec<Entry>),
    Large(Runs),
}

/// Several runs.
#[derive(Debug)]
pub(crate) struct Runs {
    /// From which key on a run holds the entries; the first holds all below, too.
    from: Vec<u128>,
    runs: Vec<Vec<Entry>>,
}

impl Default for Sorted {
    fn default() -> Self {
        Sorted::Small(Vec::new())
    }
}

/// A place among the entries: run and entry in it. The end is the run behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    run: usize,
    at: usize,
}

/// The first key of a quantity.
fn first_key(quantity: u64) -> u128 {
    u128::from(quantity) << 64
}

/// The first key above a quantity; `None` if there is none.
fn key_above(quantity: u64) -> Option<u128> {
    quantity.checked_add(1).map(first_key)
}

/// How many entries of a run are below a key.
fn below(run: &[Entry], key: u128) -> usize {
    run.partition_point(|entry| entry.key() < key)
}

fn find(run: &[Entry], key: u128) -> Option<usize> {
    let at = below(run, key);
    run.get(at).filter(|entry| entry.key() == key).map(|_| at)
}

impl Sorted {
    #[inline]
    fn runs(&self) -> &[Vec<Entry>] {
        match self {
            Sorted::Small(run) => std::slice::from_ref(run),
            Sorted::Large(runs) => &runs.runs,
        }
    }

    pub(crate) fn insert(&mut self, quantity: u64, handle: Handle) {
        let entry = Entry { quantity, handle };
        match self {
            Sorted::Small(run) => {
                let at = below(run, entry.key());
                run.insert(at, entry);
                if run.len() > RUN {
                    let run = std::mem::take(run);
                    let mut runs = Runs { from: vec![0], runs: vec![run] };
                    runs.split(0, at);
                    *self = Sorted::Large(runs);
                }
            }
            Sorted::Large(runs) => runs.insert(entry),
        }
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, quantity: u64, handle: Handle) -> bool {
        let entry = Entry { quantity, handle };
        match self {
            Sorted::Small(run) => find(run, entry.key()).map(|at| run.remove(at)).is_some(),
            Sorted::Large(runs) => {
                let found = runs.remove(entry);
                if runs.runs.len() == 1 {
                    *self = Sorted::Small(runs.runs.pop().expect("there is one"));
                }
                found
            }
        }
    }

    /// The place of the first entry from `key` on.
    fn place(&self, key: u128) -> Place {
        let run = match self {
            Sorted::Small(_) => 0,
            Sorted::Large(runs) => runs.holding(key),
        };
        let entries = &self.runs()[run];
        let at = below(entries, key);
        if at == entries.len() { Place { run: run + 1, at: 0 } } else { Place { run, at } }
    }

    fn end(&self) -> Place {
        Place { run: self.runs().len(), at: 0 }
    }

    #[inline]
    fn get(&self, place: Place) -> Option<Entry> {
        self.runs().get(place.run)?.get(place.at).copied()
    }

    #[inline]
    fn after(&self, place: Place) -> Place {
        if place.at + 1 < self.runs()[place.run].len() {
            Place { at: place.at + 1, ..place }
        } else {
            Place { run: place.run + 1, at: 0 }
        }
    }

    #[inline]
    fn before(&self, place: Place) -> Option<Place> {
        if place.at > 0 {
            return Some(Place { at: place.at - 1, ..place });
        }
        let run = place.run.checked_sub(1)?;
        Some(Place { run, at: self.runs()[run].len().checked_sub(1)? })
    }

    fn above(&self, quantity: u64) -> Place {
        key_above(quantity).map_or_else(|| self.end(), |key| self.place(key))
    }

    /// The entries of one quantity.
    pub(crate) fn equals(&self, quantity: u64) -> Option<Equals<'_>> {
        let place = self.place(first_key(quantity));
        let first = self.get(place).filter(|entry| entry.quantity == quantity)?;
        let next = self.get(self.after(place));
        Some(self.group(first, next))
    }

    #[inline]
    fn group(&self, entry: Entry, neighbour: Option<Entry>) -> Equals<'_> {
        match neighbour {
            Some(other) if other.quantity == entry.quantity => Equals::Many(self, entry.quantity),
            _ => Equals::One(entry.handle),
        }
    }

    pub(crate) fn first(&self) -> Option<Entry> {
        self.runs().first()?.first().copied()
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.runs().last()?.last().map(|entry| entry.quantity)
    }

    /// Quantities from `from` upwards.
    pub(crate) fn upwards(&self, from: u64) -> Up<'_> {
        Up { sorted: self, next: self.place(first_key(from)) }
    }

    /// Quantities from `from` downwards.
    pub(crate) fn downwards(&self, from: u64) -> Down<'_> {
        Down { sorted: self, behind: self.above(from) }
    }
}

impl Runs {
    fn holding(&self, key: u128) -> usize {
        self.from.partition_point(|from| *from <= key).saturating_sub(1)
    }

    fn insert(&mut self, entry: Entry) {
        let place = self.holding(entry.key());
        let run = &mut self.runs[place];
        let at = below(run, entry.key());
        run.insert(at, entry);
        if run.len() > RUN {
            self.split(place, at);
        }
    }

    /// Splits a run that has grown too long by the entry at `at`. What comes in rising order fills run after run.
    fn split(&mut self, place: usize, at: usize) {
        let run = &mut self.runs[place];
        let rising = place + 1 == self.from.len() && at + 1 == run.len();
        let right = run.split_off(if rising { at } else { run.len() / 2 });
        self.from.insert(place + 1, right[0].key());
        self.runs.insert(place + 1, right);
    }

    fn remove(&mut self, entry: Entry) -> bool {
        let place = self.holding(entry.key());
        let run = &mut self.runs[place];
        let Some(at) = find(run, entry.key()) else { return false };
        run.remove(at);
        if run.len() < RUN / 8 {
            self.join(place);
            self.join(place.saturating_sub(1));
        }
        true
    }

    /// Joins a run with the next if both are nearly empty, or one is quite.
    fn join(&mut self, place: usize) {
        let [one, next] = match self.runs.get(place..place + 2) {
            Some([one, next]) => [one.len(), next.len()],
            _ => return,
        };
        if one + next <= RUN / 2 || one == 0 || next == 0 {
            let next = self.runs.remove(place + 1);
            self.from.remove(place + 1);
            self.runs[place].extend(next);
        }
    }
}

/// The entries of one quantity.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Equals<'a> {
    One(Handle),
    Many(&'a Sorted, u64),
}

impl<'a> Equals<'a> {
    fn stretch(sorted: &'a Sorted, quantity: u64) -> Stretch<'a> {
        Stretch { sorted, next: sorted.place(first_key(quantity)), behind: sorted.above(quantity) }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Equals::One(_) => 1,
            Equals::Many(sorted, quantity) => Self::stretch(sorted, quantity).len(),
        }
    }

    /// All of them, beginning at a random one.
    #[inline]
    pub(crate) fn in_random_order(self, random: &mut crate::random::Random) -> Walk<'a> {
        let (sorted, quantity) = match self {
            Equals::One(handle) => return Walk::One(Some(handle)),
            Equals::Many(sorted, quantity) => (sorted, quantity),
        };
        let all = Self::stretch(sorted, quantity);
        let first = sorted.get(all.next).map_or(0, |entry| entry.handle.0);
        let last = sorted.before(all.behind).and_then(|place| sorted.get(place));
        let last = last.map_or(first, |entry| entry.handle.0);
        let pivot = Handle(first + random.below(last - first + 1));
        let middle = sorted.place(Entry { quantity, handle: pivot }.key());
        Walk::Many(Stretch { next: middle, ..all }, Stretch { behind: middle, ..all })
    }

    /// All of them, in one fixed order.
    pub(crate) fn in_order(self) -> impl DoubleEndedIterator<Item = Handle> + 'a {
        let (one, many) = match self {
            Equals::One(handle) => (Some(handle), None),
            Equals::Many(sorted, quantity) => (None, Some(Self::stretch(sorted, quantity))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// The entries between two places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch<'a> {
    sorted: &'a Sorted,
    next: Place,
    behind: Place,
}

impl Stretch<'_> {
    fn len(&self) -> usize {
        if self.next.run == self.behind.run {
            return self.behind.at - self.next.at;
        }
        let runs = self.sorted.runs();
        let between: usize = runs[self.next.run + 1..self.behind.run].iter().map(Vec::len).sum();
        runs[self.next.run].len() - self.next.at + between + self.behind.at
    }
}

impl Iterator for Stretch<'_> {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        if self.next == self.behind {
            return None;
        }
        let entry = self.sorted.get(self.next)?;
        self.next = self.sorted.after(self.next);
        Some(entry.handle)
    }
}

impl DoubleEndedIterator for Stretch<'_> {
    fn next_back(&mut self) -> Option<Handle> {
        if self.next == self.behind {
            return None;
        }
        self.behind = self.sorted.before(self.behind)?;
        self.sorted.get(self.behind).map(|entry| entry.handle)
    }
}

/// The tokens of one quantity, one after the other. Nearly always there is one, and that has to be quick.
pub(crate) enum Walk<'a> {
    One(Option<Handle>),
    Many(Stretch<'a>, Stretch<'a>),
}

impl Iterator for Walk<'_> {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        match self {
            Walk::One(handle) => handle.take(),
            Walk::Many(first, then) => first.next().or_else(|| then.next()),
        }
    }
}

/// Quantities upwards, each with its entries.
pub(crate) struct Up<'a> {
    sorted: &'a Sorted,
    next: Place,
}

impl<'a> Iterator for Up<'a> {
    type Item = (u64, Equals<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.sorted.get(self.next)?;
        let after = self.sorted.after(self.next);
        let equals = self.sorted.group(entry, self.sorted.get(after));
        self.next = match equals {
            Equals::One(_) => after,
            Equals::Many(..) => self.sorted.above(entry.quantity),
        };
        Some((entry.quantity, equals))
    }
}

/// Quantities downwards, each with its entries.
pub(crate) struct Down<'a> {
    sorted: &'a Sorted,
    behind: Place,
}

impl<'a> Iterator for Down<'a> {
    type Item = (u64, Equals<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let place = self.sorted.before(self.behind)?;
        let entry = self.sorted.get(place)?;
        let neighbour = self.sorted.before(place).and_then(|before| self.sorted.get(before));
        let equals = self.sorted.group(entry, neighbour);
        self.behind = match equals {
            Equals::One(_) => place,
            Equals::Many(..) => self.sorted.place(first_key(entry.quantity)),
        };
        Some((entry.quantity, equals))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{Equals, RUN, Sorted};
    use crate::choose::lane::Handle;
    use crate::random::Random;

    /// Few quantities (long stretches of equals) or many, and the largest there is.
    fn quantity(random: &mut Random, spread: u64) -> u64 {
        match random.below(50) {
            0 => u64::MAX,
            1 => 0,
            _ => random.below(spread),
        }
    }

    fn compare(sorted: &Sorted, model: &BTreeSet<(u64, u64)>, random: &mut Random, spread: u64) {
        let from = quantity(random, spread);
        let grouped = |(quantity, equals): (u64, Equals<'_>)| {
            let handles: Vec<(u64, u64)> = equals.in_order().map(|handle| (quantity, handle.0)).collect();
            assert_eq!(handles.len(), equals.len());
            let mut backwards: Vec<(u64, u64)> =
                equals.in_order().rev().map(|handle| (quantity, handle.0)).collect();
            backwards.reverse();
            assert_eq!(handles, backwards);
            handles
        };
        let up: Vec<(u64, u64)> = sorted.upwards(from).flat_map(grouped).collect();
        assert_eq!(up, model.range((from, 0)..).copied().collect::<Vec<_>>());
        let mut down: Vec<(u64, u64)> =
            sorted.downwards(from).collect::<Vec<_>>().into_iter().rev().flat_map(grouped).collect();
        let expected: Vec<(u64, u64)> = model.range(..=(from, u64::MAX)).copied().collect();
        assert_eq!(down, expected);
        down.dedup_by_key(|(quantity, _)| *quantity);
        assert_eq!(sorted.downwards(from).count(), down.len(), "each quantity once");
        assert_eq!(sorted.first().map(|entry| entry.quantity), model.first().map(|entry| entry.0));
        assert_eq!(sorted.largest(), model.last().map(|entry| entry.0));
        let equals: BTreeSet<(u64, u64)> = model.range((from, 0)..=(from, u64::MAX)).copied().collect();
        let found = sorted.equals(from).map(|equals| {
            let walked: Vec<_> = equals.in_random_order(random).map(|handle| (from, handle.0)).collect();
            assert_eq!(walked.len(), equals.len(), "none twice");
            walked.into_iter().collect::<BTreeSet<_>>()
        });
        assert_eq!(found.unwrap_or_default(), equals);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_same_as_a_plain_set(seed in any::<u64>(), size in 1..6 * RUN, spread in prop_oneof![1..4_u64, 5..100_u64, 1_000..9_000_u64]) {
            let mut random = Random::new(seed);
            let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
            // Grows, then shrinks to nothing, each time with steps back.
            for grow in [true, false] {
                for step in 0..3 * size {
                    if random.below(4) == 0 || (grow != (random.below(5) == 0)) {
                        let (quantity, handle) = (quantity(&mut random, spread), random.below(1 << 40));
                        if model.insert((quantity, handle)) {
                            sorted.insert(quantity, Handle(handle));
                        }
                    } else if let Some(entry) = model.range((random.below(spread), 0)..).next().copied().or_else(|| model.first().copied()) {
                        model.remove(&entry);
                        assert!(sorted.remove(entry.0, Handle(entry.1)));
                        assert!(!sorted.remove(entry.0, Handle(entry.1)), "gone");
                    }
                    if step % 97 == 0 {
                        compare(&sorted, &model, &mut random, spread);
                    }
                }
            }
            while let Some(entry) = model.pop_first() {
                assert!(sorted.remove(entry.0, Handle(entry.1)));
            }
            compare(&sorted, &model, &mut random, spread);
        }
    }

    #[test]
    fn what_comes_in_order_fills_its_runs() {
        let mut sorted = Sorted::default();
        (0..100 * RUN as u64).for_each(|number| sorted.insert(number, Handle(number)));
        assert_eq!(sorted.runs().len(), 100);
        // One of each run is left: no run stands alone for a single entry.
        for number in (0..100 * RUN as u64).filter(|number| number % RUN as u64 != 7) {
            assert!(sorted.remove(number, Handle(number)));
        }
        assert!(sorted.runs().len() <= 100 / (RUN / 8) + 2, "{}", sorted.runs().len());
    }
}
