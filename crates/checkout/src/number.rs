//! Whole numbers: credits, stocks, prices, quantities and amounts. Never negative, bounded, and checked.

use std::fmt;

use crate::limits::NUMBER_MAX;

/// A whole number from 0 to [`NUMBER_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Whole(u64);

/// A number would be larger than [`NUMBER_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the number would be larger than {NUMBER_MAX}")]
pub struct TooLarge;

impl Whole {
    /// Nothing.
    pub const ZERO: Whole = Whole(0);
    /// The largest of them.
    pub const MAX: Whole = Whole(NUMBER_MAX);

    /// The number, if it is within bounds.
    ///
    /// # Errors
    /// If it is too large.
    pub const fn new(number: u64) -> Result<Whole, TooLarge> {
        if number <= NUMBER_MAX { Ok(Whole(number)) } else { Err(TooLarge) }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum.
    ///
    /// # Errors
    /// If it is too large.
    pub fn plus(self, other: Whole) -> Result<Whole, TooLarge> {
        self.0.checked_add(other.0).ok_or(TooLarge).and_then(Whole::new)
    }

    /// The product.
    ///
    /// # Errors
    /// If it is too large.
    pub fn times(self, other: Whole) -> Result<Whole, TooLarge> {
        self.0.checked_mul(other.0).ok_or(TooLarge).and_then(Whole::new)
    }

    /// What is left; `None` if there is not enough.
    #[must_use]
    pub fn minus(self, other: Whole) -> Option<Whole> {
        self.0.checked_sub(other.0).map(Whole)
    }
}

impl TryFrom<u64> for Whole {
    type Error = TooLarge;
    fn try_from(number: u64) -> Result<Whole, TooLarge> {
        Whole::new(number)
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_wraps() {
        let (one, two) = (Whole(1), Whole(2));
        assert_eq!(Whole::new(NUMBER_MAX + 1), Err(TooLarge));
        assert_eq!(Whole::MAX.plus(one), Err(TooLarge));
        assert_eq!(Whole::MAX.times(two), Err(TooLarge));
        assert_eq!(Whole::MAX.times(Whole::MAX), Err(TooLarge));
        assert_eq!(Whole::MAX.plus(Whole::ZERO), Ok(Whole::MAX));
        assert_eq!((one.minus(two), two.minus(one)), (None, Some(one)));
    }
}
