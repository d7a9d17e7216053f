//! Members of an object as they came: not there, of the wrong kind, or what they must be.
//!
//! The bodies are read straight into typed fields, without a tree, and borrow their strings. A field of the wrong kind
//! does not end the reading, so that the failure can name the field: `outputs[2].quantity: must be …`. `null` is the
//! same as not there. A field that stands there twice, or that nobody knows, ends it: serde's message names it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use holdfast_tokens::Name;
use holdfast_tokens::limits::{BATCH_TOKENS_MAX, NAME_BYTES_MAX};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::limits::{
    ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTE_VALUE_CHARS_MAX, ATTRIBUTES_MAX, TOKEN_NAME_CHARS_MAX,
};

/// Where an object stands in the body.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    /// It is the body.
    Body,
    /// It is a member of the body.
    In(&'p str),
    /// It is an entry of a list of the body.
    Entry(&'p str, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Body => Ok(()),
            Place::In(name) => write!(f, "{name}."),
            Place::Entry(list, at) => write!(f, "{list}[{at}]."),
        }
    }
}

impl Place<'_> {
    /// What is wrong with a member of the object there.
    pub(super) fn wrong(self, name: &str, problem: impl fmt::Display) -> String {
        format!("{self}{name}: {problem}")
    }
}

/// A member of an object.
#[derive(Debug, Default)]
pub(super) enum Given<T> {
    /// Not there, or `null`.
    #[default]
    Absent,
    /// There, and not what it must be.
    Wrong,
    /// There.
    Is(T),
}

impl<T> Given<T> {
    /// The member, if it is there.
    pub(super) fn optional(self, at: Place<'_>, name: &str, kind: &str) -> Result<Option<T>, String> {
        match self {
            Given::Absent => Ok(None),
            Given::Wrong => Err(at.wrong(name, format_args!("must be {kind}"))),
            Given::Is(value) => Ok(Some(value)),
        }
    }
}

/// A string, borrowed from the body where it has no escapes.
#[derive(Debug)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

const A_STRING: &str = "a string";
const A_WHOLE: &str = "a whole number as a string, such as \"100\"";

/// A name within the bound on characters. What is short in bytes is short in characters.
fn bounded(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if name.len() > TOKEN_NAME_CHARS_MAX && name.chars().count() > TOKEN_NAME_CHARS_MAX {
        return Err(format!("must have at most {TOKEN_NAME_CHARS_MAX} characters"));
    }
    Ok(())
}

/// A name such as a spender or a wallet.
pub(in crate::tokens) fn name(text: &str) -> Result<Name, String> {
    bounded(text).map(|()| text.into())
}

/// A public key; some are longer than names.
pub(in crate::tokens) fn public_key(text: &str) -> Result<Name, String> {
    match text.len() {
        0 => Err("must not be empty".to_owned()),
        1..=NAME_BYTES_MAX => Ok(text.into()),
        _ => Err(format!("must have at most {NAME_BYTES_MAX} bytes")),
    }
}

/// A whole number below 2^64: digits only, so that each has one spelling.
pub(in crate::tokens) fn whole(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return Err(format!("must be {A_WHOLE}"));
    }
    text.parse().map_err(|_| format!("must be at most {}", u64::MAX))
}

/// A whole number of at least 1.
pub(in crate::tokens) fn positive(text: &str) -> Result<u64, String> {
    match whole(text)? {
        0 => Err("must be at least 1".to_owned()),
        number => Ok(number),
    }
}

impl Given<Text<'_>> {
    fn read<T>(
        self,
        at: Place<'_>,
        name: &str,
        kind: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.optional(at, name, kind)? else { return Ok(None) };
        read(&text.0).map(Some).map_err(|problem| at.wrong(name, problem))
    }

    /// A name, if it is there.
    pub(super) fn name(self, at: Place<'_>, field: &str) -> Result<Option<Name>, String> {
        self.read(at, field, A_STRING, name)
    }

    /// A name that must be there.
    pub(super) fn needed_name(self, at: Place<'_>, field: &str) -> Result<Name, String> {
        self.name(at, field)?.ok_or_else(|| at.wrong(field, "is missing"))
    }

    /// A public key, if it is there.
    pub(super) fn public_key(self, at: Place<'_>, field: &str) -> Result<Option<Name>, String> {
        self.read(at, field, A_STRING, public_key)
    }

    /// A whole number, 0 included, if it is there.
    pub(super) fn whole(self, at: Place<'_>, field: &str) -> Result<Option<u64>, String> {
        self.read(at, field, A_WHOLE, whole)
    }

    /// A quantity of at least 1, if it is there.
    pub(super) fn positive(self, at: Place<'_>, field: &str) -> Result<Option<u64>, String> {
        self.read(at, field, A_WHOLE, positive)
    }

    /// A quantity of at least 1 that must be there.
    pub(super) fn quantity(self, at: Place<'_>, field: &str) -> Result<u64, String> {
        self.positive(at, field)?.ok_or_else(|| at.wrong(field, "is missing"))
    }

    /// One of the words that are possible, if it is there.
    pub(super) fn word<T: Copy>(
        self,
        at: Place<'_>,
        field: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, String> {
        self.read(at, field, A_STRING, |text| {
            let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
            found.ok_or_else(|| {
                let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                format!("must be one of {}", all.join(", "))
            })
        })
    }
}

/// A JSON number without sign and fraction: counts and milliseconds.
#[derive(Debug)]
pub(super) struct Count(u64);

impl Given<Count> {
    /// A count from `min` to `max`, if it is there.
    pub(super) fn within(
        self,
        at: Place<'_>,
        field: &str,
        min: u64,
        max: u64,
    ) -> Result<Option<u64>, String> {
        let wrong = || at.wrong(field, format_args!("must be a number from {min} to {max}"));
        match self {
            Given::Absent => Ok(None),
            Given::Is(Count(count)) if (min..=max).contains(&count) => Ok(Some(count)),
            Given::Is(_) | Given::Wrong => Err(wrong()),
        }
    }
}

/// `true` or `false`.
#[derive(Debug)]
pub(super) struct Flag(pub(super) bool);

/// The fields of an object.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

/// A list, read only so far as it may be long; beyond that it is counted.
#[derive(Debug)]
pub(super) struct List<T> {
    kept: Vec<Given<T>>,
    count: usize,
}

impl<T> Given<List<T>> {
    /// The entries of a list, each as what `read` makes of it. `None`: there is no list.
    pub(super) fn entries<R>(
        self,
        name: &str,
        kind: &str,
        mut read: impl FnMut(T, usize) -> Result<R, String>,
    ) -> Result<Option<Vec<R>>, String> {
        let Some(list) = self.optional(Place::Body, name, "a list")? else { return Ok(None) };
        if list.count > BATCH_TOKENS_MAX {
            let problem = format_args!("has {} entries, {BATCH_TOKENS_MAX} are allowed", list.count);
            return Err(Place::Body.wrong(name, problem));
        }
        let entries = list.kept.into_iter().enumerate().map(|(at, entry)| match entry {
            Given::Is(entry) => read(entry, at),
            Given::Absent | Given::Wrong => Err(format!("{name}[{at}]: must be {kind}")),
        });
        entries.collect::<Result<_, _>>().map(Some)
    }
}

/// Names and values; or what is wrong with them.
#[derive(Debug)]
pub(super) struct Attributes(Result<BTreeMap<String, String>, String>);

impl Given<Attributes> {
    /// The attributes; none where there is no such member.
    pub(super) fn attributes(self, at: Place<'_>) -> Result<BTreeMap<String, String>, String> {
        const FIELD: &str = "attributes";
        match self.optional(at, FIELD, "an object of strings")? {
            None => Ok(BTreeMap::new()),
            Some(Attributes(read)) => read.map_err(|problem| at.wrong(FIELD, problem)),
        }
    }
}

/// Takes an attribute in, or says why not.
fn attribute(all: &mut BTreeMap<String, String>, name: String, value: Given<Text<'_>>) -> Result<(), String> {
    let Given::Is(Text(value)) = value else { return Err("must be an object of strings".to_owned()) };
    if name.is_empty() || name.chars().count() > ATTRIBUTE_NAME_CHARS_MAX {
        return Err(format!("a name must have 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters"));
    }
    if value.len() > ATTRIBUTE_VALUE_CHARS_MAX && value.chars().count() > ATTRIBUTE_VALUE_CHARS_MAX {
        return Err(format!("{name} must have at most {ATTRIBUTE_VALUE_CHARS_MAX} characters"));
    }
    if all.len() == ATTRIBUTES_MAX {
        return Err(format!("at most {ATTRIBUTES_MAX} are allowed"));
    }
    match all.insert(name, value.into_owned()) {
        None => Ok(()),
        Some(_) => Err("a name stands there twice".to_owned()),
    }
}

/// What a kind of member accepts; all else is of the wrong kind, and skipped.
pub(super) trait Shape<'de>: Sized {
    fn from_text(_text: Cow<'de, str>) -> Option<Self> {
        None
    }
    fn from_count(_count: u64) -> Option<Self> {
        None
    }
    fn from_flag(_flag: bool) -> Option<Self> {
        None
    }
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Option<Self>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de: 'a, 'a> Shape<'de> for Text<'a> {
    fn from_text(text: Cow<'de, str>) -> Option<Text<'a>> {
        Some(Text(text))
    }
}

impl Shape<'_> for Count {
    fn from_count(count: u64) -> Option<Count> {
        Some(Count(count))
    }
}

impl Shape<'_> for Flag {
    fn from_flag(flag: bool) -> Option<Flag> {
        Some(Flag(flag))
    }
}

impl<'de, T: Deserialize<'de>> Shape<'de> for Object<T> {
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Option<Object<T>>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|fields| Some(Object(fields)))
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for List<T> {
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Option<List<T>>, A::Error> {
        let mut list = List { kept: Vec::new(), count: 0 };
        while list.count < BATCH_TOKENS_MAX {
            let Some(entry) = seq.next_element()? else { return Ok(Some(list)) };
            list.kept.push(entry);
            list.count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            list.count += 1;
        }
        Ok(Some(list))
    }
}

impl<'de> Shape<'de> for Attributes {
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Attributes>, A::Error> {
        let mut all = BTreeMap::new();
        let mut problem = None;
        while let Some((name, value)) = map.next_entry::<String, Given<Text<'de>>>()? {
            if problem.is_none() {
                problem = attribute(&mut all, name, value).err();
            }
        }
        Ok(Some(Attributes(problem.map_or(Ok(all), Err))))
    }
}

struct GivenVisitor<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for GivenVisitor<T> {
    type Value = Given<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Given<T>, E> {
        Ok(T::from_text(Cow::Borrowed(text)).map_or(Given::Wrong, Given::Is))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Given<T>, E> {
        self.visit_string(text.to_owned())
    }
    fn visit_string<E: Error>(self, text: String) -> Result<Given<T>, E> {
        Ok(T::from_text(Cow::Owned(text)).map_or(Given::Wrong, Given::Is))
    }
    fn visit_u64<E: Error>(self, count: u64) -> Result<Given<T>, E> {
        Ok(T::from_count(count).map_or(Given::Wrong, Given::Is))
    }
    fn visit_bool<E: Error>(self, flag: bool) -> Result<Given<T>, E> {
        Ok(T::from_flag(flag).map_or(Given::Wrong, Given::Is))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given<T>, A::Error> {
        Ok(T::from_map(map)?.map_or(Given::Wrong, Given::Is))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Given<T>, A::Error> {
        Ok(T::from_seq(seq)?.map_or(Given::Wrong, Given::Is))
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Given<T>, E> {
        Ok(Given::Wrong)
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Given<T>, E> {
        Ok(Given::Wrong)
    }
    fn visit_unit<E: Error>(self) -> Result<Given<T>, E> {
        Ok(Given::Absent)
    }
}

impl<'de, T: Shape<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given<T>, D::Error> {
        deserializer.deserialize_any(GivenVisitor(PhantomData))
    }
}

/// An object from wherever it is written: the bytes of a body, or a value that was read before.
pub(super) fn object<'de, T, D>(source: D) -> Result<T, String>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    match Given::<Object<T>>::deserialize(source).map_err(|error| shortened(&error))? {
        Given::Is(Object(fields)) => Ok(fields),
        Given::Absent | Given::Wrong => Err("must be a JSON object".to_owned()),
    }
}

/// What serde says, cut: it repeats what the caller sent.
pub(super) fn shortened(error: &impl fmt::Display) -> String {
    const CHARS_MAX: usize = 300;
    let text = error.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
