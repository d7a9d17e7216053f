//! What covers a message of the payment side where that is not the user's credit: a reservation that is made or given back.

use std::collections::BTreeSet;

use holdfast_checkout::participant::{Branch, Forward, Ledger, Pay, Side};
use holdfast_domain::ids::TransferId;
use holdfast_domain::shop::{
    self, AskedStep, Charges, Charging, ChosenTokens, Payment, Reserved, TryKey, UserId, Whole,
};

use super::super::charges::Charged;
use super::payments::{Payments, Waiting};
use super::{Pledge, Pledges};
use crate::loaded::Loaded;

/// What a message may take, or what it gives back to.
pub(super) enum Cover {
    /// The user's credit, as the ledger has it.
    Credit,
    /// So much stands for it elsewhere; `None`: nobody pays.
    Elsewhere(UserId, Option<Whole>),
}

/// One message of the batch, with all that it may charge.
pub(super) struct Covering<'p, 'v> {
    pub(super) payments: &'p Payments,
    pub(super) pledges: &'p Pledges,
    pub(super) named: &'p BTreeSet<TransferId>,
    pub(super) new: &'p mut Charged,
    pub(super) charges: &'p mut Charges<'v, Loaded>,
}

impl Covering<'_, '_> {
    /// Reserves for a message, or gives back, where that is not a matter of credit; `None`: its tokens must be chosen anew.
    pub(super) fn cover(
        &mut self,
        ledger: &Ledger<Pay>,
        offset: u64,
        message: &shop::Message,
    ) -> Option<Cover> {
        let key = &message.key;
        match (Pay::step(&message.body), ledger.branches.get(key)) {
            (Some(AskedStep::Forward(payment)), None) if !self.payments.charging.is_credit() => {
                let paid = self.reserve(offset, key, payment)?;
                let cover = match paid {
                    Reserved::By(charge) => {
                        self.new.insert(key.clone(), (charge, payment.amnt));
                        Some(payment.amnt)
                    }
                    Reserved::Nothing => Some(payment.amnt),
                    Reserved::Refused => None,
                };
                Some(Cover::Elsewhere(payment.user_id.clone(), cover))
            }
            (Some(AskedStep::Rollback(_)), Some(Branch::Done(Forward::Taken(taken)))) => {
                let charged = self.new.get(key).or_else(|| self.payments.charged.get(key)).copied();
                if let Some((charge, amount)) = charged {
                    self.charges.abort(charge, amount);
                }
                // What cost nothing has nobody to be given back to.
                let elsewhere = charged.is_some() || taken.amnt == Whole::ZERO;
                let none = || Cover::Elsewhere(taken.user_id.clone(), Some(Whole::ZERO));
                Some(if elsewhere { none() } else { Cover::Credit })
            }
            _ => Some(Cover::Credit),
        }
    }

    fn reserve(&mut self, offset: u64, key: &TryKey, payment: &Payment) -> Option<Reserved> {
        // Whoever was cancelled meanwhile is told to give back next: nothing has to be taken before.
        let Some(Waiting { deadline, .. }) = self.payments.waiting.get(key) else {
            return Some(Reserved::Refused);
        };
        let mut chosen = None;
        if self.payments.charging.is_paid_by_itself(payment) {
            return Some(Reserved::Refused);
        }
        if let Charging::Tokens(by) = &self.payments.charging
            && by.quantity(payment.amnt).is_some_and(|amount| amount > 0)
        {
            let number = by.spender(key);
            match self.pledges.get(&number)? {
                Pledge::Want => return Some(Reserved::Refused),
                Pledge::Tokens(ids) => {
                    self.named.get(&number)?;
                    chosen = Some(ChosenTokens::new(number, ids.clone()));
                }
            }
        }
        let at = (*deadline, offset);
        self.charges.reserve(&self.payments.charging, (key, payment), at, chosen.as_ref()).ok()
    }
}

/// The participant's own rules, over what covers the message. Credit that was loaded stays as it is if it does not.
pub(super) fn covered(
    ledger: &mut Ledger<Pay>,
    cover: Cover,
    message: &shop::Message,
) -> (Option<shop::Message>, Vec<shop::Alarm>) {
    let Cover::Elsewhere(user, amount) = cover else { return ledger.take(message) };
    let credit = match amount {
        Some(amount) => ledger.balances.insert(user.clone(), amount),
        None => ledger.balances.remove(&user),
    };
    let did = ledger.take(message);
    match credit {
        Some(credit) => drop(ledger.balances.insert(user, credit)),
        None => drop(ledger.balances.remove(&user)),
    }
    did
}
