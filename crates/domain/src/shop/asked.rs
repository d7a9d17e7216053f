//! The shop of the database profile. Both sides of its checkouts are outside for good, asked by topics, so nothing here reads what pays for
//! a try: a database has no such rows in these transactions.

use super::checkout::known_row;
use super::decide::all_or_nothing;
use super::run::Deciding;
use super::{ShopCommand, Why};
use crate::effects::{Effects, Outcome, Step};
use crate::ids::Millis;
use crate::overlay::Overlay;
use crate::view::Shop;

/// Decides commands, each of which sees what those before it have done. The first one's record lies at `offset`.
pub fn decide_asked<'c>(
    view: &impl Shop,
    (now, offset): (Millis, u64),
    commands: impl IntoIterator<Item = &'c ShopCommand>,
) -> Effects {
    let mut effects = Effects::default();
    let (mut seen, mut first) = (Overlay::over(view), 0);
    for (offset, command) in (offset..).zip(commands) {
        let by = Deciding { view: &seen, paying: None, at: (now, offset) };
        let mut step = Step::at(first);
        first += 1;
        let outcome = all_or_nothing(&mut step, |effects| by.decide(command, effects));
        step.outcomes.push(Outcome::of_shop(outcome));
        step.apply_shop(&mut seen);
        effects.steps.push(step);
    }
    effects
}

/// Cancels up to `max` undecided checkouts whose deadline has passed. None of them gives anything back here, so none depends on
/// another.
pub fn cancel_due(view: &impl Shop, (now, offset): (Millis, u64), max: usize) -> Effects {
    let (by, mut step) = (Deciding { view, paying: None, at: (now, offset) }, Step::default());
    for row in view.due_checkouts(now, max) {
        by.end(known_row(view, &row.order), &row, Why::Deadline, &mut step);
    }
    Effects { steps: vec![step] }
}
