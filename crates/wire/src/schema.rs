//! Shapes as schemas of the OpenAPI document.
//!
//! A shape that is sent to the hub is described as it is read: `null` is the same as not there. A shape that the hub
//! sends is described as it is written: what is not there is left out, and is `null` only where the shape says so.

use schemars::generate::{Contract, SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Where the document keeps them.
const PLACE: &str = "/components/schemas";
/// Marks a member that the hub sends as `null`. It does not get into the document.
pub(crate) const STAYS_NULL: &str = "x-stays-null";

/// A shape of the document and which way it goes.
#[derive(Clone)]
pub struct Shape {
    contract: Contract,
    described: Described,
}

#[derive(Clone)]
enum Described {
    ByType(fn(&mut SchemaGenerator) -> Schema),
    Written(Value),
}

impl Shape {
    /// One that the hub takes.
    #[must_use]
    pub fn taken<T: JsonSchema>() -> Shape {
        Shape::of::<T>(Contract::Deserialize)
    }

    /// One that the hub gives.
    #[must_use]
    pub fn given<T: JsonSchema>() -> Shape {
        Shape::of::<T>(Contract::Serialize)
    }

    fn of<T: JsonSchema>(contract: Contract) -> Shape {
        Shape { contract, described: Described::ByType(SchemaGenerator::subschema_for::<T>) }
    }

    /// One that no type describes, by its schema.
    #[must_use]
    pub const fn written(schema: Value) -> Shape {
        Shape { contract: Contract::Deserialize, described: Described::Written(schema) }
    }

    /// The schema, with references for what has a name, and the schemas of those names.
    #[must_use]
    pub fn schema(&self) -> (Value, Map<String, Value>) {
        let describe = match &self.described {
            Described::ByType(describe) => describe,
            Described::Written(schema) => return (schema.clone(), Map::new()),
        };
        let mut generator = SchemaSettings::draft2020_12()
            .with(|settings| {
                settings.definitions_path = PLACE.into();
                settings.contract = self.contract.clone();
            })
            .into_generator();
        let mut schema = describe(&mut generator).to_value();
        let mut named = generator.take_definitions(true);
        let written = self.contract == Contract::Serialize;
        for schema in named.values_mut().chain([&mut schema]) {
            tidy(schema, written);
        }
        (schema, named)
    }
}

/// Puts a schema, and what is in it, into words that generators of clients know.
fn tidy(schema: &mut Value, written: bool) {
    match schema {
        Value::Array(entries) => entries.iter_mut().for_each(|entry| tidy(entry, written)),
        Value::Object(members) => {
            let stays_null = members.shift_remove(STAYS_NULL).is_some();
            if written && !stays_null {
                drop_null(members);
            }
            // Widths of integers are known to them as two.
            if let Some(format) = members.get_mut("format") {
                match format.as_str() {
                    Some("uint8" | "uint16" | "int8" | "int16") => *format = json!("int32"),
                    Some("uint32" | "uint64" | "uint") => *format = json!("int64"),
                    _ => {}
                }
            }
            for (name, member) in members.iter_mut() {
                if !matches!(name.as_str(), "examples" | "enum" | "const" | "default") {
                    tidy(member, written);
                }
            }
        }
        _ => {}
    }
}

fn drop_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    let of_two = members.get("anyOf").and_then(Value::as_array);
    if let Some([one, null]) = of_two.map(Vec::as_slice)
        && *null == json!({"type": "null"})
    {
        let one = one.clone();
        members.shift_remove("anyOf");
        if let Value::Object(one) = one {
            members.extend(one);
        }
    }
}
