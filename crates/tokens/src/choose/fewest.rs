//! The fewest inputs that cover an amount: the largest first, then the last one as small as it may be.

use super::{Choice, Pick, View, sum_of};
use crate::random::Random;

/// The largest tokens until the amount is covered, at most `max_inputs`. No smaller set of inputs covers it.
pub(crate) fn cover(view: &View<'_>, amount: u64, max_inputs: usize, random: &mut Random) -> Choice {
    if let Some(pick) = view.at_least(amount, random) {
        return Choice::Found(vec![pick]);
    }
    // Every token is smaller than the amount.
    if view.test.is_none() && view.free_sum() < u128::from(amount) {
        return Choice::Short;
    }
    let mut picks: Vec<Pick> = Vec::new();
    let mut missing = amount;
    'values: for (quantity, equals) in view.downwards(amount) {
        for handle in equals.in_random_order(random).filter(|handle| view.passes(*handle)) {
            if picks.len() == max_inputs {
                break 'values;
            }
            picks.push(Pick { handle, quantity });
            if quantity >= missing {
                replace_last(view, &mut picks, missing, random);
                return Choice::Found(picks);
            }
            missing -= quantity;
        }
    }
    if view.test.is_some() && view.free_sum() < u128::from(amount) {
        return Choice::Short;
    }
    Choice::TooMany { max_inputs, best_sum: sum_of(&picks) }
}

/// Takes for the last pick the smallest token that still fits. A strictly smaller one cannot be among the picks: all of
/// them are at least as large as the last.
fn replace_last(view: &View<'_>, picks: &mut [Pick], missing: u64, random: &mut Random) {
    let Some(last) = picks.last_mut() else { return };
    if let Some(smaller) = view.at_least(missing, random)
        && smaller.quantity < last.quantity
    {
        *last = smaller;
    }
}
