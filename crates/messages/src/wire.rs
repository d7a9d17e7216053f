//! How single values are written.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is written as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text<T>(pub(super) T);

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

/// 32 bytes in base64url without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(pub(super) [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl FromStr for Digest {
    type Err = String;
    fn from_str(text: &str) -> Result<Digest, String> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Digest)
            .ok_or_else(|| format!("'{text}' is not 32 bytes in base64url without padding"))
    }
}

/// Bytes that are handed on unread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Opaque(pub(super) Vec<u8>);

impl Opaque {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &URL_SAFE_NO_PAD.encode(&self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Opaque {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Opaque, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Opaque;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or {\"base64\": …}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Opaque, E> {
                Ok(Opaque(text.as_bytes().to_vec()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Opaque, E> {
                Ok(Opaque(text.into_bytes()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Opaque, A::Error> {
                let entry: Option<(String, String)> = map.next_entry()?;
                let text = entry.filter(|(name, _)| name == "base64").map(|(_, text)| text);
                let bytes = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
                let bytes = bytes.ok_or_else(|| A::Error::custom("not {\"base64\": …} without padding"))?;
                match map.next_key::<String>()? {
                    None => Ok(Opaque(bytes)),
                    Some(name) => Err(A::Error::custom(format!("'{name}' does not belong beside base64"))),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_everybody() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(
                (URL_SAFE_NO_PAD.encode(bytes).as_str(), URL_SAFE_NO_PAD.decode(text)),
                (text, Ok(bytes.as_bytes().to_vec()))
            );
        }
        assert_eq!(URL_SAFE_NO_PAD.encode([0xfb, 0xff]), "-_8");
        for bad in ["Z", "Zh", "Zm9", "Zg==", "Z g", "+/8", "Zm9vY"] {
            assert!(URL_SAFE_NO_PAD.decode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn opaque_bytes_are_text_where_they_can_be() {
        for (bytes, json) in [
            (b"{\"a\": 1}".to_vec(), r#""{\"a\": 1}""#),
            (vec![0, b'a', 10], r#""\u0000a\n""#),
            (vec![0xff, 0], r#"{"base64":"_wA"}"#),
            (Vec::new(), r#""""#),
        ] {
            let opaque = Opaque(bytes);
            assert_eq!(serde_json::to_string(&opaque).unwrap(), json);
            assert_eq!(serde_json::from_str::<Opaque>(json).unwrap(), opaque);
        }
        for bad in ["1", "null", "{}", r#"{"base64":"_wA="}"#, r#"{"hex":"00"}"#, r#"{"base64":"","a":""}"#] {
            assert!(serde_json::from_str::<Opaque>(bad).is_err(), "{bad}");
        }
    }
}
