//! Ids. Inside, everything is a dense integer; UUIDs and names live at the edge.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// A transfer's id as its sender chose it: the 128 bits of a UUID (or ULID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u128);

/// A transfer's place in the order in which transfers were first seen: 0, 1, 2, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferNo(pub u64);

/// A participant (FSP), numbered from 1 in order of creation. 0 is the Hub itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ParticipantId(pub u32);

/// An account, numbered from 1 in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AccountId(pub u32);

/// A currency by its three ISO 4217 letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

/// Milliseconds since 1970-01-01T00:00:00Z. Expirations, deadlines and frame times are all of this kind.
pub type Millis = i64;

/// The participant that stands for the hub itself.
pub const HUB: ParticipantId = ParticipantId(0);

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a UUID in its usual form.
    #[error("'{0}' is not a UUID such as 0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d")]
    NotUuid(String),
    /// Not three capital letters.
    #[error("'{0}' is not a currency of three capital letters such as USD")]
    NotCurrency(String),
}

impl Currency {
    /// The currency of these three letters, if they are capital letters.
    #[must_use]
    pub fn from_letters(letters: [u8; 3]) -> Option<Currency> {
        letters.iter().all(u8::is_ascii_uppercase).then_some(Currency(letters))
    }

    /// The three letters.
    #[must_use]
    pub const fn letters(self) -> [u8; 3] {
        self.0
    }
}

impl FromStr for Currency {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Currency, IdError> {
        <[u8; 3]>::try_from(text.as_bytes())
            .ok()
            .and_then(Currency::from_letters)
            .ok_or_else(|| IdError::NotCurrency(text.to_owned()))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

impl fmt::Display for TransferId {
    /// The hyphenated lower-case form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).as_hyphenated().fmt(f)
    }
}

impl FromStr for TransferId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<TransferId, IdError> {
        let id = Uuid::try_parse(text).ok().map(|id| TransferId(id.as_u128()));
        // There is one text for an id: other letters and forms of a UUID are none.
        id.filter(|id| id.to_string() == text).ok_or_else(|| IdError::NotUuid(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_id_is_a_lower_case_uuid() {
        let text = "0d6b1a2c-3f4e-4a5b-8c6d-7e8f9a0b1c2d";
        assert_eq!(text.parse::<TransferId>().unwrap().to_string(), text);
        for bad in ["", "0D6B1A2C-3F4E-4A5B-8C6D-7E8F9A0B1C2D", "0d6b1a2c3f4e4a5b8c6d7e8f9a0b1c2d", "x"] {
            assert!(bad.parse::<TransferId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_currency_is_three_capital_letters() {
        assert_eq!("USD".parse::<Currency>().unwrap().to_string(), "USD");
        for bad in ["usd", "US", "USDX", "U1D"] {
            assert!(bad.parse::<Currency>().is_err(), "{bad}");
        }
    }
}
