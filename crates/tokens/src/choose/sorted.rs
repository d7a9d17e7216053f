//! Free tokens by amount and place, in sorted runs.
//!
//! A small wallet is one run, found in one piece of memory. A large one is many runs of at most [`RUN`] entries. A run
//! splits when it is full and joins its neighbour when both are nearly empty.

use super::lane::Handle;

/// Most entries of a run: two kilobytes, of which an insert moves half.
const RUN: usize = 128;
/// Entries in a line of the cache.
const LINE: usize = 4;
/// Keys of runs that a search looks through in two steps.
const STRETCH: usize = 256;

/// A token's place by amount.
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
struct EntryPlace {
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

/// How many of a short row are below a key: one look at each `STRIDE`, then at all of one stride. The looks of a step do not
/// wait for each other, as those of halving would: what is not in a cache comes all at once.
#[inline]
fn below_in_strides<const STRIDE: usize, T>(row: &[T], key: u128, key_of: impl Fn(&T) -> u128) -> usize {
    let strides = row.chunks_exact(STRIDE).map(|part| usize::from(key_of(&part[STRIDE - 1]) < key));
    let first = strides.sum::<usize>() * STRIDE;
    let rest = &row[first..row.len().min(first + STRIDE)];
    first + rest.iter().map(|one| usize::from(key_of(one) < key)).sum::<usize>()
}

/// How many entries of a run are below a key. Every line is looked at: an insert or a remove needs half of them anyway.
fn below(run: &[Entry], key: u128) -> usize {
    below_in_strides::<LINE, _>(run, key, |entry| entry.key())
}

/// Puts the first of `entries` at `at`, and with it those that follow it there: rising, below what comes behind, and as many
/// as there is room for. Returns how many.
fn put_in(run: &mut Vec<Entry>, at: usize, entries: &[Entry], limit: Option<u128>) -> usize {
    if let [entry] = entries {
        run.insert(at, *entry);
        return 1;
    }
    let room = RUN - run.len();
    let limit = run.get(at).map(|entry| entry.key()).or(limit);
    let fits = |entry: &Entry| limit.is_none_or(|limit| entry.key() < limit);
    let rising = entries.windows(2).take_while(|two| two[0].key() < two[1].key() && fits(&two[1])).count();
    let put = (1 + rising).min(room);
    run.splice(at..at, entries[..put].iter().copied());
    put
}

/// Takes the first of `entries` out, and with it those that follow it in both. Returns how many; none if it is not there.
fn take_from(run: &mut Vec<Entry>, entries: &[Entry]) -> usize {
    let at = below(run, entries[0].key());
    let same = run[at..].iter().zip(entries).take_while(|(here, entry)| here == entry).count();
    match same {
        0 => {}
        1 => {
            run.remove(at);
        }
        _ => {
            run.drain(at..at + same);
        }
    }
    same
}

impl Sorted {
    #[inline]
    fn runs(&self) -> &[Vec<Entry>] {
        match self {
            Sorted::Small(run) => std::slice::from_ref(run),
            Sorted::Large(runs) => &runs.runs,
        }
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        self.insert_all(&[entry]);
    }

    /// Puts several in. Neighbours that rise move the others once.
    pub(crate) fn insert_all(&mut self, mut entries: &[Entry]) {
        while !entries.is_empty() {
            let put = match self {
                Sorted::Small(run) if run.len() < RUN => {
                    put_in(run, below(run, entries[0].key()), entries, None)
                }
                Sorted::Small(run) => {
                    let run = std::mem::take(run);
                    *self = Sorted::Large(Runs { from: vec![0], runs: vec![run] });
                    0
                }
                Sorted::Large(runs) => runs.insert(entries),
            };
            entries = &entries[put..];
        }
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, entry: Entry) -> bool {
        self.remove_all(&[entry])
    }

    /// Takes several out. Neighbours that rise go in one step. Stops at one that is not there.
    pub(crate) fn remove_all(&mut self, mut entries: &[Entry]) -> bool {
        while !entries.is_empty() {
            let taken = match self {
                Sorted::Small(run) => take_from(run, entries),
                Sorted::Large(runs) => {
                    let taken = runs.remove(entries);
                    if runs.runs.len() == 1 {
                        *self = Sorted::Small(runs.runs.pop().expect("there is one"));
                    }
                    taken
                }
            };
            if taken == 0 {
                return false;
            }
            entries = &entries[taken..];
        }
        true
    }

    /// The place of the first entry from `key` on.
    fn place(&self, key: u128) -> EntryPlace {
        let run = match self {
            Sorted::Small(_) => 0,
            Sorted::Large(runs) => runs.holding(key),
        };
        let entries = &self.runs()[run];
        let at = below(entries, key);
        if at == entries.len() { EntryPlace { run: run + 1, at: 0 } } else { EntryPlace { run, at } }
    }

    fn end(&self) -> EntryPlace {
        EntryPlace { run: self.runs().len(), at: 0 }
    }

    #[inline]
    fn get(&self, place: EntryPlace) -> Option<Entry> {
        self.runs().get(place.run)?.get(place.at).copied()
    }

    #[inline]
    fn after(&self, place: EntryPlace) -> EntryPlace {
        if place.at + 1 < self.runs()[place.run].len() {
            EntryPlace { at: place.at + 1, ..place }
        } else {
            EntryPlace { run: place.run + 1, at: 0 }
        }
    }

    #[inline]
    fn before(&self, place: EntryPlace) -> Option<EntryPlace> {
        if place.at > 0 {
            return Some(EntryPlace { at: place.at - 1, ..place });
        }
        let run = place.run.checked_sub(1)?;
        Some(EntryPlace { run, at: self.runs()[run].len().checked_sub(1)? })
    }

    fn above(&self, quantity: u64) -> EntryPlace {
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
        // To the right stretch by halves, and then as in a run.
        let (mut first, mut behind) = (0, self.from.len() / STRETCH);
        while first < behind {
            let middle = first.midpoint(behind);
            if self.from[middle * STRETCH + STRETCH - 1] <= key {
                first = middle + 1;
            } else {
                behind = middle;
            }
        }
        let start = first * STRETCH;
        let stretch = &self.from[start..self.from.len().min(start + STRETCH)];
        // The first key above `key`; nothing is above the last there is.
        let above = |key| below_in_strides::<16, _>(stretch, key, |from| *from);
        let above = key.checked_add(1).map_or(stretch.len(), above);
        (start + above).saturating_sub(1)
    }

    /// Puts the first of `entries` in, and those that follow it there. Returns how many; none if room had to be made first.
    fn insert(&mut self, entries: &[Entry]) -> usize {
        let place = self.holding(entries[0].key());
        let limit = self.from.get(place + 1).copied();
        let run = &mut self.runs[place];
        let at = below(run, entries[0].key());
        if run.len() < RUN {
            return put_in(run, at, entries, limit);
        }
        // What comes in rising order fills run after run.
        let rising = place + 1 == self.from.len() && at == run.len();
        let right = if rising { vec![entries[0]] } else { run.split_off(RUN / 2) };
        self.from.insert(place + 1, right[0].key());
        self.runs.insert(place + 1, right);
        usize::from(rising)
    }

    /// Takes the first of `entries` out, and those that follow it in its run. Returns how many; none if it is not there.
    fn remove(&mut self, entries: &[Entry]) -> usize {
        let place = self.holding(entries[0].key());
        let run = &mut self.runs[place];
        let taken = take_from(run, entries);
        if taken > 0 && run.len() < RUN / 8 {
            self.join(place);
            self.join(place.saturating_sub(1));
        }
        taken
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
        let pivot = Handle(first + random.place(last - first + 1));
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
    next: EntryPlace,
    behind: EntryPlace,
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
    next: EntryPlace,
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
    behind: EntryPlace,
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
mod tests;
