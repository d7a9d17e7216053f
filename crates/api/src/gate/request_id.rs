//! `x-request-id`: the caller's, if it is fit to be written into traces, else one of ours. And the trace id of a
//! `traceparent`, so that a request can be found in the traces of both sides.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The longest id that is taken over.
const ID_CHARS_MAX: usize = 64;

/// The id of one request. Letters, digits, `-`, `.`, `_` and nothing else.
#[derive(Debug, Clone)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    pub(super) fn header(self) -> HeaderValue {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("?"))
    }
}

/// The id that came with the request, or a new one.
pub(super) fn of(headers: &HeaderMap) -> RequestId {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let sane =
        |value: &&HeaderValue| (1..=ID_CHARS_MAX).contains(&value.len()) && value.as_bytes().iter().all(good);
    let sent = headers.get(X_REQUEST_ID).filter(sane).cloned();
    RequestId(sent.unwrap_or_else(|| {
        let text = format!("{:032x}", rand::random::<u128>());
        HeaderValue::from_str(&text).expect("hexadecimal digits are fit for a header")
    }))
}

/// The trace id of a well-formed `traceparent`: 32 hexadecimal digits, not all zero.
pub(super) fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(TRACEPARENT)?.to_str().ok()?.split('-');
    let lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mut part = |length: usize| parts.next().filter(|part| part.len() == length && lower(part));
    let (version, trace, parent) = (part(2)?, part(32)?, part(16)?);
    part(2)?;
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (version != "ff" && !zero(trace) && !zero(parent)).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn sane_ids_are_kept_and_others_replaced() {
        assert_eq!(of(&with(X_REQUEST_ID, "Order-17.a_b")).to_string(), "Order-17.a_b");
        for odd in ["", "a b", "a\tb", "<script>", &"x".repeat(65)] {
            let made = of(&with(X_REQUEST_ID, odd)).to_string();
            assert_ne!(made, odd);
            assert_eq!(made.len(), 32);
        }
        assert_ne!(of(&HeaderMap::new()).to_string(), of(&HeaderMap::new()).to_string());
    }

    #[test]
    fn trace_ids_come_from_well_formed_parents_only() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(trace_id(&with(TRACEPARENT, &parent)), Some(trace));
        for odd in [
            "",
            "00",
            &parent[..50],
            &parent.to_uppercase(),
            &parent.replace(trace, &"0".repeat(32)),
            &parent.replacen("00", "ff", 1),
        ] {
            assert_eq!(trace_id(&with(TRACEPARENT, odd)), None, "{odd}");
        }
    }
}
