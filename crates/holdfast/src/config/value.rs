//! Values of settings: what kinds there are, and how text becomes one.

use std::fmt;
use std::net::SocketAddr;

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
    /// The path of a file or folder.
    Path,
    /// `ADDRESS:PORT`.
    Address,
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
            Kind::Text | Kind::Path | Kind::Address | Kind::Choice(_) => Ok(Value::Text(text.to_owned())),
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
            (Kind::Text | Kind::Path, Value::Text(text)) => !text.is_empty(),
            (Kind::Address, Value::Text(text)) => text.parse::<SocketAddr>().is_ok(),
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
            Kind::Path => "a path".to_owned(),
            Kind::Address => "an address with a port, such as 127.0.0.1:4000".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Number { min, max: u64::MAX } => format!("a whole number from {min}"),
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Flag => "true or false".to_owned(),
        }
    }
}
