//! What a data set looks like on either profile, and where its chance comes from.

use holdfast_domain::command::{Fulfil, FulfilAction, Prepare};
use holdfast_domain::ids::{Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::series;

use super::{DataSet, PREIMAGE};

/// An hour.
pub const HOUR: Millis = 3_600_000;
/// From prepare to expiration, where both lie in the past.
pub const LIFE: Millis = 30_000;
/// From prepare to the end of a transfer that does not run out.
pub const ANSWERED_AFTER: Millis = 250;
/// Of a hundred transfers that are not to be due, this many are open.
pub const OPEN_PERCENT: u64 = 10;
/// What a payee says that does not want a transfer.
pub const PAYEE_REFUSES: u16 = 5001;
/// Participants per currency.
pub const PARTIES: u32 = 8;

/// The prepare of that number in the series: its id and condition follow from the data set's seed.
#[must_use]
pub fn prepare(
    data: &DataSet,
    number: u64,
    (payer, payee): (ParticipantId, ParticipantId),
    (currency, amount): (Currency, Amount),
    expiration: Millis,
) -> Prepare {
    let id = TransferId(
        u128::from(series::at(data.seed, number)) << 64 | u128::from(series::at(!data.seed, number)),
    );
    let prepare = Prepare {
        source: payer,
        id,
        payer,
        payee,
        amount,
        expiration,
        currency,
        condition: condition(payee, id),
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    prepare.hashed()
}

/// SHA-256 of the fulfilment.
pub(super) fn condition(payee: ParticipantId, id: TransferId) -> [u8; 32] {
    Fulfil::new(payee, id, FulfilAction::Commit, PREIMAGE).digest
}

/// Numbers that follow from a seed.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// A series from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A series for one number of another.
    #[must_use]
    pub const fn at(seed: u64, number: u64) -> Chance {
        Chance(series::at(seed, number))
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = series::at(self.0, 1);
        self.0 % bound.max(1)
    }

    /// A place in something of that length.
    ///
    /// # Panics
    /// Never.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }

    /// A number from `low` to `high`.
    ///
    /// # Panics
    /// If the range is wider than half of all numbers.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(high.abs_diff(low).saturating_add(1))).expect("within the range")
    }

    /// The amount of a transfer.
    ///
    /// # Panics
    /// If the data set was not checked.
    pub fn amount(&mut self, data: &DataSet) -> Amount {
        let (low, high) = data.amount;
        Amount::whole(self.between(low, high)).expect("the data set was checked")
    }

    /// One of these, each as often as its parts say.
    ///
    /// # Panics
    /// If there are none.
    pub fn one_of<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let mut drawn = self.below(all.iter().map(|(parts, _)| parts).sum());
        let found = all.iter().find(|(parts, _)| match drawn.checked_sub(*parts) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        });
        found.expect("there are some").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept() {
        let mut chance = Chance::new(7);
        let drawn: Vec<char> =
            (0..10_000).map(|_| chance.one_of(&[(70, 'a'), (0, 'b'), (30, 'c')])).collect();
        let count = |which| drawn.iter().filter(|one| **one == which).count();
        assert!((6_800..7_200).contains(&count('a')), "{}", count('a'));
        assert_eq!((count('b'), count('a') + count('c')), (0, 10_000));
    }
}
