//! Whoever decides a try settles first what the payment side has reserved for it, in the same transaction. What ran out or was
//! ended meanwhile cannot be settled: then the try fails though both sides have taken.

use std::collections::BTreeSet;

use holdfast_checkout::Coordinator;
use holdfast_checkout::coordinator::Record;
use holdfast_domain::shop::{Answer, Body, Charges, OrderState, Side, SideSaid, TryKey, Verdict};

use super::charges::{self, Charged, tell};
use super::rows::ShopRows;
use crate::Error;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::outbox::Outbox;

/// The tries of a batch that may come to be paid by it: those that wait, and of which a side says that it has taken, or
/// somebody that they are decided.
pub(super) fn candidates<'m>(
    rows: &ShopRows,
    coordinator: &Coordinator,
    said: impl IntoIterator<Item = (&'m TryKey, &'m Body)>,
) -> BTreeSet<TryKey> {
    let (mut paid, mut stocked) = (BTreeSet::new(), BTreeSet::new());
    let mut both = BTreeSet::new();
    for (key, body) in said {
        let waits = rows.order_row(&key.order_id);
        if waits.is_none_or(|row| row.order.state != OrderState::Pending(key.tr_num)) {
            continue;
        }
        let saga = coordinator.saga(key);
        let remembers = |side| rows.said(key, side) == Some(SideSaid::Taken);
        match body {
            Body::Paid(Answer::Taken(_))
                if saga.is_some_and(|saga| saga.stock.taken().is_some()) || remembers(Side::Stock) =>
            {
                both.insert(key);
            }
            Body::Stocked(Answer::Taken(_))
                if saga.is_some_and(|saga| saga.pay.taken().is_some()) || remembers(Side::Pay) =>
            {
                both.insert(key);
            }
            Body::Paid(Answer::Taken(_)) => drop(paid.insert(key)),
            Body::Stocked(Answer::Taken(_)) => drop(stocked.insert(key)),
            Body::Decided(Verdict::Succeeded) => drop(both.insert(key)),
            Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) | Body::Pay(_) | Body::Stock(_) => {}
        }
    }
    both.extend(paid.intersection(&stocked));
    both.into_iter().cloned().collect()
}

impl Loader<'_, '_> {
    /// Locks what is reserved for these tries, with the accounts of those who are paid.
    pub(super) fn lock_reserved(&mut self, keys: &BTreeSet<TryKey>) -> Result<Charged, Error> {
        let charged = charges::load(self.tx, self.statements, keys)?;
        let all = charged.values().map(|(charge, _)| *charge);
        self.lock_charges(all, [], BTreeSet::new(), |transfer| transfer.payee_account)?;
        Ok(charged)
    }
}

/// Settles tries, one after the other.
pub(super) struct Settling<'v> {
    charged: &'v Charged,
    loaded: &'v Loaded,
    pub(super) charges: Charges<'v, Loaded>,
}

impl<'v> Settling<'v> {
    pub(super) fn new(charged: &'v Charged, loaded: &'v Loaded, now: i64) -> Settling<'v> {
        Settling { charged, loaded, charges: Charges::over(loaded, now) }
    }

    /// Settles the try of a record that would make its order paid. If that is in vain, the rows know.
    pub(super) fn before(
        &mut self,
        coordinator: &Coordinator,
        rows: &mut ShopRows,
        record: &Record,
        outbox: &mut Outbox<'_>,
    ) {
        let key = &record.message.key;
        if self.charged.contains_key(key) && coordinator.pays(rows, record) {
            self.settle(rows, key, outbox);
        }
    }

    /// Settles a try that is to be paid.
    pub(super) fn settle(&mut self, rows: &mut ShopRows, key: &TryKey, outbox: &mut Outbox<'_>) {
        let Some((charge, amount)) = self.charged.get(key) else { return };
        if !self.charges.fulfil(*charge, *amount) {
            tracing::warn!(%key, charge = %charge.id(), "what was reserved for a checkout is gone: it fails");
            rows.unsettled.insert(key.clone());
        }
        tell(&mut self.charges, self.loaded, outbox);
    }
}
