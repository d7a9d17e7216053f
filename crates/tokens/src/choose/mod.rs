//! Choosing: which free tokens cover an amount. Pure; it reads lanes and returns picks.
//!
//! Each request costs a bounded number of steps (see [`crate::limits`]); only a filter by attributes or predicate has to
//! look at tokens one by one, and that has its own bound.

pub(crate) mod exact;
pub(crate) mod fewest;
pub(crate) mod lane;
pub(crate) mod sorted;
pub(crate) mod spread;

use std::cell::Cell;

use crate::limits::{
    CONSOLIDATE_INPUTS_DEFAULT, EXACT_CANDIDATES, EXACT_CANDIDATES_NO_CHANGE, EXACT_INPUTS_MAX, EXACT_TRIES,
    EXACT_TRIES_NO_CHANGE, SCAN_TOKENS_MAX,
};
use crate::random::Random;
use crate::request::{DustSweep, Policy};
use crate::token::Token;
use lane::{Handle, Lane, Merged};
use sorted::Equals;

/// The search that the default policy affords, and that of `no-change`.
const SHORT: exact::Effort = exact::Effort { candidates: EXACT_CANDIDATES, tries: EXACT_TRIES };
const NO_CHANGE: exact::Effort =
    exact::Effort { candidates: EXACT_CANDIDATES_NO_CHANGE, tries: EXACT_TRIES_NO_CHANGE };

/// A chosen token, as it lies in its lane.
pub(crate) type Pick = sorted::Entry;

/// Finds the token behind a handle, for filters.
pub(crate) trait Shelf {
    fn token(&self, handle: Handle) -> &Token;
}

/// What is asked of the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) amount: u64,
    pub(crate) policy: Policy,
    /// As the request says.
    pub(crate) max_inputs: Option<usize>,
    /// What holds if it says nothing.
    pub(crate) inputs_default: usize,
    pub(crate) allow_shortfall: bool,
    pub(crate) sweep: Option<DustSweep>,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Found(Vec<Pick>),
    /// The free tokens do not suffice.
    Short,
    NoExact,
    TooMany {
        max_inputs: usize,
        best_sum: u128,
    },
}

/// The free tokens that a request may take, all under one notary.
pub(crate) struct View<'a> {
    pub(crate) lanes: &'a [&'a Lane],
    pub(crate) shelf: &'a dyn Shelf,
    pub(crate) test: Option<&'a dyn Fn(&Token) -> bool>,
    looked_at: Cell<usize>,
}

impl<'a> View<'a> {
    pub(crate) fn new(
        lanes: &'a [&'a Lane],
        shelf: &'a dyn Shelf,
        test: Option<&'a dyn Fn(&Token) -> bool>,
    ) -> Self {
        View { lanes, shelf, test, looked_at: Cell::new(0) }
    }

    /// Tokens the filter had to look at; beyond [`SCAN_TOKENS_MAX`] nothing passes any more.
    pub(crate) fn looked_at(&self) -> usize {
        self.looked_at.get()
    }

    pub(crate) fn over_budget(&self) -> bool {
        self.looked_at.get() > SCAN_TOKENS_MAX
    }

    fn passes(&self, handle: Handle) -> bool {
        let Some(test) = self.test else { return true };
        self.looked_at.set(self.looked_at.get() + 1);
        !self.over_budget() && test(self.shelf.token(handle))
    }

    fn downwards(&self, from: u64) -> impl Iterator<Item = (u64, Equals<'a>)> + use<'a> {
        Merged::new(self.lanes.iter().map(move |lane| lane.downwards(from)), true)
    }

    fn upwards(&self, from: u64) -> impl Iterator<Item = (u64, Equals<'a>)> + use<'a> {
        Merged::new(self.lanes.iter().map(move |lane| lane.upwards(from)), false)
    }

    /// The first `most` tokens of a walk that pass, equals in random order.
    fn gather(
        &self,
        walk: impl Iterator<Item = (u64, Equals<'a>)>,
        most: usize,
        random: &mut Random,
    ) -> Vec<Pick> {
        let mut picks = Vec::with_capacity(most.min(EXACT_CANDIDATES_NO_CHANGE));
        for (quantity, equals) in walk {
            for handle in equals.in_random_order(random).filter(|handle| self.passes(*handle)) {
                if picks.len() == most {
                    return picks;
                }
                picks.push(Pick { handle, quantity });
            }
        }
        picks
    }

    /// A random token of exactly that quantity.
    fn one_of(&self, quantity: u64, random: &mut Random) -> Option<Pick> {
        let start = if self.lanes.len() > 1 { random.index(self.lanes.len()) } else { 0 };
        let (later, first) = self.lanes.split_at(start);
        first
            .iter()
            .chain(later)
            .filter_map(|lane| lane.equals(quantity))
            .find_map(|equals| equals.in_random_order(random).find(|handle| self.passes(*handle)))
            .map(|handle| Pick { handle, quantity })
    }

    /// The smallest token of at least that quantity, a random one among equals.
    fn at_least(&self, quantity: u64, random: &mut Random) -> Option<Pick> {
        let smallest = |lane: &&'a Lane, random: &mut Random| {
            lane.upwards(quantity).find_map(|(quantity, equals)| {
                let handle = equals.in_random_order(random).find(|handle| self.passes(*handle))?;
                Some(Pick { handle, quantity })
            })
        };
        let found = self.lanes.iter().filter_map(|lane| smallest(lane, random));
        found.min_by_key(|pick| pick.quantity)
    }

    /// What the free tokens are worth, as far as they pass.
    pub(crate) fn free_sum(&self) -> u128 {
        if self.test.is_none() {
            return self.lanes.iter().map(|lane| lane.free_sum).sum();
        }
        self.downwards(u64::MAX)
            .map(|(quantity, equals)| {
                let passing = equals.in_order().filter(|handle| self.passes(*handle)).count();
                u128::from(quantity) * u128::try_from(passing).expect("a usize fits")
            })
            .sum()
    }

    /// The largest free token that passes.
    pub(crate) fn largest(&self) -> Option<u64> {
        if self.test.is_none() {
            return self.lanes.iter().filter_map(|lane| lane.largest()).max();
        }
        let mut all = self.downwards(u64::MAX);
        all.find(|(_, equals)| equals.in_order().any(|handle| self.passes(handle)))
            .map(|(quantity, _)| quantity)
    }
}

pub(crate) fn sum_of(picks: &[Pick]) -> u128 {
    picks.iter().map(|pick| u128::from(pick.quantity)).sum()
}

/// Chooses among tokens of one notary.
pub(crate) fn choose(view: &View<'_>, want: &Want, random: &mut Random) -> Choice {
    let max_inputs = want.max_inputs.unwrap_or_else(|| match want.policy {
        Policy::Consolidate => CONSOLIDATE_INPUTS_DEFAULT.min(want.inputs_default),
        _ => want.inputs_default,
    });
    let amount = want.amount;
    let exact_first = matches!(want.policy, Policy::FewestInputs | Policy::NoChange);
    if exact_first && let Some(pick) = view.one_of(amount, random) {
        return Choice::Found(vec![pick]);
    }
    let cover = match want.policy {
        Policy::Random => spread::random_cover(view, amount, max_inputs, random),
        _ => None,
    };
    let cover = match cover {
        Some(picks) => Choice::Found(picks),
        None => fewest::cover(view, amount, max_inputs, random),
    };
    let choice = match (want.policy, cover) {
        (Policy::NoChange, Choice::Found(_) | Choice::TooMany { .. }) => {
            match exact::sum(view, amount, max_inputs, NO_CHANGE, random) {
                Some(picks) => Choice::Found(picks),
                None => Choice::NoExact,
            }
        }
        (Policy::FewestInputs, Choice::Found(picks)) if sum_of(&picks) != u128::from(amount) => {
            let most = max_inputs.min(picks.len().max(EXACT_INPUTS_MAX));
            Choice::Found(exact::sum(view, amount, most, SHORT, random).unwrap_or(picks))
        }
        (Policy::Consolidate, Choice::Found(_)) => {
            Choice::Found(spread::many_small(view, amount, max_inputs))
        }
        (_, Choice::Short | Choice::TooMany { .. }) if want.allow_shortfall => {
            let picks = view.gather(view.downwards(u64::MAX), max_inputs, random);
            if picks.is_empty() { Choice::Short } else { Choice::Found(picks) }
        }
        (_, choice) => choice,
    };
    match (choice, want.sweep) {
        (Choice::Found(picks), Some(dust)) => {
            Choice::Found(spread::sweep(view, picks, amount, dust, max_inputs))
        }
        (choice, _) => choice,
    }
}
