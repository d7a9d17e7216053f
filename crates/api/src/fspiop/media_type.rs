//! Content negotiation: which versions of the transfers API a caller speaks.
//!
//! `Content-Type` names one version with major and minor. `Accept` may list several, name the major alone, or leave
//! the version out. What is well formed but of a version that is not served is 406 with the list of those that are;
//! what is not well formed is 400. The peer hub refuses white space after a comma and a type without version in
//! `Accept`; both are in the standard and are taken here.

use axum::http::StatusCode;

use crate::error::ApiError;

/// The media type of the transfers resource, without its version.
const TRANSFERS: &str = "application/vnd.interoperability.transfers+json";
/// What is put in place of `application/json` when a message is handed on.
pub(super) const NEWEST: &str = "application/vnd.interoperability.transfers+json;version=1.1";
/// The same for `Accept`, in its normal form: any minor.
pub(super) const ANY_MINOR: &str = "application/vnd.interoperability.transfers+json;version=1";
/// Items that are looked at in one `Accept`.
const ACCEPT_ITEMS_MAX: usize = 32;

/// The versions that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1_0,
    V1_1,
}

/// What a `Content-Type` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentType {
    /// The type of the standard, with its version.
    Transfers(Version),
    /// `application/json`, as callers with `Prefer: wait` may say.
    PlainJson,
}

impl ContentType {
    /// The version under which the body is read.
    pub(super) const fn version(self) -> Version {
        match self {
            ContentType::Transfers(version) => version,
            ContentType::PlainJson => Version::V1_1,
        }
    }
}

/// What an `Accept` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accept {
    /// A type and version of the standard.
    Transfers,
    /// `application/json` or `*/*`, as callers with `Prefer: wait` may say.
    PlainJson,
}

/// How one item of a header reads.
enum Item<'a> {
    /// The transfers type with what follows `version=`, if anything does.
    Transfers(Option<&'a str>),
    Other(&'a str),
}

/// Takes one item apart: the type, then at most one parameter with at most one space on either side of the `;`.
fn item(text: &str) -> Item<'_> {
    let (name, parameter) = match text.split_once(';') {
        None => (text, None),
        Some((name, rest)) => (name.strip_suffix(' ').unwrap_or(name), Some(rest)),
    };
    if !name.eq_ignore_ascii_case(TRANSFERS) {
        return Item::Other(name);
    }
    let Some(parameter) = parameter else { return Item::Transfers(None) };
    match parameter.strip_prefix(' ').unwrap_or(parameter).split_once('=') {
        Some((key, version)) if key.eq_ignore_ascii_case("version") => Item::Transfers(Some(version)),
        _ => Item::Other(text),
    }
}

/// Digits as a number is written: at least one, no zero in front.
fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

/// `major.minor`, both numbers.
fn is_full_version(text: &str) -> bool {
    text.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Reads a `Content-Type`. `json_too`: the caller said `Prefer: wait`.
pub(super) fn content_type(text: &str, json_too: bool) -> Result<ContentType, ApiError> {
    match item(text) {
        Item::Transfers(Some("1.0")) => Ok(ContentType::Transfers(Version::V1_0)),
        Item::Transfers(Some("1.1")) => Ok(ContentType::Transfers(Version::V1_1)),
        Item::Transfers(Some(version)) if is_full_version(version) => Err(unsupported("Content-Type")),
        Item::Other(name) if json_too && name.eq_ignore_ascii_case("application/json") => {
            Ok(ContentType::PlainJson)
        }
        _ => Err(ApiError::malformed(format!("Content-Type must be {NEWEST} (or 1.0)"))),
    }
}

/// Reads an `Accept`: one acceptable item is enough. `json_too`: the caller said `Prefer: wait`.
pub(super) fn accept(text: &str, json_too: bool) -> Result<Accept, ApiError> {
    let mut other_version = false;
    let mut plain = false;
    for one in text.split(',').take(ACCEPT_ITEMS_MAX) {
        match item(one.trim_matches([' ', '\t'])) {
            Item::Transfers(None | Some("1" | "1.0" | "1.1")) => return Ok(Accept::Transfers),
            Item::Transfers(Some(version)) => other_version |= is_number(version) || is_full_version(version),
            Item::Other(name) => {
                let json = ["application/json", "application/*", "*/*"];
                plain |= json_too && json.iter().any(|taken| name.eq_ignore_ascii_case(taken));
            }
        }
    }
    match (plain, other_version) {
        (true, _) => Ok(Accept::PlainJson),
        (false, true) => Err(unsupported("Accept")),
        (false, false) => Err(ApiError::malformed(format!("Accept must be {ANY_MINOR}"))),
    }
}

/// 406/3001 with one entry per version: key = major, value = minor.
fn unsupported(header: &str) -> ApiError {
    let detail = format!("{header} asks for a version that is not served; 1.0 and 1.1 are");
    let served = ["0", "1"].map(|minor| ("1".to_owned(), minor.to_owned()));
    ApiError { extensions: served.into(), ..ApiError::new(StatusCode::NOT_ACCEPTABLE, 3001, detail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: &str = TRANSFERS;

    fn code<R>(result: Result<R, ApiError>) -> (u16, u16) {
        result.map_or_else(|error| (error.status.as_u16(), error.code), |_| (200, 0))
    }

    #[test]
    fn a_content_type_names_major_and_minor() {
        for (text, version) in [
            (format!("{T};version=1.0"), Version::V1_0),
            (format!("{T};version=1.1"), Version::V1_1),
            (format!("{T}; version=1.1"), Version::V1_1),
            (format!("{T} ; version=1.1"), Version::V1_1),
            (format!("{T} ;version=1.0"), Version::V1_0),
            (T.to_uppercase() + ";VERSION=1.1", Version::V1_1),
        ] {
            assert_eq!(content_type(&text, false), Ok(ContentType::Transfers(version)), "{text}");
        }
        for version in ["2.0", "1.2", "0.9", "1.10", "10.0", "99999999999999999999.0"] {
            assert_eq!(
                code(content_type(&format!("{T};version={version}"), false)),
                (406, 3001),
                "{version}"
            );
        }
        for text in [
            String::new(),
            T.to_owned(),
            format!("{T};"),
            format!("{T};version"),
            format!("{T};  version=1.1"),
            format!("{T}  ;version=1.1"),
            format!("{T};version=1.1;charset=utf-8"),
            format!("{T};charset=utf-8"),
            format!("{T},{T};version=1.1"),
            "application/json".to_owned(),
            "application/vnd.interoperability.quotes+json;version=1.1".to_owned(),
            "text/plain".to_owned(),
        ] {
            assert_eq!(code(content_type(&text, false)), (400, 3101), "{text}");
        }
        for version in ["", "1", "2", "1.1.1", "01.1", "1.", ".1", "-1.1", "\"1.1\"", "1.1 "] {
            let text = format!("{T};version={version}");
            assert_eq!(code(content_type(&text, false)), (400, 3101), "{text}");
        }
    }

    #[test]
    fn an_accept_is_any_of_its_items() {
        for text in [
            format!("{T};version=1"),
            format!("{T};version=1.0"),
            format!("{T};version=1.1"),
            T.to_owned(),
            format!("{T}; version=1"),
            format!("{T};version=2,{T};version=1"),
            format!("{T};version=2, {T};version=1"),
            format!("{T};version=2 ,\t{T};version=1.0"),
            format!("text/html, {T}"),
        ] {
            assert_eq!(accept(&text, false), Ok(Accept::Transfers), "{text}");
        }
        for text in [
            format!("{T};version=2"),
            format!("{T};version=2.0"),
            format!("{T};version=1.2"),
            format!("{T};version=2, {T};version=3"),
            format!("text/html, {T};version=2"),
        ] {
            assert_eq!(code(accept(&text, false)), (406, 3001), "{text}");
        }
        for text in
            ["", ",", "*/*", "application/json", "text/html", "application/vnd.interoperability.quotes+json"]
        {
            assert_eq!(code(accept(text, false)), (400, 3101), "{text}");
        }
        for text in [format!("{T};version=one"), format!("{T};version=1.1.1"), format!("{T};v=1")] {
            assert_eq!(code(accept(&text, false)), (400, 3101), "{text}");
        }
    }

    #[test]
    fn plain_json_is_for_callers_who_wait() {
        for text in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
            assert_eq!(content_type(text, true), Ok(ContentType::PlainJson), "{text}");
            assert_eq!(code(content_type(text, false)), (400, 3101), "{text}");
        }
        assert_eq!(ContentType::PlainJson.version(), Version::V1_1);
        for text in ["application/json", "*/*", "text/html, application/json;q=0.9", "application/*"] {
            assert_eq!(accept(text, true), Ok(Accept::PlainJson), "{text}");
        }
        assert_eq!(code(accept("text/html", true)), (400, 3101));
        assert_eq!(code(content_type("text/plain", true)), (400, 3101));
    }

    #[test]
    fn a_refusal_lists_the_versions_served() {
        let error = accept(&format!("{T};version=2"), false).unwrap_err();
        let pair = |minor: &str| ("1".to_owned(), minor.to_owned());
        assert_eq!(error.extensions, [pair("0"), pair("1")]);
    }
}
