//! Header rules: what must be there, in which form, and what of it travels on.

use axum::http::header::{ACCEPT, CONTENT_TYPE, DATE};
use axum::http::{HeaderMap, HeaderName};
use holdfast_domain::ids::Millis;
use holdfast_wire::fspiop::http_date;

use super::media_type::{self, Accept, ContentType};
use super::{dates, fields};
use crate::error::ApiError;
use crate::limits::FSPIOP_HEADER_BYTES_MAX;

pub(super) const FSPIOP_SOURCE: HeaderName = HeaderName::from_static("fspiop-source");
const FSPIOP_DESTINATION: HeaderName = HeaderName::from_static("fspiop-destination");
const FSPIOP_SIGNATURE: HeaderName = HeaderName::from_static("fspiop-signature");

/// Headers that end here: those of the connection, the caller's credentials, and what is said to this hub alone.
/// Everything else travels on.
const END_HERE: [&str; 17] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "prefer",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// The one value of a header, as text; `None` if it is not there. Twice is once too often: which of the two counts
/// would be anybody's guess.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName, shown: &str) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::malformed(format!("{shown} stands there twice")));
    }
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some).map_err(|_| ApiError::malformed(format!("{shown} is not text")))
}

fn missing(shown: &str) -> ApiError {
    ApiError::missing(format!("the header {shown} is not there"))
}

/// Tests `Accept`, which POST and GET need; those who wait may leave it out.
pub(super) fn accept(headers: &HeaderMap, waits: bool) -> Result<Accept, ApiError> {
    let mut lines = Vec::new();
    for value in headers.get_all(ACCEPT) {
        lines.push(value.to_str().map_err(|_| ApiError::malformed("Accept is not text"))?);
    }
    match lines.as_slice() {
        [] if waits => Ok(Accept::PlainJson),
        [] => Err(missing("Accept")),
        [line] => media_type::accept(line, waits),
        several => media_type::accept(&several.join(","), waits),
    }
}

/// Tests `Date`, which those who wait may leave out.
pub(super) fn date(headers: &HeaderMap, waits: bool) -> Result<(), ApiError> {
    match single(headers, &DATE, "Date")? {
        Some(date) if dates::is_http_date(date) => Ok(()),
        Some(_) => Err(ApiError::malformed("Date must have the form Tue, 15 Nov 1994 08:12:31 GMT")),
        None if waits => Ok(()),
        None => Err(missing("Date")),
    }
}

/// Tests that the headers together are not too long.
pub(super) fn size(headers: &HeaderMap) -> Result<(), ApiError> {
    // As on the wire: colon, space and line end come on top.
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes <= FSPIOP_HEADER_BYTES_MAX {
        return Ok(());
    }
    Err(ApiError::too_large(format!("the headers have more than {FSPIOP_HEADER_BYTES_MAX} bytes")))
}

/// Tests `Content-Type`, if it is there.
pub(super) fn content_type_if_any(headers: &HeaderMap, waits: bool) -> Result<Option<ContentType>, ApiError> {
    let text = single(headers, &CONTENT_TYPE, "Content-Type")?;
    text.map(|text| media_type::content_type(text, waits)).transpose()
}

/// Tests `Content-Type`, which must be there.
pub(super) fn content_type(headers: &HeaderMap, waits: bool) -> Result<ContentType, ApiError> {
    content_type_if_any(headers, waits)?.ok_or_else(|| missing("Content-Type"))
}

/// The name of the sender. The name of a destination, where there is one, must be one.
pub(super) fn source(headers: &HeaderMap) -> Result<&str, ApiError> {
    let named = |header: &HeaderName, shown: &str| {
        let name = single(headers, header, shown)?.map(fields::fsp_id).transpose();
        name.map_err(|must| ApiError::malformed(format!("{shown} {must}")))
    };
    let source = named(&FSPIOP_SOURCE, "FSPIOP-Source")?.ok_or_else(|| missing("FSPIOP-Source"))?;
    named(&FSPIOP_DESTINATION, "FSPIOP-Destination")?;
    Ok(source)
}

/// What the headers of a message are replaced or completed with, so that it is one of the standard when it goes on.
pub(super) struct Completion {
    pub(super) content_type: ContentType,
    /// `None`: the verb has no `Accept`, and none travels on.
    pub(super) accept: Option<Accept>,
    /// The date of a message that came without.
    pub(super) now: Millis,
}

/// The headers that travel on: names in lower case, values as they came. What is signed gets none that it came without.
pub(super) fn travelling(headers: &HeaderMap, completion: &Completion) -> Vec<(String, Vec<u8>)> {
    let nominated = nominated_by_connection(headers);
    let mut kept: Vec<(String, Vec<u8>)> = Vec::with_capacity(headers.len() + 1);
    let mut put = |name: &HeaderName, value: &[u8]| kept.push((name.as_str().to_owned(), value.to_vec()));
    for (name, value) in headers {
        let replaced = match *name {
            CONTENT_TYPE => completion.content_type == ContentType::PlainJson,
            ACCEPT => completion.accept != Some(Accept::Transfers),
            _ => false,
        };
        let ends_here = END_HERE.binary_search(&name.as_str()).is_ok()
            || nominated.iter().any(|other| other.eq_ignore_ascii_case(name.as_str()));
        if !replaced && !ends_here {
            put(name, value.as_bytes());
        }
    }
    if completion.content_type == ContentType::PlainJson {
        put(&CONTENT_TYPE, media_type::NEWEST.as_bytes());
    }
    let may_add = |name: HeaderName| headers.contains_key(name) || !headers.contains_key(FSPIOP_SIGNATURE);
    if completion.accept == Some(Accept::PlainJson) && may_add(ACCEPT) {
        put(&ACCEPT, media_type::ANY_MINOR.as_bytes());
    }
    if !headers.contains_key(DATE) && may_add(DATE) {
        put(&DATE, http_date(completion.now).as_bytes());
    }
    kept
}

/// Headers that the sender's `Connection` says are for this connection only. The standard's own are not its to name.
fn nominated_by_connection(headers: &HeaderMap) -> Vec<&str> {
    let own = |name: &&str| {
        !name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("fspiop-"))
            && ![CONTENT_TYPE, ACCEPT, DATE].iter().any(|kept| name.eq_ignore_ascii_case(kept.as_str()))
    };
    let lines = headers.get_all(axum::http::header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fspiop::media_type::Version;
    use axum::http::HeaderValue;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    fn code<R: std::fmt::Debug>(result: Result<R, ApiError>) -> u16 {
        result.unwrap_err().code
    }

    #[test]
    fn headers_are_there_once_and_well_formed() {
        assert_eq!(code(accept(&map(&[]), false)), 3102);
        assert_eq!(accept(&map(&[]), true), Ok(Accept::PlainJson));
        assert_eq!(code(accept(&map(&[("accept", "*/*")]), false)), 3101);
        let split = map(&[("accept", "text/html"), ("accept", media_type::ANY_MINOR)]);
        assert_eq!(accept(&split, false), Ok(Accept::Transfers));
        assert_eq!(code(date(&map(&[]), false)), 3102);
        assert_eq!(date(&map(&[]), true), Ok(()));
        assert_eq!(code(date(&map(&[("date", "now")]), true)), 3101);
        let twice = [("date", "Tue, 15 Nov 1994 08:12:31 GMT"); 2];
        assert_eq!((date(&map(&twice[..1]), false), code(date(&map(&twice), false))), (Ok(()), 3101));
        assert_eq!(code(content_type(&map(&[]), true)), 3102);
        assert_eq!(content_type_if_any(&map(&[]), false), Ok(None));
    }

    #[test]
    fn a_source_is_named_once() {
        assert_eq!(code(source(&map(&[]))), 3102);
        assert_eq!(source(&map(&[("FSPIOP-Source", "payer")])), Ok("payer"));
        assert_eq!(code(source(&map(&[("fspiop-source", "a"), ("fspiop-source", "b")]))), 3101);
        for bad in ["", &"x".repeat(33)] {
            assert_eq!(code(source(&map(&[("fspiop-source", bad)]))), 3101, "{bad}");
        }
        let long = "x".repeat(33);
        assert_eq!(code(source(&map(&[("fspiop-source", "a"), ("fspiop-destination", &long)]))), 3101);
    }

    #[test]
    fn headers_are_bounded() {
        assert_eq!(size(&map(&[("x-a", "b")])), Ok(()));
        let long = "x".repeat(FSPIOP_HEADER_BYTES_MAX / 2);
        assert_eq!(code(size(&map(&[("x-a", &long), ("x-b", &long)]))), 3104);
    }

    #[test]
    fn the_list_can_be_searched() {
        assert!(END_HERE.is_sorted());
    }

    const SENT: [(&str, &str); 16] = [
        ("Host", "hub"),
        ("Content-Length", "12"),
        ("Connection", "close, X-Hop, Date, FSPIOP-Signature"),
        ("Authorization", "Bearer hf_x"),
        ("X-Api-Key", "hf_x"),
        ("Prefer", "wait=5"),
        ("X-Hop", "1"),
        ("Content-Type", "application/vnd.interoperability.transfers+json;version=1.0"),
        ("Accept", "application/vnd.interoperability.transfers+json;version=1"),
        ("Date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("FSPIOP-Source", "Payer"),
        ("FSPIOP-Destination", "payee"),
        ("FSPIOP-Signature", "{\"signature\":\"x\"}"),
        ("traceparent", "00-a-b-01"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Unknown", "caf\u{e9}"),
    ];

    #[test]
    fn what_travels_on_is_as_it_came() {
        let names = |accept| {
            let completion =
                Completion { content_type: ContentType::Transfers(Version::V1_0), accept, now: 0 };
            travelling(&map(&SENT), &completion)
        };
        let expected = |skipped: &str| -> Vec<(String, Vec<u8>)> {
            let rest = SENT[7..].iter().filter(|(name, _)| *name != skipped);
            rest.map(|(name, value)| (name.to_lowercase(), value.as_bytes().to_vec())).collect()
        };
        let sorted = |mut pairs: Vec<(String, Vec<u8>)>| {
            pairs.sort();
            pairs
        };
        assert_eq!(sorted(names(Some(Accept::Transfers))), sorted(expected("")), "POST");
        assert_eq!(sorted(names(None)), sorted(expected("Accept")), "PUT");
    }

    #[test]
    fn a_plain_message_travels_on_as_one_of_the_standard() {
        let plain = map(&[("content-type", "application/json"), ("accept", "*/*"), ("fspiop-source", "p")]);
        let completion = Completion {
            content_type: ContentType::PlainJson,
            accept: Some(Accept::PlainJson),
            now: 784_887_151_000,
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(
            travelling(&plain, &completion),
            [
                pair("fspiop-source", "p"),
                pair("content-type", media_type::NEWEST),
                pair("accept", media_type::ANY_MINOR),
                pair("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
            ]
        );
        // With a signature nothing is added; a media type is still put into the standard's words.
        let signed = map(&[("content-type", "application/json"), ("fspiop-signature", "{}")]);
        assert_eq!(
            travelling(&signed, &completion),
            [pair("fspiop-signature", "{}"), pair("content-type", media_type::NEWEST)]
        );
    }
}
