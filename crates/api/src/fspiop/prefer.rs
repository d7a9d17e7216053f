//! `Prefer: wait=N` (RFC 7240): a caller that would rather have the outcome in the answer than by a callback alone.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::limits::PREFER_WAIT_SECONDS_MAX;

const PREFER: &str = "prefer";
/// Says which preference was honoured, and with which number.
pub(super) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// How many seconds the caller is ready to wait, not more than are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait(u32);

impl Wait {
    /// The wait that the headers ask for. As the RFC has it: names are compared without case, the first `wait`
    /// counts, and one that cannot be understood is as if it were not there.
    pub(super) fn of(headers: &HeaderMap) -> Option<Wait> {
        let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
        let preferences = lines.flat_map(|line| line.split(','));
        let (_, value) = preferences
            // What follows a `;` are parameters of the preference; `wait` has none.
            .map(|preference| preference.split(';').next().unwrap_or(preference))
            .filter_map(|preference| preference.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // A number that does not fit is a long wait all the same.
        Some(Wait(value.parse().unwrap_or(u32::MAX).min(PREFER_WAIT_SECONDS_MAX)))
    }

    pub(super) fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }

    /// `wait=N`, with the number that was granted.
    pub(super) fn applied(self) -> HeaderValue {
        HeaderValue::try_from(format!("wait={}", self.0)).expect("digits are plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(lines: &[&str]) -> Option<u32> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, HeaderValue::from_str(line).unwrap());
        }
        Wait::of(&headers).map(|wait| wait.0)
    }

    #[test]
    fn waits_are_found_among_other_preferences() {
        for (lines, seconds) in [
            (&["wait=5"][..], Some(5)),
            (&["WAIT=5"], Some(5)),
            (&["wait = 5"], Some(5)),
            (&["wait=\"5\""], Some(5)),
            (&["wait=0"], Some(0)),
            (&["respond-async, wait=10"], Some(10)),
            (&["respond-async", "handling=lenient; x=y, wait=10"], Some(10)),
            (&["wait=3, wait=9"], Some(3)),
            (&["wait=3;foo=bar"], Some(3)),
            (&["wait=1000"], Some(PREFER_WAIT_SECONDS_MAX)),
            (&["wait=99999999999999999999"], Some(PREFER_WAIT_SECONDS_MAX)),
            (&[], None),
            (&[""], None),
            (&["wait"], None),
            (&["wait="], None),
            (&["wait=soon"], None),
            (&["wait=-1"], None),
            (&["wait=1.5"], None),
            (&["respond-async"], None),
        ] {
            assert_eq!(wait(lines), seconds, "{lines:?}");
        }
    }
}
