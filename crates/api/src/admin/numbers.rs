//! Amounts in and out of JSON without a float on the way.
//!
//! A request may carry `12.5` or `"12.5"`; both are read digit by digit from the text of the body. Answers carry
//! numbers, written digit by digit too: 12345678901234.5678 is beyond what a double can hold, and comes out as it is.

use holdfast_domain::money::Amount;
use serde_json::value::RawValue;

/// The largest power of ten that is unfolded; amounts have 18 digits.
const EXPONENT_MAX: i32 = 32;

/// A decimal as a JSON number.
pub(super) fn number(decimal: impl std::fmt::Display) -> Box<RawValue> {
    RawValue::from_string(decimal.to_string()).expect("a decimal is a JSON number")
}

/// Reads an amount from the JSON text of a member: a number, or a string with a decimal in it.
pub(super) fn read(json: &str) -> Result<Amount, String> {
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
            assert_eq!(number(balance).get(), text);
        }
    }
}
