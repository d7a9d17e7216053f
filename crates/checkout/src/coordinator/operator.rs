//! What does not come from the log: a deadline or an operator who cancels, an operator who retries. All of them name
//! the try that they saw, and go through the same compare-and-set as everyone else: if the order has moved
//! on, nothing happens.

use super::saga::{Saga, Stage};
use super::{Coordinator, Effects, Orders, Standing, StepEffects};
use crate::ids::Key;
use crate::order::{Checkout, Undo};

impl Coordinator {
    /// Cancels a try that is not decided: `trfail`, then `can` and `add` to each side that has not failed.
    #[must_use]
    pub fn cancel(&mut self, orders: &impl Orders, key: &Key) -> Effects {
        let mut effects = StepEffects::new(orders);
        cancel_one(&mut effects, self.open.get_mut(key), key);
        self.close(effects)
    }

    /// Gives a try another push: what was sent and not answered is sent again, and what failed is checked out
    /// anew. Nothing is taken or given back twice by it, since a participant answers a repeat from its rows.
    #[must_use]
    pub fn retry(&mut self, orders: &impl Orders, key: &Key) -> Effects {
        let mut effects = StepEffects::new(orders);
        retry_one(&mut effects, self.open.get(key), key);
        self.close(effects)
    }
}

pub(super) fn cancel_one<O: Orders>(effects: &mut StepEffects<'_, O>, saga: Option<&mut Saga>, key: &Key) {
    let undo = saga.as_ref().map_or(Undo::BOTH, |saga| saga.undo());
    if let Some(moved) = effects.order(&key.order_id).and_then(|order| order.fail(key.tr_num, undo)) {
        effects.make(moved);
        if let Some(saga) = saga {
            saga.stage = Stage::Cancelling { undo, announced: false };
        }
    }
}

pub(super) fn retry_one<O: Orders>(effects: &mut StepEffects<'_, O>, saga: Option<&Saga>, key: &Key) {
    let Some(order) = effects.order(&key.order_id).cloned() else { return };
    let tr = key.tr_num;
    match Standing::of(&order, tr) {
        Standing::Pending => {
            let silent = saga.map_or(Undo::BOTH, |saga| Undo {
                can: saga.pay.outcome.is_none(),
                add: saga.stock.outcome.is_none(),
            });
            effects.sent.extend(order.asked(tr, silent));
        }
        Standing::Cancelling => {
            let owed = saga.map_or(Undo::BOTH, |saga| match saga.stage {
                Stage::Gathering | Stage::Paid => saga.undo(),
                Stage::Cancelling { .. } => saga.owed(),
            });
            effects.sent.extend(order.undoing(tr, owed));
        }
        Standing::Over if order.state.tr_num() == Some(tr) => match order.checkout() {
            Checkout::Started(moved) => effects.make(moved),
            Checkout::AlreadyPaid | Checkout::Joins(_) | Checkout::TriesUsedUp => {}
        },
        Standing::Over | Standing::Paid | Standing::NeverStarted => {}
    }
}
