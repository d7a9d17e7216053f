//! The types of the standard: each reads a text into what the hub works with, or says what the text must be.
//!
//! Characters are counted as Unicode code points, as the standard's patterns do.

use holdfast_domain::ids::{Currency, Millis, TransferId};
use holdfast_domain::money::{Amount, SCALE};

use super::dates;

/// What a text must be, to follow the field's name in a refusal.
pub(super) type Must = &'static str;

/// The longest name of an FSP in a message.
const FSP_ID_CHARS_MAX: usize = 32;
/// Digits that may stand before the point.
const WHOLE_DIGITS_MAX: usize = 18;
const DESCRIPTION_CHARS_MAX: usize = 128;
const EXTENSION_KEY_CHARS_MAX: usize = 32;
const EXTENSION_VALUE_CHARS_MAX: usize = 128;

/// An amount of money as a message names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    /// The amount, or the largest there is where it is larger still; the rules refuse that one too.
    pub(super) amount: Amount,
    /// Whether `amount` is what the text says.
    pub(super) exact: bool,
}

/// Amount: `^([0]|([1-9][0-9]{0,17}))([.][0-9]{0,3}[1-9])?$`. How large it may be is a rule, not a matter of form.
pub(super) fn amount(text: &str) -> Result<Sum, Must> {
    const MUST: Must = "must be a decimal string such as 12.5, at most 4 places, no zero at either end";
    let (whole, fraction) = match text.split_once('.') {
        None => (text, ""),
        Some((_, "")) => return Err(MUST),
        Some((whole, fraction)) => (whole, fraction),
    };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let whole_is_good = whole == "0"
        || ((1..=WHOLE_DIGITS_MAX).contains(&whole.len()) && is_digits(whole) && !whole.starts_with('0'));
    let fraction_is_good =
        is_digits(fraction) && fraction.len() <= SCALE as usize && !fraction.ends_with('0');
    if !whole_is_good || !fraction_is_good {
        return Err(MUST);
    }
    let places = format!("{whole}{fraction:0<width$}", width = SCALE as usize);
    let units: i128 = places.parse().map_err(|_| MUST)?;
    let amount = i64::try_from(units).ok().map(Amount);
    Ok(Sum { amount: amount.unwrap_or(Amount(i64::MAX)), exact: amount.is_some() })
}

/// Currency: a code of ISO 4217.
pub(super) fn currency(text: &str) -> Result<Currency, Must> {
    holdfast_wire::currencies::currency(text).ok_or("must be a currency of ISO 4217 such as USD")
}

const UUID_IS_NEEDED: Must = "must be a lower-case UUID such as 0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d";

/// CorrelationId: a UUID of version 1 to 7 in lower case. A ULID is none: ids are kept as 128 bits and written as UUIDs,
/// so callbacks would name an id that its sender never used.
pub(super) fn correlation_id(text: &str) -> Result<TransferId, Must> {
    let id = written_id(text)?;
    let bytes = text.as_bytes();
    let (version, variant) = (bytes[14], bytes[19]);
    let known = (b'1'..=b'7').contains(&version) && matches!(variant, b'8' | b'9' | b'a' | b'b');
    if known { Ok(id) } else { Err(UUID_IS_NEEDED) }
}

/// An id as the hub writes it: a lower-case UUID of any version, since batch records may carry any 128 bits.
pub(super) fn written_id(text: &str) -> Result<TransferId, Must> {
    text.parse().map_err(|_| UUID_IS_NEEDED)
}

/// A text of one character or more, up to so many.
fn bounded(text: &str, max: usize, must: Must) -> Result<&str, Must> {
    // Most texts are short: counting stops where it is clear that they are not.
    let within = !text.is_empty() && text.chars().take(max + 1).count() <= max;
    if within { Ok(text) } else { Err(must) }
}

/// FspId. Which of them take part is not a matter of form.
pub(super) fn fsp_id(text: &str) -> Result<&str, Must> {
    bounded(text, FSP_ID_CHARS_MAX, "must have 1 to 32 characters")
}

/// DateTime.
pub(super) fn date_time(text: &str) -> Result<Millis, Must> {
    dates::date_time(text)
        .ok_or("must be a time such as 2026-11-15T08:24:36.000Z, with milliseconds and zone")
}

/// ErrorCode: `^[1-9]\d{3}$`.
pub(super) fn error_code(text: &str) -> Result<u16, Must> {
    let good = text.len() == 4 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten().ok_or("must be a string of four digits such as 5104")
}

/// Whether the standard has a group for codes that begin like this one. Within a group a scheme may have its own.
pub(super) const fn is_of_a_known_group(code: u16) -> bool {
    matches!(code / 100, 10 | 20 | 30..=33 | 40..=44 | 50..=54)
}

/// ErrorDescription.
pub(super) fn error_description(text: &str) -> Result<&str, Must> {
    bounded(text, DESCRIPTION_CHARS_MAX, "must have 1 to 128 characters")
}

/// ExtensionKey.
pub(super) fn extension_key(text: &str) -> Result<&str, Must> {
    bounded(text, EXTENSION_KEY_CHARS_MAX, "must have 1 to 32 characters")
}

/// ExtensionValue.
pub(super) fn extension_value(text: &str) -> Result<&str, Must> {
    bounded(text, EXTENSION_VALUE_CHARS_MAX, "must have 1 to 128 characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_no_zero_too_many() {
        for (text, units) in [
            ("0", 0),
            ("5", 50_000),
            ("5.5", 55_000),
            ("0.5", 5_000),
            ("0.0001", 1),
            ("100", 1_000_000),
            ("10.01", 100_100),
            ("99999999999999.9999", 999_999_999_999_999_999),
            ("100000000000000", 1_000_000_000_000_000_000),
            ("922337203685477.5807", i64::MAX),
        ] {
            assert_eq!(amount(text), Ok(Sum { amount: Amount(units), exact: true }), "{text}");
        }
        for text in ["922337203685477.5808", "999999999999999999", "999999999999999999.9999"] {
            assert_eq!(amount(text), Ok(Sum { amount: Amount(i64::MAX), exact: false }), "{text}");
        }
        for bad in [
            "", ".", "5.", ".5", "5.0", "5.50", "0.0", "00", "05", "00.5", "-5", "+5", "5.55555", "5.55550",
            "1e3", "1,5", " 5", "5 ", "5.-1", "5.5.5", "0x10", "٥", "NaN", "5\n",
        ] {
            assert!(amount(bad).is_err(), "{bad}");
        }
        assert!(amount("1000000000000000000").is_err(), "19 digits");
    }

    #[test]
    fn ids_are_lower_case_uuids() {
        for (text, id) in [
            ("b51ec534-ee48-4575-b6a9-ead2955b8069", 0xb51e_c534_ee48_4575_b6a9_ead2_955b_8069),
            ("b51ec534-ee48-1575-86a9-ead2955b8069", 0xb51e_c534_ee48_1575_86a9_ead2_955b_8069),
            ("0197a0c4-ee48-7575-96a9-ead2955b8069", 0x0197_a0c4_ee48_7575_96a9_ead2_955b_8069),
            ("b51ec534-ee48-6575-a6a9-ead2955b8069", 0xb51e_c534_ee48_6575_a6a9_ead2_955b_8069),
        ] {
            assert_eq!(correlation_id(text), Ok(TransferId(id)), "{text}");
            assert_eq!(written_id(text), Ok(TransferId(id)), "{text}");
        }
        for bad in [
            "",
            "B51EC534-EE48-4575-B6A9-EAD2955B8069",
            "b51ec534-ee48-4575-B6a9-ead2955b8069",
            "b51ec534ee484575b6a9ead2955b8069",
            "b51ec534-ee48-4575-b6a9-ead2955b806",
            "b51ec534-ee48-4575-b6a9-ead2955b80690",
            "{b51ec534-ee48-4575-b6a9-ead2955b806}",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "ééééééééééééé",
            "éééééééééééééééééé",
        ] {
            assert_eq!(correlation_id(bad), Err(UUID_IS_NEEDED), "{bad}");
            assert_eq!(written_id(bad), Err(UUID_IS_NEEDED), "{bad}");
        }
        for only_written in [
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-0000-0000-000000000001",
            "b51ec534-ee48-0575-b6a9-ead2955b8069",
            "b51ec534-ee48-8575-b6a9-ead2955b8069",
            "b51ec534-ee48-4575-c6a9-ead2955b8069",
            "b51ec534-ee48-4575-76a9-ead2955b8069",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            assert!(correlation_id(only_written).is_err(), "{only_written}");
            assert_eq!(written_id(only_written).unwrap().to_string(), only_written);
        }
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        let text = |count: usize| "é".repeat(count);
        assert!(fsp_id(&text(32)).is_ok() && fsp_id(&text(33)).is_err() && fsp_id("").is_err());
        assert!(error_description(&text(128)).is_ok() && error_description(&text(129)).is_err());
        assert!(extension_key(&text(32)).is_ok() && extension_key(&text(33)).is_err());
        assert!(extension_value(&text(128)).is_ok() && extension_value("").is_err());
    }

    #[test]
    fn codes_are_four_digits() {
        assert_eq!(error_code("5104"), Ok(5104));
        for bad in ["", "510", "51040", "0510", "51a4", "-510", "٥104", "+510"] {
            assert!(error_code(bad).is_err(), "{bad}");
        }
        for (code, known) in
            [(1000, true), (2001, true), (3399, true), (3400, false), (4499, true), (5455, true)]
        {
            assert_eq!(is_of_a_known_group(code), known, "{code}");
        }
        for code in [1100, 2100, 4500, 5500, 6000, 9999] {
            assert!(!is_of_a_known_group(code), "{code}");
        }
    }
}
