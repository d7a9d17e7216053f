//! Who may speak to a hub that knows no keys: programs of this machine, and not a page that a browser of this
//! machine happens to show. Such a page can send requests anywhere, but it cannot hide its `Origin`, and a name that
//! somebody else's DNS points here is not one of ours.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use crate::error::ApiError;

/// Refuses what a foreign page sent, or what was meant for another host.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    refusal(headers).map_or(Ok(()), |reason| Err(ApiError::forbidden(reason)))
}

fn refusal(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let host = text(HOST).unwrap_or("localhost");
    if !is_loopback(host) {
        return Some("this hub serves this machine only: ask it as localhost or 127.0.0.1");
    }
    let origin = text(ORIGIN)?;
    let same = origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host));
    (!same).then_some("a page of another site may not use this hub")
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        refusal(&headers).is_none()
    }

    #[test]
    fn programs_of_this_machine_are_welcome() {
        for host in
            ["localhost", "localhost:4000", "127.0.0.1:4000", "127.9.9.9", "[::1]:4000", "LOCALHOST:1"]
        {
            assert!(verdict(host, None), "{host}");
        }
        assert!(verdict("localhost:4000", Some("http://localhost:4000")));
    }

    #[test]
    fn foreign_pages_and_foreign_names_are_not() {
        for host in ["evil.example", "evil.example:4000", "10.0.0.1:4000", "localhost.evil.example"] {
            assert!(!verdict(host, None), "{host}");
        }
        for origin in ["http://evil.example", "null", "https://localhost:4000", "http://localhost:5000"] {
            assert!(!verdict("localhost:4000", Some(origin)), "{origin}");
        }
    }
}
