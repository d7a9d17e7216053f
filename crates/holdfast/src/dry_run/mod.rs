//! Dry runs: a JSON case goes through the pure decisions of `holdfast_domain`, and their effects come out as
//! JSON. One file per kind of case; what they have in common is how a field's text becomes a value.
//!
//! Cases are strict: a field that is not known, missing or no such value makes the whole file bad, since a typo
//! that is passed over would let the answer speak about another case than the one that was meant.

mod position;

pub(crate) use position::run as position;

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error};

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
