//! Values that serde writes as their text and reads from it.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::ids::{Currency, TransferId};
use crate::money::{Amount, Balance};

/// A value that is written as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<T>(pub T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        struct Parse<T>(PhantomData<T>);
        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parse<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Parse(PhantomData))
    }
}

macro_rules! as_text {
    ($($value:ident),+) => {
        $(
            impl Serialize for $value {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    Text(self).serialize(serializer)
                }
            }

            impl<'de> Deserialize<'de> for $value {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$value, D::Error> {
                    Text::deserialize(deserializer).map(|Text(value)| value)
                }
            }
        )+
    };
}

as_text!(TransferId, Currency, Amount, Balance);
