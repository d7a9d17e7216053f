//! The domain's values as PostgreSQL's types, in binary: UUIDs, decimals of four places, instants in milliseconds.

use std::error::Error;

use bytes::BytesMut;
use holdfast_domain::ids::Millis;
use postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type Boxed = Box<dyn Error + Sync + Send>;

/// A bound as the database counts it.
pub(crate) fn most(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// One column of rows, for `unnest`.
pub(crate) fn list<'r, R: 'r, T>(
    rows: impl IntoIterator<Item = &'r R>,
    column: impl FnMut(&'r R) -> T,
) -> Vec<T> {
    rows.into_iter().map(column).collect()
}

/// `uuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uuid(pub(crate) u128);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Uuid, Boxed> {
        Ok(Uuid(u128::from_be_bytes(raw.try_into()?)))
    }
    accepts!(UUID);
}

/// `numeric` with at most four places, as a number of 1/10,000. PostgreSQL's digits have the base 10,000, so the last one
/// is the fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Decimal(pub(crate) i128);

/// Base 10,000 digits that 128 bits may need.
const DIGITS_MAX: usize = 10;
const NEGATIVE: u16 = 0x4000;

impl Decimal {
    /// Appends PostgreSQL's form.
    pub(crate) fn encode(self, out: &mut impl Extend<u8>) {
        let mut digits = [0_u16; DIGITS_MAX];
        let mut rest = self.0.unsigned_abs();
        let mut count = 0;
        while rest > 0 {
            digits[count] = u16::try_from(rest % 10_000).expect("below the base");
            rest /= 10_000;
            count += 1;
        }
        let ndigits = u16::try_from(count).expect("at most ten");
        let weight = i16::try_from(count).expect("at most ten") - 2;
        let sign = if self.0 < 0 { NEGATIVE } else { 0 };
        let mut put = |number: [u8; 2]| out.extend(number);
        put(ndigits.to_be_bytes());
        put(weight.to_be_bytes());
        put(sign.to_be_bytes());
        put(4_u16.to_be_bytes());
        digits[..count].iter().rev().for_each(|digit| put(digit.to_be_bytes()));
    }

    pub(crate) const fn encoded_len(self) -> usize {
        let mut rest = self.0.unsigned_abs();
        let mut bytes = 8;
        while rest > 0 {
            rest /= 10_000;
            bytes += 2;
        }
        bytes
    }

    fn decode(raw: &[u8]) -> Option<Decimal> {
        let mut words = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let ndigits = usize::from(words.next()?);
        let weight = i32::from(words.next()?.cast_signed());
        let sign = words.next()?;
        words.next()?;
        if sign != 0 && sign != NEGATIVE {
            return None;
        }
        let mut value = 0_i128;
        let mut power = weight + 1;
        for digit in words.take(ndigits) {
            let place = 10_000_i128.checked_pow(u32::try_from(power).ok()?)?;
            value = value.checked_add(place.checked_mul(i128::from(digit))?)?;
            power -= 1;
        }
        Some(Decimal(if sign == NEGATIVE { -value } else { value }))
    }
}

impl ToSql for Decimal {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        self.encode(out);
        Ok(IsNull::No)
    }
    accepts!(NUMERIC);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Decimal {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Decimal, Boxed> {
        Decimal::decode(raw).ok_or_else(|| "not a number of at most four decimal places".into())
    }
    accepts!(NUMERIC);
}

/// `timestamptz`. What lies outside PostgreSQL's years becomes `infinity` or `-infinity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) Millis);

/// 2000-01-01T00:00:00Z, where PostgreSQL counts from.
const EPOCH: Millis = 946_684_800_000;
/// 4713 BC and 294276 AD, in PostgreSQL's microseconds.
const FIRST: i64 = -211_813_488_000_000_000;
const LAST: i64 = 9_223_371_331_199_999_999;

impl Moment {
    pub(crate) fn micros(self) -> i64 {
        let micros = self.0.checked_sub(EPOCH).and_then(|since| since.checked_mul(1_000));
        match micros {
            Some(micros) if (FIRST..=LAST).contains(&micros) => micros,
            _ if self.0 < EPOCH => i64::MIN,
            _ => i64::MAX,
        }
    }
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        out.extend_from_slice(&self.micros().to_be_bytes());
        Ok(IsNull::No)
    }
    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Moment, Boxed> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Moment(match micros {
            i64::MIN => Millis::MIN,
            i64::MAX => Millis::MAX,
            _ => micros.div_euclid(1_000) + EPOCH,
        }))
    }
    accepts!(TIMESTAMPTZ);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decimals_come_back(value in any::<i128>()) {
            let mut bytes = Vec::new();
            Decimal(value).encode(&mut bytes);
            prop_assert_eq!(bytes.len(), Decimal(value).encoded_len());
            prop_assume!(value != i128::MIN);
            prop_assert_eq!(Decimal::decode(&bytes), Some(Decimal(value)));
        }

        #[test]
        fn moments_come_back_within_the_years(value in -100_000_000_000_000_i64..9_000_000_000_000_000) {
            let mut bytes = BytesMut::new();
            Moment(value).to_sql(&Type::TIMESTAMPTZ, &mut bytes).unwrap();
            prop_assert_eq!(Moment::from_sql(&Type::TIMESTAMPTZ, &bytes).unwrap(), Moment(value));
        }
    }

    #[test]
    fn far_moments_are_infinite() {
        for (far, micros) in
            [(Millis::MAX, i64::MAX), (Millis::MIN, i64::MIN), (9_300_000_000_000_000, i64::MAX)]
        {
            assert_eq!(Moment(far).micros(), micros);
        }
    }

    #[test]
    fn zero_has_no_digits() {
        let mut bytes = Vec::new();
        Decimal(0).encode(&mut bytes);
        assert_eq!(Decimal::decode(&bytes), Some(Decimal(0)));
    }
}
