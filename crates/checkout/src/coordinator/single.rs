//! The coordinator of one try, for a host that keeps each open try in a row of its own. What it knows is the saga in its slot:
//! empty until the first outcome, and empty again when the try is over.
//!
//! The rules are those of [`Coordinator`](super::Coordinator); there is no log to rebuild from, so no `outcome_offset`.

use super::operator::{cancel_one, retry_one};
use super::saga::Saga;
use super::{Effects, Orders, Record, StepEffects, fold};
use crate::ids::{Key, OrderId};
use crate::order::Order;

/// The one order that the try is of.
struct One<'a>(&'a Order);

impl Orders for One<'_> {
    fn order(&self, id: &OrderId) -> Option<&Order> {
        Some(self.0).filter(|order| order.order_id == *id)
    }
}

/// What a step does that sees this order and no other.
fn step(order: &Order, step: impl FnOnce(&mut StepEffects<'_, One<'_>>)) -> Effects {
    let orders = One(order);
    let mut effects = StepEffects::new(&orders);
    step(&mut effects);
    effects.into_effects()
}

/// Folds an outcome of a try of this order, and decides if that makes it complete.
#[must_use]
pub fn handle(slot: &mut Option<Saga>, order: &Order, record: &Record) -> Effects {
    step(order, |effects| fold::fold_one(effects, slot, record, fold::Mode::Live))
}

/// Cancels a try that is not decided, as [`Coordinator::cancel`](super::Coordinator::cancel).
#[must_use]
pub fn cancel(slot: &mut Option<Saga>, order: &Order, key: &Key) -> Effects {
    step(order, |effects| cancel_one(effects, slot.as_mut(), key))
}

/// Gives a try another push, as [`Coordinator::retry`](super::Coordinator::retry).
#[must_use]
pub fn retry(slot: Option<&Saga>, order: &Order, key: &Key) -> Effects {
    step(order, |effects| retry_one(effects, slot, key))
}
