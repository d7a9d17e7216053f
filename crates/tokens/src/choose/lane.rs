//! A lane: the free tokens of one owner under one notary and one issuer, ordered by amount.

use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::iter::Peekable;
use std::ops::Bound;

use crate::random::Random;
use crate::token::Name;

/// Where a token lies: its stripe and its slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    pub(crate) fn new(stripe: u32, slot: u32) -> Self {
        Handle(u64::from(stripe) << 32 | u64::from(slot))
    }

    pub(crate) fn stripe(self) -> u32 {
        u32::try_from(self.0 >> 32).expect("32 bits are left")
    }

    pub(crate) fn slot(self) -> u32 {
        u32::try_from(self.0 & u64::from(u32::MAX)).expect("32 bits are left")
    }
}

/// The free tokens of one amount.
#[derive(Debug)]
#[allow(clippy::box_collection, reason = "most amounts occur once: a third less for each of them")]
pub(crate) enum Equals {
    One(Handle),
    Many(Box<BTreeSet<Handle>>),
}

impl Equals {
    pub(crate) fn len(&self) -> usize {
        match self {
            Equals::One(_) => 1,
            Equals::Many(set) => set.len(),
        }
    }

    /// All of them, beginning at a random one.
    pub(crate) fn in_random_order(&self, random: &mut Random) -> Walk<'_> {
        match self {
            Equals::One(handle) => Walk::One(Some(*handle)),
            Equals::Many(set) => {
                let first = set.first().map_or(0, |handle| handle.0);
                let last = set.last().map_or(0, |handle| handle.0);
                let pivot = Handle(first + random.below(last - first + 1));
                Walk::Many(set.range(pivot..), set.range(..pivot))
            }
        }
    }

    /// All of them, in one fixed order.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = Handle> + '_ {
        let (one, many) = match self {
            Equals::One(handle) => (Some(*handle), None),
            Equals::Many(set) => (None, Some(set.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// The tokens of one amount, one after the other. Nearly always there is one, and that has to be quick.
pub(crate) enum Walk<'a> {
    One(Option<Handle>),
    Many(btree_set::Range<'a, Handle>, btree_set::Range<'a, Handle>),
}

impl Iterator for Walk<'_> {
    type Item = Handle;

    fn next(&mut self) -> Option<Handle> {
        match self {
            Walk::One(handle) => handle.take(),
            Walk::Many(first, then) => first.next().or_else(|| then.next()).copied(),
        }
    }
}

/// Free tokens by amount, and the sums of free and locked ones.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) notary: Option<Name>,
    pub(crate) issuer: Option<Name>,
    free: BTreeMap<u64, Equals>,
    pub(crate) free_sum: u128,
    pub(crate) locked_sum: u128,
    pub(crate) free_tokens: usize,
    pub(crate) locked_tokens: usize,
}

impl Lane {
    pub(crate) fn new(notary: Option<Name>, issuer: Option<Name>) -> Self {
        Lane { notary, issuer, ..Lane::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free_tokens == 0 && self.locked_tokens == 0
    }

    /// A free token comes in.
    pub(crate) fn add_free(&mut self, quantity: u64, handle: Handle) {
        match self.free.entry(quantity) {
            btree_map::Entry::Vacant(place) => {
                place.insert(Equals::One(handle));
            }
            btree_map::Entry::Occupied(mut place) => match place.get_mut() {
                Equals::One(other) => {
                    let both = BTreeSet::from([*other, handle]);
                    place.insert(Equals::Many(Box::new(both)));
                }
                Equals::Many(set) => {
                    set.insert(handle);
                }
            },
        }
        self.free_sum += u128::from(quantity);
        self.free_tokens += 1;
    }

    /// A free token goes.
    pub(crate) fn remove_free(&mut self, quantity: u64, handle: Handle) {
        let btree_map::Entry::Occupied(mut place) = self.free.entry(quantity) else {
            panic!("a free token of {quantity} is not in its lane");
        };
        let last = match place.get_mut() {
            Equals::One(found) => {
                assert_eq!(*found, handle, "another token of {quantity} is in the lane");
                true
            }
            Equals::Many(set) => {
                assert!(set.remove(&handle), "a free token of {quantity} is not in its lane");
                set.is_empty()
            }
        };
        if last {
            place.remove();
        }
        self.free_sum -= u128::from(quantity);
        self.free_tokens -= 1;
    }

    /// A free token gets locked.
    pub(crate) fn lock(&mut self, quantity: u64, handle: Handle) {
        self.remove_free(quantity, handle);
        self.locked_sum += u128::from(quantity);
        self.locked_tokens += 1;
    }

    /// A locked token goes.
    pub(crate) fn remove_locked(&mut self, quantity: u64) {
        self.locked_sum -= u128::from(quantity);
        self.locked_tokens -= 1;
    }

    /// A locked token gets free.
    pub(crate) fn unlock(&mut self, quantity: u64, handle: Handle) {
        self.remove_locked(quantity);
        self.add_free(quantity, handle);
    }

    pub(crate) fn equals(&self, quantity: u64) -> Option<&Equals> {
        self.free.get(&quantity)
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.free.last_key_value().map(|(quantity, _)| *quantity)
    }

    pub(crate) fn smallest(&self) -> Option<u64> {
        self.free.first_key_value().map(|(quantity, _)| *quantity)
    }

    /// Amounts from `from` upwards.
    pub(crate) fn upwards(&self, from: u64) -> btree_map::Range<'_, u64, Equals> {
        self.free.range(from..)
    }

    /// Amounts from `from` downwards (the range is to be read from its back).
    pub(crate) fn up_to(&self, from: u64) -> btree_map::Range<'_, u64, Equals> {
        self.free.range((Bound::Unbounded, Bound::Included(from)))
    }
}

/// Several lanes read as one, by amount.
pub(crate) struct Merged<I: Iterator> {
    parts: Vec<Peekable<I>>,
    downwards: bool,
}

impl<'a, I: Iterator<Item = (&'a u64, &'a Equals)>> Merged<I> {
    pub(crate) fn new(parts: impl Iterator<Item = I>, downwards: bool) -> Self {
        Merged { parts: parts.map(Iterator::peekable).collect(), downwards }
    }
}

impl<'a, I: Iterator<Item = (&'a u64, &'a Equals)>> Iterator for Merged<I> {
    type Item = (u64, &'a Equals);

    fn next(&mut self) -> Option<Self::Item> {
        let downwards = self.downwards;
        if let [only] = self.parts.as_mut_slice() {
            return only.next().map(|(quantity, equals)| (*quantity, equals));
        }
        let heads = self.parts.iter_mut().enumerate();
        let heads = heads.filter_map(|(part, rest)| rest.peek().map(|(quantity, _)| (**quantity, part)));
        let (_, part) =
            if downwards { heads.max_by_key(|head| head.0) } else { heads.min_by_key(|head| head.0) }?;
        self.parts[part].next().map(|(quantity, equals)| (*quantity, equals))
    }
}
