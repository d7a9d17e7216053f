//! Values of settings: what kinds there are, and how text becomes one.

use std::fmt;
use std::net::SocketAddr;

use holdfast_database::Role;
use hyper::Uri;

/// Says of somebody that it is part of the hub.
pub(super) const INSIDE: &str = "inside";
/// Served by a program of its own, which reads the topics of the database profile.
pub(super) const KAFKA: &str = "kafka";
/// Says of the payment side that it is inside and charges positions.
pub(super) const TRANSFERS: &str = "transfers";
/// Tokens are charged.
pub(super) const TOKENS: &str = "tokens";
const URL_WORDS: &str = "an http or https URL without a password, such as http://127.0.0.1:8000/steps";

/// Where a URL leads, if it is one that can be called. One with a password would be shown to whoever sees the settings, and the
/// password would not be sent.
pub(super) fn read_url(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?;
    (is_http && !authority.host().is_empty() && !authority.as_str().contains('@')).then_some(uri)
}

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    /// A setting that may be left out, left out.
    Unset,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{}", toml::Value::String(text.clone())),
            Value::Number(number) => write!(f, "{number}"),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Unset => f.write_str("(not set)"),
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> serde_json::Value {
        match value {
            Value::Text(text) => text.as_str().into(),
            Value::Number(number) => (*number).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::Unset => serde_json::Value::Null,
        }
    }
}

/// What a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text that is not empty.
    Text,
    /// Roles of a node behind commas.
    Roles,
    /// The path of a file or folder.
    Path,
    /// `ADDRESS:PORT`.
    Address,
    /// Where somebody is called: `http://…` or `https://…`.
    Url,
    /// [`INSIDE`], [`KAFKA`], or where somebody is called.
    InsideOrUrl,
    /// The same, or [`TRANSFERS`] or [`TOKENS`].
    Payment,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number, both ends included.
    Number { min: u64, max: u64 },
    /// `true` or `false`.
    Flag,
}

impl Kind {
    /// The value that a text of the environment or the command line means.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Kind::Number { .. } => text.replace('_', "").parse().map(Value::Number).map_err(|_| ()),
            Kind::Flag => text.parse().map(Value::Flag).map_err(|_| ()),
            Kind::Text
            | Kind::Roles
            | Kind::Path
            | Kind::Address
            | Kind::Url
            | Kind::InsideOrUrl
            | Kind::Payment
            | Kind::Choice(_) => Ok(Value::Text(text.to_owned())),
        };
        let value = value.map_err(|()| format!("'{text}' is not {}", self.words()))?;
        self.check(value)
    }

    /// The value that a value of the file means.
    pub(super) fn take(self, value: &toml::Value) -> Result<Value, String> {
        let taken = match value {
            toml::Value::String(text) => Some(Value::Text(text.clone())),
            toml::Value::Integer(number) => u64::try_from(*number).ok().map(Value::Number),
            toml::Value::Boolean(flag) => Some(Value::Flag(*flag)),
            _ => None,
        };
        taken.map_or_else(|| Err(format!("{value} is not {}", self.words())), |taken| self.check(taken))
    }

    fn check(self, value: Value) -> Result<Value, String> {
        let good = match (self, &value) {
            (Kind::Text | Kind::Roles | Kind::Path, Value::Text(text)) => !text.is_empty(),
            (Kind::Address, Value::Text(text)) => text.parse::<SocketAddr>().is_ok(),
            (Kind::Url, Value::Text(text)) => read_url(text).is_some(),
            (Kind::InsideOrUrl, Value::Text(text)) => {
                [INSIDE, KAFKA].contains(&text.as_str()) || read_url(text).is_some()
            }
            (Kind::Payment, Value::Text(text)) => {
                [INSIDE, TRANSFERS, TOKENS, KAFKA].contains(&text.as_str()) || read_url(text).is_some()
            }
            (Kind::Choice(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Kind::Number { min, max }, Value::Number(number)) => (min..=max).contains(number),
            (Kind::Flag, Value::Flag(_)) => true,
            _ => false,
        };
        if good { Ok(value) } else { Err(format!("{value} is not {}", self.words())) }
    }

    /// What is taken, to stand after "is not".
    pub(super) fn words(self) -> String {
        match self {
            Kind::Text => "a text".to_owned(),
            Kind::Roles => {
                format!(
                    "a list of roles; behind commas, any of {}",
                    Role::ALL.map(|(name, _)| name).join(",")
                )
            }
            Kind::Path => "a path".to_owned(),
            Kind::Address => "an address with a port, such as 127.0.0.1:4000".to_owned(),
            Kind::Url => URL_WORDS.to_owned(),
            Kind::InsideOrUrl => format!("{INSIDE}, {KAFKA}, or {URL_WORDS}"),
            Kind::Payment => format!("{INSIDE}, {TRANSFERS}, {TOKENS}, {KAFKA}, or {URL_WORDS}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Number { min, max: u64::MAX } => format!("a whole number from {min}"),
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Flag => "true or false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_that_can_be_called() {
        for good in
            ["http://a", "http://127.0.0.1:8000/steps?x=1", "https://[::1]:1/", "https://pay.example/a"]
        {
            assert!(Kind::Url.read(good).is_ok() && Kind::InsideOrUrl.read(good).is_ok(), "{good}");
        }
        for bad in
            ["", "a", "/steps", "ftp://a/", "http://", "http://:80/", "http://me:secret@a/", "http://a b/"]
        {
            assert!(Kind::Url.read(bad).is_err() && Kind::InsideOrUrl.read(bad).is_err(), "{bad}");
        }
        assert!(Kind::InsideOrUrl.read(INSIDE).is_ok() && Kind::Url.read(INSIDE).is_err());
        for own in [TRANSFERS, TOKENS] {
            assert!(Kind::Payment.read(own).is_ok() && Kind::InsideOrUrl.read(own).is_err());
        }
    }
}
