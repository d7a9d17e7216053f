//! Objects and lists within bounds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::limits::{ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTE_VALUE_CHARS_MAX, ATTRIBUTES_MAX};
use crate::text::schema_of;

/// A shape that is read from an object alone: serde would take a list of its members as well.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Object<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A list of at most `MAX` entries.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct List<T, const MAX: usize>(pub Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T, MAX>, D::Error> {
        struct Entries<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Entries<T, MAX> {
            type Value = List<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T, MAX>, A::Error> {
                let mut entries = Vec::new();
                while entries.len() < MAX {
                    let Some(entry) = seq.next_element()? else { return Ok(List(entries)) };
                    entries.push(entry);
                }
                // What is beyond the bound is counted and not kept.
                let mut count = MAX;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                if count == MAX {
                    return Ok(List(entries));
                }
                Err(A::Error::custom(format!("has {count} entries, {MAX} are allowed")))
            }
        }
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for List<T, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema_of(json!({"type": "array", "maxItems": MAX, "items": generator.subschema_for::<T>()}))
    }
}

/// Names and values that a caller may put on a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Attributes(pub BTreeMap<String, String>);

impl Attributes {
    /// The attributes, if there are any.
    #[must_use]
    pub fn some(all: &BTreeMap<String, String>) -> Option<Attributes> {
        (!all.is_empty()).then(|| Attributes(all.clone()))
    }
}

/// Takes an attribute in, or says why not.
fn attribute(all: &mut BTreeMap<String, String>, name: String, value: String) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > ATTRIBUTE_NAME_CHARS_MAX {
        return Err(format!("a name must have 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters"));
    }
    if value.len() > ATTRIBUTE_VALUE_CHARS_MAX && value.chars().count() > ATTRIBUTE_VALUE_CHARS_MAX {
        return Err(format!("{name} must have at most {ATTRIBUTE_VALUE_CHARS_MAX} characters"));
    }
    if all.len() == ATTRIBUTES_MAX {
        return Err(format!("at most {ATTRIBUTES_MAX} are allowed"));
    }
    match all.insert(name, value) {
        None => Ok(()),
        Some(_) => Err("a name stands there twice".to_owned()),
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Attributes, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    attribute(&mut all, name, value).map_err(A::Error::custom)?;
                }
                Ok(Attributes(all))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

inline_schema!(
    Attributes,
    json!({
        "type": "object", "maxProperties": ATTRIBUTES_MAX,
        "propertyNames": {"minLength": 1, "maxLength": ATTRIBUTE_NAME_CHARS_MAX},
        "additionalProperties": {"type": "string", "maxLength": ATTRIBUTE_VALUE_CHARS_MAX},
        "examples": [{"purpose": "fees"}],
    })
);
