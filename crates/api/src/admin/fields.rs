//! Bodies of the admin paths: a JSON object, read within bounds, whatever its media type says.
//!
//! Members are kept as the text that came, so that numbers stay exact, and are read one by one. Every failure is
//! 400/3101 and names the member: `limit.value: …`. Members that nobody asks for are let through, as the client
//! software that talks to these paths sends more than they need.

use std::collections::BTreeMap;

use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_LENGTH;
use holdfast_domain::ids::Currency;
use holdfast_domain::money::{AMOUNT_LIMIT, Amount};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{numbers, shortened};
use crate::error::ApiError;
use crate::fspiop::currencies;
use crate::limits::{ADMIN_BODY_MAX, BODY_READ_MAX};

/// The members of a JSON object.
pub(crate) struct Fields {
    /// Where the object stands in the body: empty, or `limit.`.
    path: String,
    members: Members,
}

/// Members by name, each once: of two amounts an auditor might read the other one.
struct Members(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if members.contains_key(&name) {
                        return Err(M::Error::custom(format!("'{name}' stands there twice")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<S: Sync> FromRequest<S> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Fields, ApiError> {
        let too_large = || ApiError::too_large(format!("a body has at most {ADMIN_BODY_MAX} bytes here"));
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced: Option<usize> = announced.and_then(|text| text.parse().ok());
        if announced.is_some_and(|length| length > ADMIN_BODY_MAX) {
            return Err(too_large());
        }
        let body = Limited::new(request.into_body(), ADMIN_BODY_MAX).collect();
        match timeout(BODY_READ_MAX, body).await {
            Err(_) => Err(ApiError::slow_body()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(ApiError::malformed(format!("the body broke off: {error}"))),
            Ok(Ok(body)) => Fields::parse(&body.to_bytes()),
        }
    }
}

impl Fields {
    /// The members of a whole body.
    pub(super) fn parse(body: &[u8]) -> Result<Fields, ApiError> {
        let members = serde_json::from_slice(body)
            .map_err(|error| ApiError::malformed(format!("the body is not a JSON object: {error}")))?;
        Ok(Fields { path: String::new(), members })
    }

    /// 400/3101 about one member.
    pub(super) fn wrong(&self, name: &str, problem: impl std::fmt::Display) -> ApiError {
        ApiError::malformed(format!("{}{name}: {problem}", self.path))
    }

    /// The text of a member; `null` is the same as not there.
    fn raw(&self, name: &str) -> Option<&str> {
        self.members.0.get(name).map(|value| value.get()).filter(|json| *json != "null")
    }

    fn required<T>(&self, name: &str, found: Option<T>) -> Result<T, ApiError> {
        found.ok_or_else(|| self.wrong(name, "is missing"))
    }

    fn optional_of<T: DeserializeOwned>(&self, name: &str, what: &str) -> Result<Option<T>, ApiError> {
        let read = |json| serde_json::from_str(json).map_err(|_| self.wrong(name, format!("must be {what}")));
        self.raw(name).map(read).transpose()
    }

    /// A string that is not empty.
    pub(crate) fn text(&self, name: &str) -> Result<String, ApiError> {
        let text: String = self.required(name, self.optional_of(name, "a string")?)?;
        if text.is_empty() { Err(self.wrong(name, "must not be empty")) } else { Ok(text) }
    }

    /// One of the words that are possible.
    pub(crate) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, ApiError> {
        let text = self.text(name)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(name, format!("must be {}, not '{}'", all.join(" or "), shortened(&text)))
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        self.required(name, self.optional_of(name, "true or false")?)
    }

    /// The same, also as 1 and 0 as they stand in answers; not there means `false`.
    pub(super) fn loose_flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.raw(name) {
            Some("true" | "1" | "\"1\"") => Ok(true),
            None | Some("false" | "0" | "\"0\"" | "\"\"") => Ok(false),
            Some(_) => Err(self.wrong(name, "must be true or false")),
        }
    }

    /// A currency of the list that transfers may use: what is created by a typing error is never deleted.
    pub(super) fn currency(&self, name: &str) -> Result<Currency, ApiError> {
        let text = self.text(name)?;
        currencies::currency(&text).ok_or_else(|| {
            self.wrong(name, format!("'{}' is not a currency of ISO 4217 such as USD", shortened(&text)))
        })
    }

    /// An amount of at most 18 digits, 4 of them after the point; a number or a string.
    pub(super) fn amount(&self, name: &str) -> Result<Amount, ApiError> {
        self.required(name, self.optional_amount(name)?)
    }

    /// The same, if it is there.
    pub(super) fn optional_amount(&self, name: &str) -> Result<Option<Amount>, ApiError> {
        let Some(json) = self.raw(name) else { return Ok(None) };
        let amount = numbers::read(json).map_err(|problem| self.wrong(name, problem))?;
        if amount >= AMOUNT_LIMIT || amount.wide().negated() >= AMOUNT_LIMIT.wide() {
            return Err(self.wrong(name, format!("{amount} has more than 14 digits before the point")));
        }
        Ok(Some(amount))
    }

    /// An object inside.
    pub(super) fn object(&self, name: &str) -> Result<Fields, ApiError> {
        let members = self.required(name, self.optional_of(name, "an object")?)?;
        Ok(Fields { path: format!("{}{name}.", self.path), members })
    }

    /// Tests the shape of an `extensionList`, if there is one.
    pub(super) fn check_extension_list(&self) -> Result<(), ApiError> {
        type List = BTreeMap<String, Vec<BTreeMap<String, String>>>;
        const NAME: &str = "extensionList";
        const SHAPE: &str = "{\"extension\":[{\"key\":\"…\",\"value\":\"…\"}, …]}";
        match self.optional_of::<List>(NAME, SHAPE)? {
            Some(list) if !list.contains_key("extension") => {
                Err(self.wrong(NAME, format!("must be {SHAPE}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(body: &str) -> Fields {
        Fields::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error:?}"))
    }

    #[test]
    fn a_member_that_stands_there_twice_is_refused() {
        for body in [r#"{"amount":5,"amount":7}"#, r#"{"amount":5,"\u0061mount":7}"#] {
            assert_wrong(
                Fields::parse(body.as_bytes()),
                "the body is not a JSON object: 'amount' stands there twice",
            );
        }
        let nested = fields(r#"{"limit":{"value":1,"value":2}}"#);
        assert!(nested.object("limit").is_err());
    }

    #[track_caller]
    fn assert_wrong<T>(result: Result<T, ApiError>, detail: &str) {
        let error = result.err().expect("refused");
        assert_eq!((error.status.as_u16(), error.code), (400, 3101));
        assert!(error.detail.starts_with(detail), "{} instead of {detail}", error.detail);
    }

    #[test]
    fn a_body_is_an_object() {
        for body in ["", "{", "[]", "5", "\"a\"", "null", "{\"a\":1} {}", "{\"a\":}", "{'a':1}"] {
            assert_wrong(Fields::parse(body.as_bytes()), "the body is not a JSON object");
        }
        assert_wrong(Fields::parse(b"{\"a\":\"\xff\"}"), "the body is not a JSON object");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
        assert!(fields(&deep).text("a").is_err(), "depth costs no stack");
    }

    #[test]
    fn a_failure_names_its_member() {
        let body = fields(
            r#"{"name":5,"empty":"","money":"usd","on":"yes","none":null,"limit":{"value":"x","type":"CAP","deep":{"a":1}},"list":[]}"#,
        );
        assert_wrong(body.text("name"), "name: must be a string");
        assert_wrong(body.text("empty"), "empty: must not be empty");
        assert_wrong(body.text("gone"), "gone: is missing");
        assert_wrong(body.text("none"), "none: is missing");
        assert_wrong(body.flag("on"), "on: must be true or false");
        assert_wrong(body.object("list"), "list: must be an object");
        let limit = body.object("limit").unwrap();
        assert_wrong(limit.amount("value"), "limit.value: 'x' is not a decimal number");
        assert_wrong(
            limit.word("type", &[("NET_DEBIT_CAP", ())]),
            "limit.type: must be NET_DEBIT_CAP, not 'CAP'",
        );
        assert_wrong(limit.object("deep").unwrap().text("a"), "limit.deep.a: must be a string");
        assert_wrong(body.currency("money"), "money: 'usd' is not a currency");
    }

    #[test]
    fn amounts_have_eighteen_digits() {
        let body =
            fields(r#"{"a":99999999999999.9999,"b":100000000000000,"c":-100000000000000,"d":"1.00001"}"#);
        assert_eq!(body.amount("a").unwrap().to_string(), "99999999999999.9999");
        assert_wrong(body.amount("b"), "b: 100000000000000 has more than 14 digits");
        assert_wrong(body.amount("c"), "c: -100000000000000 has more than 14 digits");
        assert_wrong(body.amount("d"), "d: '1.00001' has more than 4 decimal places");
        assert_eq!(body.optional_amount("e").unwrap(), None);
    }

    #[test]
    fn an_extension_list_has_its_shape() {
        for list in ["null", r#"{"extension":[{"key":"k","value":"v"}]}"#, r#"{"extension":[]}"#] {
            fields(&format!("{{\"extensionList\":{list}}}")).check_extension_list().unwrap();
        }
        for list in ["5", "[]", "{}", r#"{"extension":{}}"#, r#"{"extension":[{"key":5}]}"#] {
            let body = fields(&format!("{{\"extensionList\":{list}}}"));
            assert_wrong(body.check_extension_list(), "extensionList: must be");
        }
    }

    #[test]
    fn a_loose_flag_may_be_a_number() {
        for (json, flag) in [("true", true), ("1", true), ("\"1\"", true), ("null", false), ("0", false)] {
            assert_eq!(fields(&format!("{{\"a\":{json}}}")).loose_flag("a"), Ok(flag), "{json}");
        }
        assert_wrong(fields(r#"{"a":2}"#).loose_flag("a"), "a: must be true or false");
        assert_eq!(fields("{}").loose_flag("a"), Ok(false));
    }
}
