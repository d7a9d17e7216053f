//! Ids of orders, users and items, the number of a try, and the key that both make.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits::ID_CHARS_MAX;

/// A place in the log of one partition.
pub type Offset = u64;

/// Why something is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty or too long.
    #[error("an id has 1 to {ID_CHARS_MAX} characters, not {0}")]
    Length(usize),
    /// The number of a try that no order can have.
    #[error("a tr_num is a whole number from 1 to {max}, not {0}", max = u32::MAX)]
    TrNum(u64),
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub struct $name(#[serde(serialize_with = "text")] Arc<str>);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<$name, IdError> {
                within_bounds(text).map(|text| $name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// An order, as the shop names it.
    OrderId
);
id!(
    /// A user who pays.
    UserId
);
id!(
    /// An item on the shelves.
    ItemId
);

fn text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn within_bounds(text: &str) -> Result<&str, IdError> {
    // Bytes first: what has few bytes has few characters, and nobody counts through a text of megabytes.
    let chars = if text.len() <= 4 * ID_CHARS_MAX { text.chars().count() } else { text.len() };
    if (1..=ID_CHARS_MAX).contains(&chars) { Ok(text) } else { Err(IdError::Length(chars)) }
}

/// The number of a try (tr#): an order's first checkout is try 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u64")]
pub struct TrNum(NonZeroU32);

impl TrNum {
    /// An order's first try.
    pub const FIRST: TrNum = TrNum(NonZeroU32::MIN);

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The next try; `None` after four thousand million of them.
    #[must_use]
    pub fn next(self) -> Option<TrNum> {
        self.0.checked_add(1).map(TrNum)
    }
}

impl TryFrom<u64> for TrNum {
    type Error = IdError;
    fn try_from(number: u64) -> Result<TrNum, IdError> {
        let small = u32::try_from(number).ok().and_then(NonZeroU32::new);
        small.map(TrNum).ok_or(IdError::TrNum(number))
    }
}

impl fmt::Display for TrNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What every message is about: one try of one order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Key {
    /// The order.
    pub order_id: OrderId,
    /// Its try.
    pub tr_num: TrNum,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {} try {}", self.order_id, self.tr_num)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_text_within_bounds() {
        assert_eq!("o1".parse::<OrderId>().unwrap().as_str(), "o1");
        assert!("é".repeat(ID_CHARS_MAX).parse::<UserId>().is_ok());
        assert_eq!("".parse::<ItemId>(), Err(IdError::Length(0)));
        assert_eq!("x".repeat(129).parse::<ItemId>(), Err(IdError::Length(129)));
    }

    #[test]
    fn tries_count_from_one() {
        assert_eq!(TrNum::try_from(1), Ok(TrNum::FIRST));
        assert_eq!(TrNum::FIRST.next().map(TrNum::get), Some(2));
        assert_eq!(TrNum::try_from(u64::from(u32::MAX)).unwrap().next(), None);
        for none in [0, u64::from(u32::MAX) + 1] {
            assert_eq!(TrNum::try_from(none), Err(IdError::TrNum(none)));
        }
    }
}
