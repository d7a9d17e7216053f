//! The payment side of a try: inside, where the decision itself moves what pays, or outside, where it is asked.

use super::charge::{Charge, Charger, Means};
use super::hold::ChosenTokens;
use super::run::At;
use super::{Payment, ShopRefusal, Sides, TryKey, Whole};
use crate::effects::Step;
use crate::ids::Millis;
use crate::view::{Payments, ShopSettings};

/// What a try has its charge do.
pub(super) enum Act<'a> {
    /// Reserve what is paid, until this deadline at least.
    Reserve(&'a Means, &'a Payment, Millis),
    /// Settle what was reserved.
    Settle(Whole),
    /// Give back what was reserved.
    GiveBack(Whole),
}

/// The payment side, as the decision of a try meets it.
pub(super) trait PaySide<V>: Copy {
    /// Which sides are outside of a try that begins.
    fn outside(self, view: &V) -> Sides;

    /// How a try that begins is to be charged, if not by credit, and by what. Refused if tokens are to be chosen anew.
    fn means(
        self,
        view: &V,
        at: At,
        payment: &Payment,
        key: &TryKey,
        chosen: Option<&ChosenTokens>,
    ) -> Result<Option<(Means, Charge)>, ShopRefusal>;

    /// Whether the charge could do that.
    fn act(self, charger: &Charger<'_, V>, act: Act<'_>, effects: &mut Step) -> bool;
}

/// A payment side that may be inside: then the decision itself moves what pays.
#[derive(Clone, Copy)]
pub(super) struct Inside;

impl<V: Payments + ShopSettings> PaySide<V> for Inside {
    fn outside(self, view: &V) -> Sides {
        view.outside()
    }

    fn means(
        self,
        view: &V,
        at: At,
        payment: &Payment,
        key: &TryKey,
        chosen: Option<&ChosenTokens>,
    ) -> Result<Option<(Means, Charge)>, ShopRefusal> {
        if view.outside().pay {
            return Ok(None);
        }
        Means::of(&view.charging(), view, at, payment, key, chosen)
    }

    fn act(self, charger: &Charger<'_, V>, act: Act<'_>, effects: &mut Step) -> bool {
        match act {
            Act::Reserve(means, payment, deadline) => charger.prepare(means, payment, deadline, effects),
            Act::Settle(amount) => charger.fulfil(amount, effects),
            Act::GiveBack(amount) => {
                charger.abort(amount, effects);
                true
            }
        }
    }
}
