//! Amounts in and out of JSON without a float on the way.
//!
//! A request may carry `12.5` or `"12.5"`; both are read digit by digit from the text of the body. Answers carry
//! numbers, written digit by digit too: 12345678901234.5678 is beyond what a double can hold, and comes out as it is.
//! Whoever reads answers into doubles asks for strings.

use std::borrow::Cow;
use std::fmt;

use holdfast_domain::money::{AMOUNT_LIMIT, Amount, SCALE};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::text::schema_of;

/// The largest power of ten that is unfolded; amounts have 18 digits.
const EXPONENT_MAX: i32 = 32;

/// Any amount, as the bound of [`Given`].
pub const ANY: i64 = -AMOUNT_LIMIT.0;

/// An amount that a caller gives: a number or a string, of at most 18 digits, 4 of them after the point, and at least
/// `LEAST` in the smallest unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Given<const LEAST: i64>(pub Amount);

/// The exact text of a JSON value; what is `null` is missing.
fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    if raw.get() == "null" { Err(D::Error::custom("is missing")) } else { Ok(raw) }
}

impl<'de, const LEAST: i64> Deserialize<'de> for Given<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given<LEAST>, D::Error> {
        let amount = read(exact(deserializer)?.get()).map_err(D::Error::custom)?;
        if amount >= AMOUNT_LIMIT || amount.0 <= ANY {
            return Err(D::Error::custom(format!("{amount} has more than 14 digits before the point")));
        }
        match LEAST {
            _ if amount.0 >= LEAST => Ok(Given(amount)),
            0 => Err(D::Error::custom("must not be below zero")),
            _ => Err(D::Error::custom("must be more than zero")),
        }
    }
}

impl<const LEAST: i64> Serialize for Given<LEAST> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<const LEAST: i64> JsonSchema for Given<LEAST> {
    fn schema_name() -> Cow<'static, str> {
        match LEAST {
            ANY => "AnyAmount",
            0 => "AmountFromZero",
            _ => "AmountAboveZero",
        }
        .into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut number = json!({"type": "number"});
        let (bound, sign) = match LEAST {
            ANY => (None, "-?"),
            0 => (Some("minimum"), ""),
            _ => (Some("exclusiveMinimum"), ""),
        };
        if let Some(bound) = bound {
            number[bound] = json!(0);
        }
        let pattern = format!("^{sign}(0|[1-9][0-9]{{0,13}})([.][0-9]{{0,3}}[1-9])?$");
        schema_of(json!({
            "description": "At most 14 digits before the point and 4 behind it. Read exactly, never through a float",
            "oneOf": [number, {"type": "string", "pattern": pattern, "examples": ["12.5"]}],
        }))
    }
}

/// Whole percents from 0 to 100, as a number or a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Percent(pub u16);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
        let (percent, one) = (read(exact(deserializer)?.get()).map_err(D::Error::custom)?, 10_i64.pow(SCALE));
        let whole = (percent.0 % one == 0).then_some(percent.0 / one);
        let fits = whole.and_then(|percent| u16::try_from(percent).ok()).filter(|percent| *percent <= 100);
        let wrong = || D::Error::custom(format!("{percent} is not a whole number from 0 to 100"));
        fits.map(Percent).ok_or_else(wrong)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.0)
    }
}

shown_as_content!(Percent);
inline_schema!(Percent, json!({"type": "integer", "minimum": 0, "maximum": 100}));

words! {
    /// How answers write amounts.
    Amounts {
        /// As JSON numbers, which some programs round.
        Numbers = "numbers",
        /// As strings.
        Strings = "strings",
    }
}

/// A decimal that the hub gives, digit by digit: a number, or a string where the caller asked for strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    digits: String,
    amounts: Amounts,
}

impl Decimal {
    /// The decimal as that caller wants it.
    #[must_use]
    pub fn new(decimal: impl fmt::Display, amounts: Amounts) -> Decimal {
        Decimal { digits: decimal.to_string(), amounts }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.amounts {
            Amounts::Strings => serializer.serialize_str(&self.digits),
            Amounts::Numbers => {
                let raw = RawValue::from_string(self.digits.clone()).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
        let raw = exact(deserializer)?;
        let number = raw.get().bytes().next().is_some_and(|first| first == b'-' || first.is_ascii_digit());
        if number {
            return Ok(Decimal::new(raw.get(), Amounts::Numbers));
        }
        let text: String = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Decimal::new(text, Amounts::Strings))
    }
}

impl JsonSchema for Decimal {
    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_of(json!({
            "description": "A number, written digit by digit; with `?amounts=strings` a string",
            "oneOf": [
                {"type": "number"},
                {"type": "string", "pattern": "^-?(0|[1-9][0-9]*)([.][0-9]{1,4})?$", "examples": ["-12.5"]},
            ],
        }))
    }
}

/// Reads an amount from the JSON text of a member: a number, or a string with a decimal in it.
pub(crate) fn read(json: &str) -> Result<Amount, String> {
    let parse = |text: &str| text.parse::<Amount>().map_err(|error| error.to_string());
    match json.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
            parse(&text)
        }
        Some(b'-' | b'0'..=b'9') => match unfold(json) {
            Some(plain) => parse(&plain),
            None => Err(format!("'{json}' is not within the bounds of an amount")),
        },
        _ => Err("must be a number, or a string with a number in it".to_owned()),
    }
}

/// `1.5e3` as `1500`: some clients write large or round numbers so. Numbers without an exponent stay as they are.
fn unfold(number: &str) -> Option<String> {
    let Some((mantissa, exponent)) = number.split_once(['e', 'E']) else {
        return Some(number.to_owned());
    };
    let exponent: i32 = exponent.parse().ok().filter(|power: &i32| power.abs() <= EXPONENT_MAX)?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let places = i32::try_from(fraction.len()).ok()? - exponent;
    let mut digits = format!("{whole}{fraction}");
    match usize::try_from(places) {
        Err(_) | Ok(0) => {
            digits.extend(std::iter::repeat_n('0', usize::try_from(-places).ok()?));
            Some(format!("{sign}{digits}"))
        }
        Ok(places) => {
            let digits = format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = digits.split_at(digits.len() - places);
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            Some(format!("{sign}{whole}{point}{fraction}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_are_read_exactly() {
        for (json, amount) in [
            ("0", 0),
            ("5", 50_000),
            ("5.0", 50_000),
            ("0.0001", 1),
            ("-3.25", -32_500),
            ("\"12.5\"", 125_000),
            ("12345678901234.5678", 123_456_789_012_345_678),
            ("\"12345678901234.5678\"", 123_456_789_012_345_678),
            ("99999999999999.9999", 999_999_999_999_999_999),
            ("1e3", 10_000_000),
            ("1E+3", 10_000_000),
            ("1.5e3", 15_000_000),
            ("1.25e1", 125_000),
            ("125e-1", 125_000),
            ("10e-5", 1),
            ("1.2345678901234567e13", 123_456_789_012_345_670),
            ("-1e-4", -1),
            ("0e0", 0),
        ] {
            assert_eq!(read(json), Ok(Amount(amount)), "{json}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for json in [
            "0.00001",
            "5.00000",
            "1e-5",
            "1e40",
            "1e999999999999",
            "1e-999999999999",
            "922337203685477.5808",
            "99999999999999999999999999999999999999999999",
            "\"\"",
            "\"1e3\"",
            "\" 5\"",
            "\"five\"",
            "true",
            "null",
            "[5]",
            "{}",
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    #[test]
    fn numbers_are_written_exactly() {
        for text in ["0", "-12.5", "12345678901234.5678", "-999999999999999999999999999999.9999"] {
            let balance: holdfast_domain::money::Balance = text.parse().unwrap();
            let written = |amounts| serde_json::to_string(&Decimal::new(balance, amounts)).unwrap();
            assert_eq!(written(Amounts::Numbers), text);
            assert_eq!(written(Amounts::Strings), format!("\"{text}\""));
            for amounts in [Amounts::Numbers, Amounts::Strings] {
                let read: Decimal = serde_json::from_str(&written(amounts)).unwrap();
                assert_eq!(read, Decimal::new(balance, amounts));
            }
        }
    }
}
