//! Dry runs: a JSON case goes through the decisions that a hub makes, and their outcome is printed as JSON. One file
//! per kind of case; what they have in common is how a field's text becomes a value.
//!
//! Cases are strict: a field that is not known, missing or no such value makes the whole file bad, since a typo
//! that is passed over would let the answer speak about another case than the one that was meant.

mod checkout;
mod position;
mod strict;
mod tokens;

pub(crate) use checkout::run as checkout;
pub(crate) use position::run as position;
pub(crate) use tokens::run as tokens;

use strict::Strict;

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A part of a case that is written as an object with named fields.
trait Part: for<'de> Deserialize<'de> {
    /// What it is, with its article.
    const WHAT: &'static str;
}

/// Says of types of a case what they are.
macro_rules! parts {
    ($($part:ty: $what:literal),+ $(,)?) => {
        $(impl super::Part for $part {
            const WHAT: &'static str = $what;
        })+
    };
}
use parts;

/// Takes nothing but an object. What serde derives for a struct would also take an array, field by place.
struct Object<T>(T);

impl<'de, T: Part> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(part: D) -> Result<Object<T>, D::Error> {
        part.deserialize_any(ObjectVisitor(PhantomData)).map(Object)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Part> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as an object with named fields", T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(A::Error::custom(format!("{} is an object with named fields, not a list", T::WHAT)))
    }
}

/// A list of such parts.
fn objects<'de, T: Part, D: Deserializer<'de>>(field: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Object<T>>::deserialize(field)?.into_iter().map(|object| object.0).collect())
}

/// A string field that is parsed: an amount or a balance.
fn parsed<'de, T, D>(field: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(field)?.parse().map_err(D::Error::custom)
}

/// The same, where `null` has a meaning of its own. The field itself must still be there.
fn parsed_or_null<'de, T, D>(field: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    Option::<String>::deserialize(field)?.map(|text| text.parse().map_err(D::Error::custom)).transpose()
}

/// A string field that is one of `known`.
fn named<'de, T, D>(field: D, known: &[T], name: fn(T) -> &'static str) -> Result<T, D::Error>
where
    T: Copy,
    D: Deserializer<'de>,
{
    let text = String::deserialize(field)?;
    known.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|one| name(*one)).collect();
        D::Error::custom(format!("'{text}' is none of {}", names.join(", ")))
    })
}
