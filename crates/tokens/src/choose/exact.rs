//! A bounded search for tokens that come to exactly the amount, so that no change is left.
//!
//! Three looks, cheapest first: two tokens, one found by its missing half; then always the largest that still fits; then
//! a depth-first search over the largest tokens that do not exceed the amount.

use super::{Pick, View};
use crate::limits::PAIR_PROBES;
use crate::random::Random;

/// How long the search may go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) candidates: usize,
    pub(crate) tries: usize,
}

/// Tokens worth exactly `amount`, at least two and at most `max_inputs`, if the search finds them.
pub(crate) fn sum(
    view: &View<'_>,
    amount: u64,
    max_inputs: usize,
    effort: Effort,
    random: &mut Random,
) -> Option<Vec<Pick>> {
    if max_inputs < 2 {
        return None;
    }
    pair(view, amount, random)
        .or_else(|| greedy(view, amount, max_inputs, random))
        .or_else(|| search(view, amount, max_inputs, effort, random))
}

fn pair(view: &View<'_>, amount: u64, random: &mut Random) -> Option<Vec<Pick>> {
    let larger_half = amount - amount / 2;
    for (quantity, equals) in view.downwards(amount).take(PAIR_PROBES) {
        if quantity < larger_half || quantity == amount {
            continue;
        }
        let rest = amount - quantity;
        let Some(handle) = equals.in_random_order(random).find(|handle| view.passes(*handle)) else {
            continue;
        };
        let other = if rest == quantity {
            let mut twins = view.lanes.iter().filter_map(|lane| lane.equals(rest));
            twins
                .find_map(|twins| twins.in_order().find(|twin| *twin != handle && view.passes(*twin)))
                .map(|handle| Pick { handle, quantity })
        } else {
            view.one_of(rest, random)
        };
        if let Some(other) = other {
            return Some(vec![Pick { handle, quantity }, other]);
        }
    }
    None
}

fn greedy(view: &View<'_>, amount: u64, max_inputs: usize, random: &mut Random) -> Option<Vec<Pick>> {
    let mut picks = Vec::new();
    let mut missing = amount;
    let mut below = amount;
    while missing > 0 && picks.len() < max_inputs {
        let mut largest = view.lanes.iter().filter_map(|lane| lane.downwards(below.min(missing)).next());
        let (quantity, only) = match view.lanes {
            [_] => largest.next().map(|(quantity, equals)| (quantity, Some(equals)))?,
            _ => (largest.max_by_key(|(quantity, _)| *quantity)?.0, None),
        };
        let lanes = if only.is_some() { &[][..] } else { view.lanes };
        for equals in only.into_iter().chain(lanes.iter().filter_map(|lane| lane.equals(quantity))) {
            for handle in equals.in_random_order(random).filter(|handle| view.passes(*handle)) {
                if quantity > missing || picks.len() == max_inputs {
                    break;
                }
                missing -= quantity;
                picks.push(Pick { handle, quantity });
            }
        }
        if view.over_budget() {
            return None;
        }
        below = quantity.checked_sub(1).filter(|below| *below > 0)?;
        if missing == 0 {
            break;
        }
    }
    (missing == 0).then_some(picks)
}

fn search(
    view: &View<'_>,
    amount: u64,
    max_inputs: usize,
    effort: Effort,
    random: &mut Random,
) -> Option<Vec<Pick>> {
    let candidates = view.gather(view.downwards(amount), effort.candidates, random);
    let mut rest_sums = vec![0_u64; candidates.len() + 1];
    for place in (0..candidates.len()).rev() {
        rest_sums[place] = rest_sums[place + 1].saturating_add(candidates[place].quantity);
    }
    let mut search =
        Search { candidates: &candidates, rest_sums: &rest_sums, chosen: Vec::new(), tries: effort.tries };
    if search.go(0, amount, max_inputs) {
        return Some(search.chosen.iter().map(|place| candidates[*place]).collect());
    }
    None
}

struct Search<'a> {
    candidates: &'a [Pick],
    /// What the candidates from each place on come to; the largest number there is stands for all above.
    rest_sums: &'a [u64],
    chosen: Vec<usize>,
    tries: usize,
}

impl Search<'_> {
    /// Depth is bounded by the number of candidates.
    fn go(&mut self, from: usize, missing: u64, inputs: usize) -> bool {
        if missing == 0 {
            return true;
        }
        if inputs == 0 {
            return false;
        }
        let mut place = from;
        while place < self.candidates.len() && self.rest_sums[place] >= missing {
            if self.tries == 0 {
                return false;
            }
            self.tries -= 1;
            let quantity = self.candidates[place].quantity;
            // The candidates fall: if even the largest left, taken each time, does not reach, none will.
            if quantity.saturating_mul(u64::try_from(inputs).unwrap_or(u64::MAX)) < missing {
                return false;
            }
            if quantity <= missing {
                self.chosen.push(place);
                if self.go(place + 1, missing - quantity, inputs - 1) {
                    return true;
                }
                self.chosen.pop();
            }
            // An equal token in the same place would lead to the same sums.
            place += 1;
            while place < self.candidates.len() && self.candidates[place].quantity == quantity {
                place += 1;
            }
        }
        false
    }
}
