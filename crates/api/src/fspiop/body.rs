//! Bodies as JSON: what is there, what is missing, what is of the wrong kind.
//!
//! The known fields are picked out of the text without building a tree; unknown ones are skipped, however deep they
//! are, and travel on with the bytes. A known field that stands there twice is refused: two readers of the same
//! signed bytes must not be able to see two different amounts.
//!
//! `null` is a value of the wrong kind, not an absent field.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest, Sha256};

use super::fields::{self, Must};
use crate::error::ApiError;

/// Entries that an extension list may have.
const EXTENSIONS_MAX: usize = 16;

/// A member of an object: not there, of another kind than it must be, or what it must be.
#[derive(Debug, Default)]
pub(super) enum Member<T> {
    #[default]
    Absent,
    Wrong,
    Is(T),
}

impl<T> Member<T> {
    /// The member, if it is there.
    pub(super) fn optional(&self, name: &str, kind: &str) -> Result<Option<&T>, ApiError> {
        match self {
            Member::Absent => Ok(None),
            Member::Wrong => Err(ApiError::malformed(format!("{name} must be {kind}"))),
            Member::Is(value) => Ok(Some(value)),
        }
    }

    /// The member, which must be there.
    pub(super) fn required(&self, name: &str, kind: &str) -> Result<&T, ApiError> {
        self.optional(name, kind)?.ok_or_else(|| ApiError::missing(format!("{name} is not there")))
    }
}

/// A member that must be a string.
pub(super) type Text<'a> = Member<Str<'a>>;
/// A string, borrowed from the body where it has no escapes.
#[derive(Debug)]
pub(super) struct Str<'a>(Cow<'a, str>);

impl Text<'_> {
    /// The text as what `read` makes of it; it must be there.
    pub(super) fn read<'t, T>(
        &'t self,
        name: &str,
        read: impl FnOnce(&'t str) -> Result<T, Must>,
    ) -> Result<T, ApiError> {
        let text = self.required(name, "a string")?;
        read(&text.0).map_err(|must| ApiError::malformed(format!("{name} {must}")))
    }

    /// The same for a field that may be left out.
    pub(super) fn read_optional<'t, T>(
        &'t self,
        name: &str,
        read: impl FnOnce(&'t str) -> Result<T, Must>,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.optional(name, "a string")? else { return Ok(None) };
        read(&text.0).map(Some).map_err(|must| ApiError::malformed(format!("{name} {must}")))
    }

    /// The text itself, where it was read before.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Member::Is(text) => &text.0,
            Member::Absent | Member::Wrong => "",
        }
    }
}

/// A member that must be an object.
pub(super) type Object<T> = Member<Fields<T>>;
/// The fields of an object.
#[derive(Debug)]
pub(super) struct Fields<T>(pub(super) T);

/// A member that must be a list of objects; entries beyond what is allowed are counted, not kept.
#[derive(Debug)]
pub(super) struct Entries<T> {
    kept: Vec<Object<T>>,
    count: usize,
}

/// What a kind of member accepts; everything else is of the wrong kind, and skipped.
trait Shape<'de>: Sized {
    fn from_borrowed(_text: &'de str) -> Option<Self> {
        None
    }
    fn from_owned(_text: String) -> Option<Self> {
        None
    }
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        skip_map(map).map(|()| None)
    }
    fn from_seq<A: SeqAccess<'de>>(seq: A) -> Result<Option<Self>, A::Error> {
        skip_seq(seq).map(|()| None)
    }
}

fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

impl<'de: 'a, 'a> Shape<'de> for Str<'a> {
    fn from_borrowed(text: &'de str) -> Option<Str<'a>> {
        Some(Str(Cow::Borrowed(text)))
    }
    fn from_owned(text: String) -> Option<Str<'a>> {
        Some(Str(Cow::Owned(text)))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Fields<T> {
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Option<Fields<T>>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|fields| Some(Fields(fields)))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Entries<T> {
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Entries<T>>, A::Error> {
        let mut entries = Entries { kept: Vec::new(), count: 0 };
        while entries.count < EXTENSIONS_MAX {
            let Some(entry) = seq.next_element::<Object<T>>()? else { return Ok(Some(entries)) };
            entries.kept.push(entry);
            entries.count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            entries.count += 1;
        }
        Ok(Some(entries))
    }
}

struct MemberVisitor<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for MemberVisitor<T> {
    type Value = Member<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Member<T>, E> {
        Ok(T::from_borrowed(text).map_or(Member::Wrong, Member::Is))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Member<T>, E> {
        self.visit_string(text.to_owned())
    }
    fn visit_string<E: Error>(self, text: String) -> Result<Member<T>, E> {
        Ok(T::from_owned(text).map_or(Member::Wrong, Member::Is))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Member<T>, A::Error> {
        Ok(T::from_map(map)?.map_or(Member::Wrong, Member::Is))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Member<T>, A::Error> {
        Ok(T::from_seq(seq)?.map_or(Member::Wrong, Member::Is))
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<Member<T>, E> {
        Ok(Member::Wrong)
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Member<T>, E> {
        Ok(Member::Wrong)
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<Member<T>, E> {
        Ok(Member::Wrong)
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Member<T>, E> {
        Ok(Member::Wrong)
    }
    fn visit_unit<E: Error>(self) -> Result<Member<T>, E> {
        Ok(Member::Wrong)
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Member<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Member<T>, D::Error> {
        deserializer.deserialize_any(MemberVisitor(PhantomData))
    }
}

/// Reads a body, which must be one JSON object in UTF-8.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| ApiError::malformed("the body is not UTF-8"))?;
    let parsed: Object<T> = serde_json::from_str(text)
        .map_err(|error| ApiError::malformed(format!("the body cannot be read: {error}")))?;
    match parsed {
        Member::Is(Fields(fields)) => Ok(fields),
        Member::Absent | Member::Wrong => Err(ApiError::malformed("the body must be a JSON object")),
    }
}

/// ExtensionList.
#[derive(Debug, Deserialize)]
pub(super) struct ExtensionList<'a> {
    #[serde(borrow, default)]
    extension: Member<Entries<Extension<'a>>>,
}

/// One extension.
#[derive(Debug, Deserialize)]
pub(super) struct Extension<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(borrow, default)]
    value: Text<'a>,
}

/// Tests an extension list; its digest is over keys and values in their order, each with its length. `None`: there
/// is none.
pub(super) fn extensions(list: &Object<ExtensionList<'_>>, name: &str) -> Result<Option<[u8; 32]>, ApiError> {
    let Some(Fields(list)) = list.optional(name, "an object")? else { return Ok(None) };
    let name = format!("{name}.extension");
    let entries = list.extension.required(&name, "a list")?;
    if entries.count > EXTENSIONS_MAX {
        let detail = format!("{name} has {} entries, {EXTENSIONS_MAX} are allowed", entries.count);
        return Err(ApiError::new(StatusCode::BAD_REQUEST, 3103, detail));
    }
    if entries.count == 0 {
        return Err(ApiError::malformed(format!("{name} must have at least one entry")));
    }
    let mut digest = Sha256::new();
    for (at, entry) in entries.kept.iter().enumerate() {
        let name = format!("{name}[{at}]");
        let Fields(entry) = entry.required(&name, "an object")?;
        for text in [
            entry.key.read(&format!("{name}.key"), fields::extension_key)?,
            entry.value.read(&format!("{name}.value"), fields::extension_value)?,
        ] {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
    }
    Ok(Some(digest.finalize().into()))
}

/// The value under a key of a list that [`extensions`] found in order; a key of ours stands there once.
pub(super) fn extension<'t>(
    list: &'t Object<ExtensionList<'_>>,
    key: &str,
) -> Result<Option<&'t str>, ApiError> {
    let Member::Is(Fields(ExtensionList { extension: Member::Is(entries) })) = list else { return Ok(None) };
    let mut found = entries.kept.iter().filter_map(|entry| match entry {
        Member::Is(Fields(entry)) if entry.key.as_str() == key => Some(entry.value.as_str()),
        _ => None,
    });
    let first = found.next();
    if found.next().is_some() {
        let detail = format!("the extension {key} stands there twice");
        return Err(ApiError::invalid(detail));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample<'a> {
        #[serde(borrow, default)]
        text: Text<'a>,
        #[serde(borrow, default)]
        list: Object<ExtensionList<'a>>,
    }

    fn text_of(body: &str) -> Result<String, (u16, String)> {
        let sample: Sample<'_> = parse(body.as_bytes()).map_err(|error| (error.code, error.detail))?;
        sample.text.read("text", |text| Ok(text.to_owned())).map_err(|error| (error.code, error.detail))
    }

    fn list_of(body: &str) -> Result<Option<[u8; 32]>, u16> {
        let sample: Sample<'_> = parse(body.as_bytes()).map_err(|error| error.code)?;
        extensions(&sample.list, "list").map_err(|error| error.code)
    }

    #[test]
    fn absent_wrong_and_right_are_told_apart() {
        assert_eq!(text_of(r#"{"text":"a"}"#), Ok("a".to_owned()));
        assert_eq!(text_of(r#"{"t\u0065xt":"\u0061\n"}"#), Ok("a\n".to_owned()));
        assert_eq!(text_of("{}"), Err((3102, "text is not there".to_owned())));
        for wrong in [
            "1",
            "-1",
            "1.5",
            "true",
            "null",
            "[]",
            "[[\"a\"]]",
            "{}",
            "{\"text\":\"a\"}",
            "18446744073709551615",
        ] {
            let refused = text_of(&format!("{{\"text\":{wrong}}}"));
            assert_eq!(refused, Err((3101, "text must be a string".to_owned())), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_object_is_malformed() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(text_of(&deep).unwrap_err().0, 3102, "unknown fields may be as deep as they like");
        let bad = [
            "",
            " ",
            "null",
            "1",
            "\"text\"",
            "[]",
            "[\"a\"]",
            "{",
            "{\"text\":\"a\"",
            "{\"text\":\"a\"}}",
            "{\"text\":\"a\",}",
            "{'text':'a'}",
            "{\"text\":\"a\"} x",
            "{\"text\":\"\\ud800\"}",
            "\u{feff}{}",
            "{\"text\":\"a\nb\"}",
            "{\"text\":1e999}",
            "{\"text\":NaN}",
            "{\"text\":01}",
        ];
        for body in bad {
            assert_eq!(text_of(body).unwrap_err().0, 3101, "{body}");
        }
        let open = "[".repeat(200_000);
        assert_eq!(text_of(&format!("{{\"text\":{open}")).unwrap_err().0, 3101);
        assert_eq!(parse::<Sample<'_>>(b"{\"x\":\"\xff\"}").unwrap_err().code, 3101);
    }

    #[test]
    fn a_known_field_stands_there_once() {
        let (code, detail) = text_of(r#"{"text":"a","text":"b"}"#).unwrap_err();
        assert_eq!(code, 3101);
        assert!(detail.contains("duplicate field"), "{detail}");
        assert_eq!(text_of(r#"{"text":"a","t\u0065xt":"a"}"#).unwrap_err().0, 3101);
        assert_eq!(text_of(r#"{"text":"a","other":1,"other":2}"#), Ok("a".to_owned()));
    }

    #[test]
    fn extension_lists_are_bounded() {
        let of = |count: usize| {
            let entry = r#"{"key":"k","value":"v"}"#;
            format!("{{\"list\":{{\"extension\":[{}]}}}}", vec![entry; count].join(","))
        };
        assert_eq!(list_of("{}"), Ok(None));
        assert!(list_of(&of(1)).unwrap().is_some() && list_of(&of(16)).unwrap().is_some());
        assert_eq!((list_of(&of(17)), list_of(&of(1000))), (Err(3103), Err(3103)));
        assert_eq!(list_of(&of(0)), Err(3101));
        for (list, code) in [
            (r#"{}"#, 3102),
            (r#"[]"#, 3101),
            (r#"{"extension":{}}"#, 3101),
            (r#"{"extension":["k"]}"#, 3101),
            (r#"{"extension":[{"key":"k"}]}"#, 3102),
            (r#"{"extension":[{"key":"k","value":1}]}"#, 3101),
            (r#"{"extension":[{"key":"","value":"v"}]}"#, 3101),
        ] {
            assert_eq!(list_of(&format!("{{\"list\":{list}}}")), Err(code), "{list}");
        }
    }

    #[test]
    fn the_digest_follows_what_the_list_says_not_how_it_is_written() {
        let one = |list: &str| list_of(&format!("{{\"list\":{list}}}")).unwrap();
        let plain = one(r#"{"extension":[{"key":"a","value":"bc"}]}"#);
        assert_eq!(plain, one(r#"{ "extension" : [ {"value":"b\u0063", "key":"a", "more":1} ] }"#));
        assert_ne!(plain, one(r#"{"extension":[{"key":"ab","value":"c"}]}"#));
        assert_ne!(plain, one(r#"{"extension":[{"key":"a","value":"bc"},{"key":"a","value":"bc"}]}"#));
    }
}
