//! Money: amounts are whole numbers of 1/10,000 of a currency unit, sums of them are 128 bits wide.
//!
//! An [`Amount`] is what one message moves (i64). A [`Balance`] is what an account has gathered (i128): no
//! number of transfers that a log can hold reaches its bounds, so a settled position step cannot overflow.

use std::fmt;
use std::num::NonZeroI128;
use std::ops::Add;
use std::str::FromStr;

/// Decimal places kept of every amount, as `decimal(18,4)` in the systems Holdfast replaces.
pub const SCALE: u32 = 4;
const UNIT: i128 = 10_i128.pow(SCALE);
/// The first amount that a transfer may no longer have: 18 digits in all, 4 of them after the point.
pub const AMOUNT_LIMIT: Amount = Amount(1_000_000_000_000_000_000);

/// What one message moves, in 1/10,000 of the currency's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(pub i64);

/// A running sum of amounts: a position, a settlement balance, a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Balance(pub i128);

/// A balance that may not be there, in no more room than one that is: open transfers have two of them each, and there may be
/// millions. Holds every balance but the lowest number of 128 bits, which no sum of amounts comes near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionalBalance(Option<NonZeroI128>);

impl OptionalBalance {
    /// None.
    pub const NONE: OptionalBalance = OptionalBalance(None);

    /// The balance, if it is there.
    #[must_use]
    pub fn get(self) -> Option<Balance> {
        self.0.map(|kept| Balance(kept.get() ^ i128::MIN))
    }

    /// Whether it is there.
    #[must_use]
    pub const fn is_some(self) -> bool {
        self.0.is_some()
    }
}

impl From<Balance> for OptionalBalance {
    fn from(balance: Balance) -> OptionalBalance {
        OptionalBalance(NonZeroI128::new(balance.0 ^ i128::MIN))
    }
}

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not digits with at most one point between them.
    #[error("'{0}' is not a decimal number such as 12.34")]
    NotDecimal(String),
    /// More than four places after the point.
    #[error("'{0}' has more than {SCALE} decimal places")]
    TooPrecise(String),
    /// Does not fit the type.
    #[error("'{0}' is too large")]
    TooLarge(String),
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// An amount of whole currency units; `None` where it does not fit.
    #[must_use]
    pub fn whole(units: i64) -> Option<Amount> {
        units.checked_mul(10_i64.pow(SCALE)).map(Amount)
    }

    /// The whole currency units; `None` if there is a fraction, or less than nothing.
    #[must_use]
    pub fn whole_units(self) -> Option<u64> {
        let unit = 10_i64.pow(SCALE);
        if self.0 % unit == 0 { u64::try_from(self.0 / unit).ok() } else { None }
    }

    /// The same value as a balance.
    #[must_use]
    pub const fn wide(self) -> Balance {
        Balance(self.0 as i128)
    }
}

impl Balance {
    /// Nothing.
    pub const ZERO: Balance = Balance(0);

    /// This balance with `amount` added. The widths of [`Amount`] and [`Balance`] make an overflow impossible
    /// for any real log; if one came about nevertheless, stopping is the only honest answer.
    #[must_use]
    pub fn plus(self, amount: Amount) -> Balance {
        Balance(self.0.checked_add(i128::from(amount.0)).expect("a balance outgrew 128 bits"))
    }

    /// This balance with `amount` taken off.
    #[must_use]
    pub fn minus(self, amount: Amount) -> Balance {
        Balance(self.0.checked_sub(i128::from(amount.0)).expect("a balance outgrew 128 bits"))
    }

    /// The balance with its sign turned.
    #[must_use]
    pub fn negated(self) -> Balance {
        Balance(self.0.checked_neg().expect("a balance outgrew 128 bits"))
    }
}

impl Add for Balance {
    type Output = Balance;
    /// The sum of two balances, checked like [`Balance::plus`].
    fn add(self, other: Balance) -> Balance {
        Balance(self.0.checked_add(other.0).expect("a balance outgrew 128 bits"))
    }
}

fn parse(text: &str) -> Result<i128, AmountError> {
    let not_decimal = || AmountError::NotDecimal(text.to_owned());
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || digits.ends_with('.') {
        return Err(not_decimal());
    }
    if fraction.len() > SCALE as usize {
        return Err(AmountError::TooPrecise(text.to_owned()));
    }
    let too_large = || AmountError::TooLarge(text.to_owned());
    let whole: i128 = whole.parse().map_err(|_| too_large())?;
    let places = format!("{fraction:0<width$}", width = SCALE as usize);
    let fraction: i128 = places.parse().map_err(|_| not_decimal())?;
    let value =
        whole.checked_mul(UNIT).and_then(|units| units.checked_add(fraction)).ok_or_else(too_large)?;
    Ok(if negative { -value } else { value })
}

impl FromStr for Amount {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Amount, AmountError> {
        i64::try_from(parse(text)?).map(Amount).map_err(|_| AmountError::TooLarge(text.to_owned()))
    }
}

impl FromStr for Balance {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Balance, AmountError> {
        parse(text).map(Balance)
    }
}

impl fmt::Display for Balance {
    /// The shortest decimal form: `5`, `0.0001`, `-12.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (whole, fraction) = (magnitude / UNIT.unsigned_abs(), magnitude % UNIT.unsigned_abs());
        let sign = if self.0 < 0 { "-" } else { "" };
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let places = format!("{fraction:0width$}", width = SCALE as usize);
        write!(f, "{sign}{whole}.{}", places.trim_end_matches('0'))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.wide().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_in_their_shortest_form_and_come_back() {
        for text in ["0", "5", "0.0001", "12.5", "-3.25", "99999999999999.9999", "12345678901234.5678"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        assert_eq!("5.1000".parse::<Amount>().unwrap().to_string(), "5.1");
        assert_eq!("00.5".parse::<Amount>().unwrap().to_string(), "0.5");
    }

    #[test]
    fn what_is_not_an_amount_says_why() {
        for text in ["", ".", "5.", ".5", "1e3", "+5", "0x10", "1,5", " 5", "--5", "5.-1"] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError::NotDecimal(text.to_owned())), "{text}");
        }
        assert_eq!("5.00001".parse::<Amount>(), Err(AmountError::TooPrecise("5.00001".to_owned())));
        for text in ["922337203685477.5808", "99999999999999999999999999999999999999999"] {
            assert_eq!(text.parse::<Amount>(), Err(AmountError::TooLarge(text.to_owned())));
        }
        assert_eq!("922337203685477.5807".parse::<Amount>(), Ok(Amount(i64::MAX)));
    }

    #[test]
    fn only_whole_amounts_have_whole_units() {
        let units = |text: &str| text.parse::<Amount>().unwrap().whole_units();
        assert_eq!(
            (units("12"), units("0"), units("99999999999999")),
            (Some(12), Some(0), Some(99_999_999_999_999))
        );
        assert_eq!((units("0.0001"), units("12.5"), units("-3")), (None, None, None));
    }

    #[test]
    fn eighteen_digits_are_exact() {
        let nearly: Amount = "12345678901234.5677".parse().unwrap();
        assert_eq!(nearly.wide().plus(Amount(1)).to_string(), "12345678901234.5678");
        assert_eq!(AMOUNT_LIMIT.to_string(), "100000000000000");
    }
}
