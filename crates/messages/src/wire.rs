//! How single values are written.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) use holdfast_domain::text::Text;

/// A transfer's error: its code, and what that means in particular if it is said.
pub(super) mod error {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer};
    use holdfast_domain::transfers::{Code, ErrorInformation, Reason};

    #[serde_with_macros::skip_serializing_none]
    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        code: u16,
        reason: Option<u8>,
    }

    pub(crate) fn serialize<S: Serializer>(
        error: &Option<ErrorInformation>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let body = |(code, reason): ErrorInformation| Body {
            code: code.number(),
            reason: reason.map(|reason| reason as u8),
        };
        error.map(body).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<ErrorInformation>, D::Error> {
        let Some(Body { code, reason }) = Option::deserialize(deserializer)? else { return Ok(None) };
        let code = Code::of_payee(code).ok_or_else(|| D::Error::custom("error.code must not be 0"))?;
        let known = |number| {
            let unknown = || D::Error::custom(format_args!("error.reason {number} is not a reason"));
            Reason::from_number(number).ok_or_else(unknown)
        };
        Ok(Some((code, reason.map(known).transpose()?)))
    }
}

/// 32 bytes in base64url without padding.
pub(super) mod digest {
    use super::{Deserialize, Deserializer, Engine, FromStr, Serializer, Text, URL_SAFE_NO_PAD};

    struct Digest([u8; 32]);

    impl FromStr for Digest {
        type Err = String;
        fn from_str(text: &str) -> Result<Digest, String> {
            let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.map(Digest).ok_or_else(|| format!("'{text}' is not 32 bytes in base64url without padding"))
        }
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        Text::deserialize(deserializer).map(|Text(Digest(bytes))| bytes)
    }
}

/// Bytes that are handed on unread.
pub(super) mod opaque {
    use super::{
        Deserializer, Engine, Error, MapAccess, SerializeMap, Serializer, URL_SAFE_NO_PAD, Visitor, fmt,
    };

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &URL_SAFE_NO_PAD.encode(bytes))?;
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_any(Either)
    }

    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or {\"base64\": …}")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_vec())
        }

        fn visit_string<E: Error>(self, text: String) -> Result<Vec<u8>, E> {
            Ok(text.into_bytes())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
            let entry: Option<(String, String)> = map.next_entry()?;
            let text = entry.filter(|(name, _)| name == "base64").map(|(_, text)| text);
            let bytes = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            let bytes = bytes.ok_or_else(|| A::Error::custom("not {\"base64\": …} without padding"))?;
            match map.next_key::<String>()? {
                None => Ok(bytes),
                Some(name) => Err(A::Error::custom(format!("'{name}' does not belong beside base64"))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(transparent)]
    struct Opaque(#[serde(with = "opaque")] Vec<u8>);

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
