//! Numbers with bounds, as JSON numbers without sign and fraction: counts and milliseconds.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// As a number of things.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// As a number of milliseconds.
    #[must_use]
    pub fn millis(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Default for Count<MIN, MAX> {
    fn default() -> Count<MIN, MAX> {
        Count(MIN)
    }
}

/// A number that is yet to be read by whom it is sent to, who holds it against its bounds.
impl<const MIN: u64, const MAX: u64> From<u64> for Count<MIN, MAX> {
    fn from(number: u64) -> Count<MIN, MAX> {
        Count(number)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count<MIN, MAX>, D::Error> {
        struct Bounds<const MIN: u64, const MAX: u64>;
        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Bounds<MIN, MAX> {
            type Value = Count<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number from {MIN} to {MAX}")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Count<MIN, MAX>, E> {
                let fits = (MIN..=MAX).contains(&number).then_some(Count(number));
                fits.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }
        }
        deserializer.deserialize_u64(Bounds)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("From{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let format = if MAX > i32::MAX as u64 { "int64" } else { "int32" };
        crate::text::schema_of(json!({"type": "integer", "format": format, "minimum": MIN, "maximum": MAX}))
    }
}
