//! A lane: the free tokens of one owner under one notary and one issuer, ordered by amount.

use std::iter::Peekable;

use super::sorted::{Down, Entry, Equals, Sorted, Up};
use super::sum_of;
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

/// Free tokens by amount, and the sums of free and locked ones. Two lines of the cache, not parts of three.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) notary: Option<Name>,
    pub(crate) issuer: Option<Name>,
    free: Sorted,
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
        self.free.insert(Entry { quantity, handle });
        self.free_sum += u128::from(quantity);
        self.free_tokens += 1;
    }

    /// A free token goes.
    pub(crate) fn remove_free(&mut self, quantity: u64, handle: Handle) {
        assert!(
            self.free.remove(Entry { quantity, handle }),
            "a free token of {quantity} is not in its lane"
        );
        self.free_sum -= u128::from(quantity);
        self.free_tokens -= 1;
    }

    /// A free token gets locked.
    pub(crate) fn lock(&mut self, quantity: u64, handle: Handle) {
        self.lock_all(&[Entry { quantity, handle }]);
    }

    /// Free tokens get locked.
    pub(crate) fn lock_all(&mut self, tokens: &[Entry]) {
        assert!(self.free.remove_all(tokens), "a free token is not in its lane: {tokens:?}");
        let sum = sum_of(tokens);
        self.free_sum -= sum;
        self.free_tokens -= tokens.len();
        self.locked_sum += sum;
        self.locked_tokens += tokens.len();
    }

    /// A locked token goes.
    pub(crate) fn remove_locked(&mut self, quantity: u64) {
        self.locked_sum -= u128::from(quantity);
        self.locked_tokens -= 1;
    }

    /// A locked token gets free.
    pub(crate) fn unlock(&mut self, quantity: u64, handle: Handle) {
        self.unlock_all(&[Entry { quantity, handle }]);
    }

    /// Locked tokens get free.
    pub(crate) fn unlock_all(&mut self, tokens: &[Entry]) {
        self.free.insert_all(tokens);
        let sum = sum_of(tokens);
        self.locked_sum -= sum;
        self.locked_tokens -= tokens.len();
        self.free_sum += sum;
        self.free_tokens += tokens.len();
    }

    pub(crate) fn equals(&self, quantity: u64) -> Option<Equals<'_>> {
        self.free.equals(quantity)
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.free.largest()
    }

    pub(crate) fn smallest(&self) -> Option<u64> {
        self.free.first().map(|entry| entry.quantity)
    }

    /// Amounts from `from` upwards.
    pub(crate) fn upwards(&self, from: u64) -> Up<'_> {
        self.free.upwards(from)
    }

    /// Amounts from `from` downwards.
    pub(crate) fn downwards(&self, from: u64) -> Down<'_> {
        self.free.downwards(from)
    }
}

/// Several lanes read as one, by amount. Nearly always it is one.
pub(crate) enum Merged<I: Iterator> {
    One(I),
    Many { parts: Vec<Peekable<I>>, downwards: bool },
}

impl<'a, I: Iterator<Item = (u64, Equals<'a>)>> Merged<I> {
    pub(crate) fn new(mut parts: impl ExactSizeIterator<Item = I>, downwards: bool) -> Self {
        if parts.len() == 1
            && let Some(one) = parts.next()
        {
            return Merged::One(one);
        }
        Merged::Many { parts: parts.map(Iterator::peekable).collect(), downwards }
    }
}

impl<'a, I: Iterator<Item = (u64, Equals<'a>)>> Iterator for Merged<I> {
    type Item = (u64, Equals<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (parts, downwards) = match self {
            Merged::One(only) => return only.next(),
            Merged::Many { parts, downwards } => (parts, *downwards),
        };
        let heads = parts.iter_mut().enumerate();
        let heads = heads.filter_map(|(part, rest)| rest.peek().map(|(quantity, _)| (*quantity, part)));
        let (_, part) =
            if downwards { heads.max_by_key(|head| head.0) } else { heads.min_by_key(|head| head.0) }?;
        parts[part].next()
    }
}
