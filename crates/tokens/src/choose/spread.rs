//! Choices that look beyond the fewest inputs: many small ones, random ones, and dust taken along.

use super::{Pick, View, sum_of};
use crate::limits::RANDOM_CANDIDATES_MAX;
use crate::random::Random;
use crate::request::DustSweep;

/// As many inputs as allowed, as small as the amount permits: the smallest ones, and as few of the largest as it takes.
/// The caller knows that the `max_inputs` largest cover the amount.
pub(crate) fn many_small(view: &View<'_>, amount: u64, max_inputs: usize) -> Vec<Pick> {
    // One more than allowed shows whether the two ends can overlap. Both walk equals in the same fixed order.
    let small = up(view, max_inputs + 1);
    if small.len() <= max_inputs {
        return small;
    }
    let large = down(view, max_inputs);
    let mut picks = small;
    picks.truncate(max_inputs);
    let mut sum = sum_of(&picks);
    for (from_end, big) in large.iter().enumerate() {
        if sum >= u128::from(amount) {
            break;
        }
        // Puts the next of the largest in the place of the largest of the small ones.
        let place = max_inputs - 1 - from_end;
        sum = sum - u128::from(picks[place].quantity) + u128::from(big.quantity);
        picks[place] = *big;
    }
    picks
}

fn up(view: &View<'_>, count: usize) -> Vec<Pick> {
    let all = view
        .upwards(0)
        .flat_map(|(quantity, equals)| equals.in_order().map(move |handle| Pick { handle, quantity }));
    all.filter(|pick| view.passes(pick.handle)).take(count).collect()
}

fn down(view: &View<'_>, count: usize) -> Vec<Pick> {
    let all = view
        .downwards(u64::MAX)
        .flat_map(|(quantity, equals)| equals.in_order().rev().map(move |handle| Pick { handle, quantity }));
    all.filter(|pick| view.passes(pick.handle)).take(count).collect()
}

/// Random tokens until the amount is covered; what turned out to be needless is left out again. `None` if that takes too
/// many inputs or the drawn ones do not suffice.
pub(crate) fn random_cover(
    view: &View<'_>,
    amount: u64,
    max_inputs: usize,
    random: &mut Random,
) -> Option<Vec<Pick>> {
    let largest = view.lanes.iter().filter_map(|lane| lane.largest()).max()?;
    let from = if view.lanes.iter().map(|lane| lane.free_tokens).sum::<usize>() <= RANDOM_CANDIDATES_MAX {
        0
    } else {
        // A large wallet: a window that begins at a random order of magnitude.
        let digits = 64 - u64::from(largest.leading_zeros());
        let bits = random.below(digits + 1);
        1_u64
            .checked_shl(u32::try_from(bits).unwrap_or(64))
            .map_or(largest, |top| random.below(top))
            .min(largest)
    };
    let walk = view.upwards(from).chain(view.upwards(0).take_while(move |(quantity, _)| *quantity < from));
    let mut drawn = view.gather(walk, RANDOM_CANDIDATES_MAX, random);
    let mut sum = 0_u128;
    let mut taken = 0;
    while sum < u128::from(amount) && taken < drawn.len() {
        let other = taken + random.index(drawn.len() - taken);
        drawn.swap(taken, other);
        sum += u128::from(drawn[taken].quantity);
        taken += 1;
    }
    if sum < u128::from(amount) {
        return None;
    }
    drawn.truncate(taken);
    let mut over = sum - u128::from(amount);
    drawn.retain(|pick| {
        let needless = u128::from(pick.quantity) <= over;
        if needless {
            over -= u128::from(pick.quantity);
        }
        !needless
    });
    (drawn.len() <= max_inputs).then_some(drawn)
}

/// Takes dust along if there is change anyway.
pub(crate) fn sweep(
    view: &View<'_>,
    mut picks: Vec<Pick>,
    amount: u64,
    dust: DustSweep,
    max_inputs: usize,
) -> Vec<Pick> {
    let room = max_inputs.saturating_sub(picks.len()).min(dust.inputs_max);
    if room == 0 || sum_of(&picks) <= u128::from(amount) {
        return picks;
    }
    let chosen: std::collections::BTreeSet<_> = picks.iter().map(|pick| pick.handle).collect();
    let smallest = up(view, room + chosen.len()).into_iter();
    let swept = smallest.filter(|pick| pick.quantity <= dust.quantity_max && !chosen.contains(&pick.handle));
    picks.extend(swept.take(room));
    picks
}
