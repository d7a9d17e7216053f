//! The charges of a batch where the payment side and the decision are steps of their own: each sees what those before it
//! have done. What an embedded checkout does within one run, the database profile does with these in the transactions of its steps.

use super::charge::{Charge, Charger, Charging, Means};
use super::hold::ChosenTokens;
use super::{Payment, ShopRefusal, TryKey, Whole};
use crate::effects::{Effects, LimitAlarm, Notification, Step};
use crate::ids::{Millis, TransferNo};
use crate::overlay::Overlay;
use crate::transfers::Transfer;
use crate::view::{Payments, Transfers};

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// This is reserved.
    By(Charge),
    /// It costs nothing, and nothing is reserved.
    Nothing,
    /// It cannot be paid for.
    Refused,
}

/// Charges, one after the other.
pub struct Charges<'v, V> {
    seen: Overlay<'v, V>,
    now: Millis,
    effects: Effects,
    /// Of how many steps others were told.
    told: usize,
}

impl<'v, V: Payments> Charges<'v, V> {
    /// None yet.
    pub fn over(view: &'v V, now: Millis) -> Charges<'v, V> {
        Charges { seen: Overlay::over(view), now, effects: Effects::default(), told: 0 }
    }

    /// Reserves what a try costs. `offset`: where its message lies. What is charged must not be credit.
    ///
    /// # Errors
    /// If tokens are to be chosen anew; then nothing was done.
    ///
    /// # Panics
    /// If credit is charged.
    pub fn reserve(
        &mut self,
        charging: &Charging,
        (key, payment): (&TryKey, &Payment),
        (deadline, offset): (Millis, u64),
        chosen: Option<&ChosenTokens>,
    ) -> Result<Reserved, ShopRefusal> {
        let means = Means::of(charging, &self.seen, (self.now, offset), payment, key, chosen)?;
        let (means, charge) = means.expect("credit is no charge");
        let reserved =
            self.with(charge, offset, |charger, effects| charger.prepare(&means, payment, deadline, effects));
        Ok(match reserved {
            false => Reserved::Refused,
            true if payment.amnt == Whole::ZERO => Reserved::Nothing,
            true => Reserved::By(charge),
        })
    }

    /// Settles what was reserved; `false` if it ran out, or somebody else has ended it.
    pub fn fulfil(&mut self, charge: Charge, amount: Whole) -> bool {
        self.with(charge, 0, |charger, effects| charger.fulfil(amount, effects))
    }

    /// Gives back what is reserved, if it still is.
    pub fn abort(&mut self, charge: Charge, amount: Whole) {
        self.with(charge, 0, |charger, effects| charger.abort(amount, effects));
    }

    fn with<T>(&mut self, charge: Charge, offset: u64, act: impl FnOnce(&Charger<'_>, &mut Step) -> T) -> T {
        let charger = Charger { view: &self.seen, at: (self.now, offset), charge };
        let mut step = Step::default();
        let done = act(&charger, &mut step);
        step.apply_payments(self.now, &mut self.seen);
        step.apply_tokens(&mut self.seen);
        self.effects.steps.push(step);
        done
    }

    /// What participants are to be told since [`Charges::mark_told`], each with the transfer as it stands now.
    pub fn to_tell(&self) -> impl Iterator<Item = (&Notification, &Transfer)> {
        let known = |no: TransferNo| self.seen.transfer_numbered(no).expect("what is told of is there");
        let told = self.untold().iter().flat_map(|step| &step.notifications);
        told.map(move |told| (told, known(told.transfer)))
    }

    /// The limits that were come near to since then.
    pub fn alarms(&self) -> impl Iterator<Item = &LimitAlarm> {
        self.untold().iter().flat_map(|step| &step.alarms)
    }

    fn untold(&self) -> &[Step] {
        &self.effects.steps[self.told..]
    }

    /// All of it was told.
    pub fn mark_told(&mut self) {
        self.told = self.effects.steps.len();
    }

    /// All that they did.
    pub fn into_effects(self) -> Effects {
        self.effects
    }
}
