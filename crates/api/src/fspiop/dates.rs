//! Instants as the standard writes them: `DateTime` in bodies, and the one form of `Date` in headers.
//!
//! The forms of both are read by hand: they are fixed, and a general parser takes more than they allow (no milliseconds, a
//! lower-case `z`, a leap second, other forms of a header's date).

use holdfast_domain::ids::Millis;
use jiff::civil::{Date, date};

const EPOCH: Date = date(1970, 1, 1);

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// The years begin with one that has four digits by itself.
const YEAR_MIN: i64 = 1000;
/// Zones are written with an hour from 00 to 19.
const ZONE_HOUR_MAX: i64 = 19;

/// The number in these bytes, if all of them are digits.
fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// That day of the Gregorian calendar, if there is one.
fn day_of(year: i64, month: i64, day: i64) -> Option<Date> {
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Reads `yyyy-MM-ddTHH:mm:ss.SSS` with `Z` or `±HH:MM`.
pub(super) fn date_time(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    let (local, zone) = bytes.split_at_checked(23)?;
    let punctuation = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.')];
    if punctuation.iter().any(|(at, byte)| local[*at] != *byte) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| digits(&local[range]);
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let millis = number(20..23)?;
    let days = day_of(year, month, day)?.duration_since(EPOCH).as_hours() / 24;
    if year < YEAR_MIN || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let offset_minutes = match zone {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), hours @ .., b':', m1, m2] if hours.len() == 2 => {
            let (hours, minutes) = (digits(hours)?, digits(&[*m1, *m2])?);
            if hours > ZONE_HOUR_MAX || minutes > 59 {
                return None;
            }
            let ahead = hours * 60 + minutes;
            if *sign == b'+' { ahead } else { -ahead }
        }
        _ => return None,
    };
    let minutes = (days * 24 + hour) * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1_000 + millis)
}

/// Whether a header's date has the fixed form `Tue, 15 Nov 1994 08:12:31 GMT`. The day of the week must be one, but
/// is not held against the date: the header is passed on as it is, and compared with nothing.
pub(super) fn is_http_date(text: &str) -> bool {
    let parse = || {
        let bytes = text.as_bytes();
        let punctuation = text.is_ascii()
            && bytes.len() == 29
            && &text[3..5] == ", "
            && [7, 11, 16, 25].iter().all(|at| bytes[*at] == b' ')
            && bytes[19] == b':'
            && bytes[22] == b':'
            && &text[26..] == "GMT";
        if !punctuation || !DAYS.contains(&&text[..3]) {
            return None;
        }
        let month = MONTHS.iter().position(|month| *month == &text[8..11])?;
        let (day, year) = (digits(&bytes[5..7])?, digits(&bytes[12..16])?);
        let (hour, minute, second) =
            (digits(&bytes[17..19])?, digits(&bytes[20..22])?, digits(&bytes[23..25])?);
        // A leap second is in the grammar of this header.
        let time = hour <= 23 && minute <= 59 && second <= 60;
        Some(time && day_of(year, i64::try_from(month).ok()? + 1, day).is_some())
    };
    parse().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_wire::fspiop::http_date;

    #[test]
    fn a_date_time_has_milliseconds_and_a_zone() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("2025-11-15T08:24:36.120Z", 1_763_195_076_120),
            ("2025-11-15T09:24:36.120+01:00", 1_763_195_076_120),
            ("2025-11-15T02:54:36.120-05:30", 1_763_195_076_120),
            ("2024-02-29T00:00:00.000Z", 1_709_164_800_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999),
            ("1000-01-01T00:00:00.000Z", -30_610_224_000_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:59:59.999-19:59", 253_402_300_799_999 + 71_940_000),
        ] {
            assert_eq!(date_time(text), Some(millis), "{text}");
        }
        for bad in [
            "",
            "2025-11-15",
            "2025-11-15t08:24:36.120Z",
            "2025-11-15 08:24:36.120Z",
            "2025-11-15T24:00:00.000Z",
            "2025-11-15T08:60:36.120Z",
            "2025-11-15T08:24:60.120Z",
            "2025-13-15T08:24:36.120Z",
            "2025-00-15T08:24:36.120Z",
            "2025-11-00T08:24:36.120Z",
            "2025-11-31T08:24:36.120Z",
            "2025-02-29T08:24:36.120Z",
            "1900-02-29T08:24:36.120Z",
            "0999-11-15T08:24:36.120Z",
            "12025-11-15T08:24:36.120Z",
            "-025-11-15T08:24:36.120Z",
            " 2025-11-15T08:24:36.120Z",
            "２025-11-15T08:24:36.120Z",
        ] {
            assert_eq!(date_time(bad), None, "{bad}");
        }
        for fraction in ["Z", ".1Z", ".12Z", ".1200Z", ".120", ".120z", ",120Z", ".120ZZ", ".12é"] {
            assert_eq!(date_time(&format!("2025-11-15T08:24:36{fraction}")), None, "{fraction}");
        }
        for zone in ["+20:00", "+01:60", "+0100", "+01", "+1:00", " 01:00"] {
            assert_eq!(date_time(&format!("2025-11-15T08:24:36.120{zone}")), None, "{zone}");
        }
    }

    #[test]
    fn days_agree_with_another_calendar() {
        for days in (-354_285..2_932_896).step_by(97) {
            let instant = jiff::Timestamp::from_second(days * 86_400).unwrap();
            assert_eq!(date_time(&format!("{instant:.3}")), Some(days * 86_400_000), "{instant}");
        }
    }

    #[test]
    fn a_header_date_has_one_form() {
        for good in ["Tue, 15 Nov 1994 08:12:31 GMT", "Thu, 29 Feb 2024 00:00:00 GMT"] {
            assert!(is_http_date(good), "{good}");
        }
        for bad in [
            "",
            "Tue, 15 Nov 1994 08:12:31",
            "Tue, 15 Nov 1994 08:12:31 UTC",
            "tue, 15 Nov 1994 08:12:31 GMT",
            "Tuesday, 15-Nov-94 08:12:31 GMT",
            "Tue Nov 15 08:12:31 1994",
            "1994-11-15T08:12:31.000Z",
            "Tue, 32 Nov 1994 08:12:31 GMT",
            "Thu, 29 Feb 2023 00:00:00 GMT",
            "Tue, 15 nov 1994 08:12:31 GMT",
            "Tue, 15 Nov 1994 24:12:31 GMT",
            "Tue, 1  Nov 1994 08:12:31 GMT",
            "Tüe, 15 Nov 1994 08:12:31 GM",
        ] {
            assert!(!is_http_date(bad), "{bad}");
        }
        let written = http_date(784_887_151_000);
        assert_eq!(written, "Tue, 15 Nov 1994 08:12:31 GMT");
        assert!(is_http_date(&written));
    }
}
