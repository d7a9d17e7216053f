//! Instants as text: RFC 3339 with milliseconds, in UTC.

use holdfast_domain::ids::Millis;

/// `2026-11-15T08:24:36.000Z`.
#[must_use]
pub fn format(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(instant) => format!("{instant:.3}"),
        Err(_) => at.to_string(),
    }
}

/// Reads an instant; `None` if it is none.
#[must_use]
pub fn parse(text: &str) -> Option<Millis> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    #[test]
    fn instants_have_milliseconds_and_a_zone() {
        assert_eq!(super::format(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(super::format(1_763_195_076_120), "2025-11-15T08:24:36.120Z");
        assert_eq!(super::parse("2025-11-15T09:24:36.120+01:00"), Some(1_763_195_076_120));
        assert_eq!(super::parse("yesterday"), None);
    }
}
