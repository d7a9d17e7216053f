//! Strings with a rule. Numbers that a double cannot hold are strings here, and each has one spelling.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use holdfast_tokens::limits::{NAME_BYTES_MAX, NO_END};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::limits::TOKEN_NAME_CHARS_MAX;
use crate::times;

/// A string with a rule: how it is read, what a refusal calls it, and its schema. It is written by its `Display`.
pub trait Rule: Sized + fmt::Display {
    /// What must stand there.
    const KIND: &'static str = "a string";

    /// Reads it.
    ///
    /// # Errors
    /// Says what is wrong, in words that follow the name of the member.
    fn read(text: &str) -> Result<Self, String>;

    /// Its schema.
    fn schema() -> Value;
}

/// Reads any string with a rule.
pub(crate) struct TextVisitor<T>(pub(crate) PhantomData<T>);

impl<T: Rule> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::KIND)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(E::custom)
    }
}

/// A schema that was written as a value.
pub(crate) fn schema_of(value: Value) -> Schema {
    value.try_into().unwrap_or_else(|_| Schema::default())
}

/// On the wire, a type is the string that its rule reads and its `Display` writes.
macro_rules! written_as_text {
    ($($name:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str($crate::text::TextVisitor(std::marker::PhantomData))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        inline_schema!($name, <$name as $crate::text::Rule>::schema());
    )+};
}

/// The schema of a type, written wherever the type stands.
macro_rules! inline_schema {
    ($name:ty, $schema:expr) => {
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::text::schema_of($schema)
            }
        }
    };
}

/// A type is shown as what it holds.
macro_rules! shown_as_content {
    ($($name:ty),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    )+};
}

/// What must stand where one of a few words does.
pub(crate) fn one_of(words: &[&str], found: &str) -> String {
    let found = shortened(found);
    match words {
        [] | [_] | [_, _] => format!("must be {}, not '{found}'", words.join(" or ")),
        many => format!("must be one of {}, not '{found}'", many.join(", ")),
    }
}

/// What a caller sent, cut so that it cannot push the reason out of a description.
#[must_use]
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let mut cut: String = text.chars().take(CHARS_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// A member that is one of a few words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $word,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$word,)+];

            /// The word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$word => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::text::Rule for $name {
            fn read(text: &str) -> Result<$name, String> {
                let found = $name::ALL.iter().find(|known| known.word() == text);
                found.copied().ok_or_else(|| $crate::text::one_of(&[$($text),+], text))
            }

            fn schema() -> serde_json::Value {
                serde_json::json!({"type": "string", "enum": [$($text),+]})
            }
        }

        written_as_text!($name);
    };
}

/// A name such as a spender or a wallet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Name(Arc<str>);

impl Name {
    /// The name as the selector has it.
    #[must_use]
    pub fn shared(self) -> holdfast_tokens::Name {
        self.0
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&holdfast_tokens::Name> for Name {
    fn from(name: &holdfast_tokens::Name) -> Name {
        Name(Arc::clone(name))
    }
}

impl From<String> for Name {
    fn from(name: String) -> Name {
        Name(name.into())
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name(name.into())
    }
}

impl Rule for Name {
    fn read(text: &str) -> Result<Name, String> {
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        // What is short in bytes is short in characters.
        if text.len() > TOKEN_NAME_CHARS_MAX && text.chars().count() > TOKEN_NAME_CHARS_MAX {
            return Err(format!("must have at most {TOKEN_NAME_CHARS_MAX} characters"));
        }
        Ok(Name::from(text))
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": TOKEN_NAME_CHARS_MAX})
    }
}

/// A public key; some are longer than names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublicKey(Name);

impl PublicKey {
    /// The key as the selector has it.
    #[must_use]
    pub fn shared(self) -> holdfast_tokens::Name {
        self.0.shared()
    }
}

impl<T> From<T> for PublicKey
where
    Name: From<T>,
{
    fn from(key: T) -> PublicKey {
        PublicKey(Name::from(key))
    }
}

impl Rule for PublicKey {
    fn read(text: &str) -> Result<PublicKey, String> {
        match text.len() {
            0 => Err("must not be empty".to_owned()),
            1..=NAME_BYTES_MAX => Ok(PublicKey(Name::from(text))),
            _ => Err(format!("must have at most {NAME_BYTES_MAX} bytes")),
        }
    }

    fn schema() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX})
    }
}

const A_WHOLE: &str = "a whole number as a string, such as \"100\"";

/// Digits only, so that each number has one spelling.
fn digits(text: &str) -> Result<(), String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return Err(format!("must be {A_WHOLE}"));
    }
    Ok(())
}

/// A number from some least one, that is written by its digits.
macro_rules! digits {
    ($(#[$about:meta])* $name:ident($number:ty), from $least:literal, $pattern:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(pub $number);

        impl From<$number> for $name {
            fn from(number: $number) -> $name {
                $name(number)
            }
        }

        impl Rule for $name {
            const KIND: &'static str = A_WHOLE;

            fn read(text: &str) -> Result<$name, String> {
                digits(text)?;
                match text.parse() {
                    Ok(number) if ($least..).contains(&number) => Ok($name(number)),
                    Ok(_) => Err(format!("must be at least {}", $least)),
                    Err(_) => Err(format!("must be at most {}", <$number>::MAX)),
                }
            }

            fn schema() -> Value {
                json!({"type": "string", "pattern": $pattern, "examples": ["100"]})
            }
        }
    };
}

digits! {
    /// A whole number below 2^64, as a string.
    Whole(u64), from 0, "^(0|[1-9][0-9]{0,19})$"
}

digits! {
    /// A whole number from 1, below 2^64, as a string.
    Quantity(u64), from 1, "^[1-9][0-9]{0,19}$"
}

digits! {
    /// A sum, as a string. It may be beyond what one token can hold.
    Sum(u128), from 0, "^(0|[1-9][0-9]*)$"
}

/// An instant in milliseconds since 1970, on the wire as RFC 3339 has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instant(pub i64);

impl Instant {
    /// The end of a lock; `null` for one that has none.
    #[must_use]
    pub fn end(at: i64) -> Nullable<Instant> {
        Nullable((at != NO_END).then_some(Instant(at)))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&times::format(self.0))
    }
}

impl Rule for Instant {
    const KIND: &'static str = "an instant such as \"2026-11-15T08:24:36.000Z\"";

    fn read(text: &str) -> Result<Instant, String> {
        times::parse(text).map(Instant).ok_or_else(|| format!("must be {}", Self::KIND))
    }

    fn schema() -> Value {
        json!({"type": "string", "format": "date-time", "examples": ["2026-11-15T08:24:36.000Z"]})
    }
}

written_as_text!(Name, PublicKey, Whole, Quantity, Sum, Instant);
shown_as_content!(Name, PublicKey, Whole, Quantity, Sum);

/// A member that is always there, and `null` where there is nothing to say. An `Option` is left out instead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nullable<T>(pub Option<T>);

impl<T> From<Option<T>> for Nullable<T> {
    fn from(value: Option<T>) -> Nullable<T> {
        Nullable(value)
    }
}

impl<T: JsonSchema> JsonSchema for Nullable<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Nullable{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Option::<T>::json_schema(generator);
        schema.insert(crate::schema::STAYS_NULL.to_owned(), true.into());
        schema
    }
}
