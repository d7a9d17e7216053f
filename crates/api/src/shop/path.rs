//! What stands in a path: ids of 1 to 128 characters, and whole numbers.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use holdfast_domain::shop::Whole;

use super::failure::Failure;
use crate::admin::shortened;

/// The variable parts of a path, as they came.
pub(crate) type Place<T> = Result<Path<T>, PathRejection>;

/// Their texts.
pub(super) fn texts<T>(place: Place<T>) -> Result<T, Failure> {
    place.map(|Path(texts)| texts).map_err(|rejection| Failure::Invalid(rejection.body_text()))
}

/// An id. Without NUL, which PostgreSQL's texts cannot hold: what one profile takes the other takes too.
pub(super) fn id<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Failure> {
    if text.contains('\0') {
        return Err(Failure::Invalid(format!("{name}: contains a NUL character")));
    }
    text.parse().map_err(|error| Failure::Invalid(format!("{name}: {error}")))
}

/// A whole number: digits and nothing else, within the bounds of the shop.
pub(super) fn number(name: &str, text: &str) -> Result<Whole, Failure> {
    digits(text).and_then(|number| Whole::new(number).ok()).ok_or_else(|| wrong(name, text, Whole::MAX))
}

/// How many: at most `max`.
pub(super) fn count(name: &str, text: &str, max: u64) -> Result<u64, Failure> {
    digits(text).filter(|count| *count <= max).ok_or_else(|| wrong(name, text, max))
}

/// An id of that name, and the amount that follows it.
pub(super) fn amount_for<T: FromStr<Err: Display>>(
    name: &str,
    place: Place<(String, String)>,
) -> Result<(T, Whole), Failure> {
    let (text, amount) = texts(place)?;
    Ok((id(name, &text)?, number("amount", &amount)?))
}

/// Rust would also take a plus sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn wrong(name: &str, text: &str, max: impl Display) -> Failure {
    Failure::Number(format!("{name}: '{}' is not a whole number from 0 to {max}", shortened(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_bounded() {
        for (text, value) in [("0", 0), ("7", 7), ("007", 7), ("9223372036854775807", i64::MAX as u64)] {
            assert_eq!(number("amount", text), Ok(Whole::new(value).unwrap()));
        }
        for text in
            ["", "-1", "+1", "1.0", "1e3", " 1", "٣", "0x1", "9223372036854775808", "99999999999999999999"]
        {
            let Err(Failure::Number(detail)) = number("amount", text) else { panic!("'{text}' is taken") };
            assert!(detail.starts_with(&format!("amount: '{text}' is not a whole number from 0 to ")));
        }
        assert_eq!(count("n", "10", 10), Ok(10));
        assert!(count("n", "11", 10).is_err());
    }

    #[test]
    fn ids_are_bounded() {
        use holdfast_domain::shop::OrderId;
        assert!(id::<OrderId>("order_id", &"é".repeat(128)).is_ok());
        for text in ["", "a\0b", &"x".repeat(129)] {
            let refused = id::<OrderId>("order_id", text);
            assert!(matches!(refused, Err(Failure::Invalid(detail)) if detail.starts_with("order_id: ")));
        }
    }
}
