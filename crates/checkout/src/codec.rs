//! The messages as JSON, in the shapes of the checkout topics: a key `{"order_id","tr_num"}`, and a value
//! whose `type` says which message it is. This is the one place that knows these shapes.
//!
//! What is not such a message is [`Poison`]: it is put aside with its reason and stops nothing else. That
//! holds for a field too many as well, since a misspelt field would otherwise be a missing one that nobody
//! notices.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use crate::ids::{Key, TrNum};
use crate::items::{Items, Line};
use crate::message::{Answer, Body, Message, Payment, Step, Verdict};
use crate::number::Whole;

/// Why a record is no message of a checkout.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {reason}")]
pub struct Poison {
    part: &'static str,
    reason: String,
}

/// Reads the key and the value of a record.
///
/// # Errors
/// If it is no message of a checkout; says which part is wrong and why.
pub fn decode(key: &[u8], value: &[u8]) -> Result<Message, Poison> {
    let key: Object<WireKey> = serde_json::from_slice(key).map_err(|error| poison("key", &error))?;
    let body: Object<WireBody> = serde_json::from_slice(value).map_err(|error| poison("value", &error))?;
    message(key, body)
}

/// The same from JSON that has been read already.
///
/// # Errors
/// As [`decode`].
pub fn from_json(key: &serde_json::Value, value: &serde_json::Value) -> Result<Message, Poison> {
    let key: Object<WireKey> = Object::deserialize(key).map_err(|error| poison("key", &error))?;
    let body: Object<WireBody> = Object::deserialize(value).map_err(|error| poison("value", &error))?;
    message(key, body)
}

/// The key and the value of a message, as JSON.
#[must_use]
pub fn to_json(message: &Message) -> (serde_json::Value, serde_json::Value) {
    (key_to_json(&message.key), body_to_json(&message.body))
}

/// The key and the value of a message as they lie in a topic.
#[must_use]
pub fn encode(message: &Message) -> (String, Vec<u8>) {
    let value = serde_json::to_vec(&Value(&message.body)).expect("a value is JSON");
    (encode_key(&message.key), value)
}

/// A key as it lies in a topic.
#[must_use]
pub fn encode_key(key: &Key) -> String {
    serde_json::to_string(key).expect("a key is JSON")
}

/// A key as JSON.
#[must_use]
pub fn key_to_json(key: &Key) -> serde_json::Value {
    serde_json::to_value(key).expect("a key is JSON")
}

/// A value as JSON.
#[must_use]
pub fn body_to_json(body: &Body) -> serde_json::Value {
    serde_json::to_value(Value(body)).expect("a value is JSON")
}

/// The lines of items as JSON, as messages carry them.
///
/// # Errors
/// If they are none.
pub fn items_from_json(items: &serde_json::Value) -> Result<Items, Poison> {
    let lines = Vec::<Object<WireLine>>::deserialize(items).map_err(|error| poison("items", &error))?;
    read_items(lines).map_err(|reason| Poison { part: "items", reason })
}

fn poison(part: &'static str, error: &serde_json::Error) -> Poison {
    Poison { part, reason: error.to_string() }
}

fn message(Object(key): Object<WireKey>, Object(body): Object<WireBody>) -> Result<Message, Poison> {
    let key = key.read().map_err(|reason| Poison { part: "key", reason })?;
    let body = body.read().map_err(|reason| Poison { part: "value", reason })?;
    Ok(Message { key, body })
}

/// Takes nothing but an object: what serde derives would also take a list, field by place.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<Object<T>, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = T;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with named fields")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
                T::deserialize(serde::de::value::MapAccessDeserializer::new(object))
            }
        }
        value.deserialize_any(Visitor(std::marker::PhantomData)).map(Object)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey {
    order_id: String,
    tr_num: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLine {
    id: String,
    amnt: u64,
}

/// The one forward message of the payment side that can fail.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TrType {
    Pay,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum WireBody {
    Pay { user_id: String, amnt: u64 },
    Can { user_id: String, amnt: u64 },
    Sub { items: Vec<Object<WireLine>> },
    Add { items: Vec<Object<WireLine>> },
    Psucc { user_id: String, amnt: u64 },
    Pfail { tr_type: TrType, user_id: String, amnt: u64 },
    Csucc { user_id: String, amnt: u64 },
    Ssucc { items: Vec<Object<WireLine>> },
    Sfail { items: Vec<Object<WireLine>> },
    Asucc { items: Vec<Object<WireLine>> },
    Trsucc {},
    Trfail {},
}

impl WireKey {
    fn read(self) -> Result<Key, String> {
        let order_id = self.order_id.parse().map_err(|error| format!("order_id: {error}"))?;
        let tr_num = TrNum::try_from(self.tr_num).map_err(|error| error.to_string())?;
        Ok(Key { order_id, tr_num })
    }
}

impl WireBody {
    fn read(self) -> Result<Body, String> {
        Ok(match self {
            WireBody::Pay { user_id, amnt } => Body::Pay(Step::Forward(read_payment(&user_id, amnt)?)),
            WireBody::Can { user_id, amnt } => Body::Pay(Step::Rollback(read_payment(&user_id, amnt)?)),
            WireBody::Sub { items } => Body::Stock(Step::Forward(read_items(items)?)),
            WireBody::Add { items } => Body::Stock(Step::Rollback(read_items(items)?)),
            WireBody::Psucc { user_id, amnt } => Body::Paid(Answer::Taken(read_payment(&user_id, amnt)?)),
            WireBody::Pfail { tr_type: TrType::Pay, user_id, amnt } => {
                Body::Paid(Answer::Refused(read_payment(&user_id, amnt)?))
            }
            WireBody::Csucc { user_id, amnt } => Body::Paid(Answer::Undone(read_payment(&user_id, amnt)?)),
            WireBody::Ssucc { items } => Body::Stocked(Answer::Taken(read_items(items)?)),
            WireBody::Sfail { items } => Body::Stocked(Answer::Refused(read_items(items)?)),
            WireBody::Asucc { items } => Body::Stocked(Answer::Undone(read_items(items)?)),
            WireBody::Trsucc {} => Body::Decided(Verdict::Succeeded),
            WireBody::Trfail {} => Body::Decided(Verdict::Failed),
        })
    }
}

fn read_payment(user_id: &str, amnt: u64) -> Result<Payment, String> {
    let user_id = user_id.parse().map_err(|error| format!("user_id: {error}"))?;
    let amnt = Whole::new(amnt).map_err(|error| format!("amnt: {error}"))?;
    Ok(Payment { user_id, amnt })
}

fn read_items(lines: Vec<Object<WireLine>>) -> Result<Items, String> {
    let line = |Object(WireLine { id, amnt })| -> Result<Line, String> {
        let id = id.parse().map_err(|error| format!("items: {error}"))?;
        Ok(Line { id, amnt: Whole::new(amnt).map_err(|error| format!("items: {error}"))? })
    };
    let lines = lines.into_iter().map(line).collect::<Result<_, _>>()?;
    Items::new(lines).map_err(|error| format!("items: {error}"))
}

/// A value as it is written.
struct Value<'a>(&'a Body);

impl Serialize for Value<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serializer.serialize_map(None)?;
        value.serialize_entry("type", self.0.type_name())?;
        if let Body::Paid(Answer::Refused(_)) = self.0 {
            value.serialize_entry("tr_type", "pay")?;
        }
        match self.0 {
            Body::Pay(Step::Forward(payment) | Step::Rollback(payment))
            | Body::Paid(Answer::Taken(payment) | Answer::Refused(payment) | Answer::Undone(payment)) => {
                value.serialize_entry("user_id", &payment.user_id)?;
                value.serialize_entry("amnt", &payment.amnt)?;
            }
            Body::Stock(Step::Forward(items) | Step::Rollback(items))
            | Body::Stocked(Answer::Taken(items) | Answer::Refused(items) | Answer::Undone(items)) => {
                value.serialize_entry("items", items)?;
            }
            Body::Decided(_) => {}
        }
        value.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = r#"{"order_id":"o1","tr_num":2}"#;

    /// Every message, byte for byte. These shapes are read by others: a change here breaks them.
    const GOLDEN: [(&str, &str, &str); 12] = [
        ("pay", "pay", r#"{"type":"pay","user_id":"u1","amnt":7}"#),
        ("can", "pay", r#"{"type":"can","user_id":"u1","amnt":7}"#),
        ("sub", "stock", r#"{"type":"sub","items":[{"id":"a","amnt":2},{"id":"b","amnt":0}]}"#),
        ("add", "stock", r#"{"type":"add","items":[{"id":"a","amnt":2}]}"#),
        ("psucc", "outcomes", r#"{"type":"psucc","user_id":"u1","amnt":7}"#),
        ("pfail", "outcomes", r#"{"type":"pfail","tr_type":"pay","user_id":"u1","amnt":7}"#),
        ("csucc", "outcomes", r#"{"type":"csucc","user_id":"u1","amnt":7}"#),
        ("ssucc", "outcomes", r#"{"type":"ssucc","items":[]}"#),
        ("sfail", "outcomes", r#"{"type":"sfail","items":[{"id":"a","amnt":2}]}"#),
        ("asucc", "outcomes", r#"{"type":"asucc","items":[{"id":"a","amnt":2}]}"#),
        ("trsucc", "outcomes", r#"{"type":"trsucc"}"#),
        ("trfail", "outcomes", r#"{"type":"trfail"}"#),
    ];

    #[test]
    fn every_message_has_its_shape_and_comes_back() {
        for (name, topic, text) in GOLDEN {
            let message = decode(KEY.as_bytes(), text.as_bytes()).unwrap();
            assert_eq!((message.body.type_name(), message.body.topic().name()), (name, topic));
            let (key, value) = to_json(&message);
            assert_eq!((key.to_string().as_str(), value.to_string().as_str()), (KEY, text));
            assert_eq!(from_json(&key, &value).unwrap(), message);
        }
    }

    #[test]
    fn poison_says_what_is_wrong_with_it() {
        let pay = GOLDEN[0].2;
        let too_large = format!(r#"{{"type":"pay","user_id":"u","amnt":{}}}"#, u64::MAX);
        for (key, value, reason) in [
            (KEY, "", "value: EOF"),
            (KEY, "[\"pay\"]", "object with named fields"),
            (KEY, "{}", "missing field `type`"),
            (KEY, r#"{"type":"steal","user_id":"u","amnt":1}"#, "unknown variant `steal`"),
            (KEY, r#"{"type":"pay","amnt":1}"#, "missing field `user_id`"),
            (KEY, r#"{"type":"pay","user_id":"u","amnt":-1}"#, "-1"),
            (KEY, r#"{"type":"pay","user_id":"u","amnt":1.0}"#, "floating point"),
            (KEY, r#"{"type":"pay","user_id":"u","amnt":"1"}"#, "string"),
            (KEY, r#"{"type":"pay","user_id":7,"amnt":1}"#, "integer `7`"),
            (KEY, r#"{"type":"pay","user_id":"","amnt":1}"#, "user_id: an id has 1 to"),
            (KEY, &too_large, "amnt: the number would be larger"),
            (KEY, r#"{"type":"pay","user_id":"u","amnt":1,"amnt":1}"#, "duplicate field `amnt`"),
            (KEY, r#"{"type":"pay","user_id":"u","amnt":1,"tip":1}"#, "unknown field `tip`"),
            (KEY, r#"{"type":"trsucc","amnt":1}"#, "unknown field `amnt`"),
            (KEY, r#"{"type":"pfail","user_id":"u","amnt":1}"#, "missing field `tr_type`"),
            (KEY, r#"{"type":"pfail","tr_type":"can","user_id":"u","amnt":1}"#, "unknown variant `can`"),
            (KEY, r#"{"type":"sub","items":[["a",1]]}"#, "object with named fields"),
            (
                KEY,
                r#"{"type":"sub","items":[{"id":"a","amnt":9223372036854775807},{"id":"a","amnt":1}]}"#,
                "items:",
            ),
            ("", pay, "key: EOF"),
            (r#"["o1",2]"#, pay, "key: invalid type: sequence"),
            (r#"{"order_id":"o1"}"#, pay, "missing field `tr_num`"),
            (r#"{"order_id":1,"tr_num":2}"#, pay, "integer `1`"),
            (r#"{"order_id":"o1","tr_num":0}"#, pay, "a tr_num is a whole number from 1"),
            (r#"{"order_id":"","tr_num":1}"#, pay, "order_id: an id has 1 to"),
            (r#"{"order_id":"o1","tr_num":1,"x":1}"#, pay, "unknown field `x`"),
        ] {
            let error = decode(key.as_bytes(), value.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{key} {value}: '{reason}' is not in: {error}");
        }
    }
}
