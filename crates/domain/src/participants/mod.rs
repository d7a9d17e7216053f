//! Participants, their accounts, limits and funds.

mod admin;
mod bytes;

pub(crate) use admin::{decide_admin, decide_books};
pub use admin::{decide_participant, set_endpoint};

use std::fmt;

use crate::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use crate::money::{Amount, Balance};
use crate::numbered::numbered;

/// Percentage of the net debit cap at which an alarm is raised, where none was set.
pub const ALARM_PERCENTAGE_DEFAULT: u16 = 10;
/// The longest name of a participant.
pub const NAME_BYTES_MAX: usize = 30;
/// The name under which the hub itself appears among the participants.
pub const HUB_NAME: &str = "Hub";
/// How many currencies one participant may hold.
pub const CURRENCIES_MAX: usize = 256;

/// A participant's name: 2 to 30 letters, digits, `-`, `.` or `_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; 32]);

impl Name {
    /// The name as text, if it is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Name> {
        let mut padded = [0; 32];
        padded.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Name::from_padded(padded)
    }

    /// The name in bytes padded with zeros, if it is one.
    #[must_use]
    pub fn from_padded(padded: [u8; 32]) -> Option<Name> {
        let length = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
        let (text, padding) = padded.split_at(length);
        let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        ((2..=NAME_BYTES_MAX).contains(&length)
            && text.iter().all(good)
            && padding.iter().all(|byte| *byte == 0))
        .then_some(Name(padded))
    }

    /// The bytes, padded with zeros.
    #[must_use]
    pub const fn padded(self) -> [u8; 32] {
        self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..length]).expect("a name is ASCII")
    }

    /// The form in which two names are compared: the standard compares without case.
    #[must_use]
    pub fn folded(self) -> Name {
        Name(self.0.map(|byte| byte.to_ascii_lowercase()))
    }

    /// Whether this is the name of the hub itself, which no participant may take.
    #[must_use]
    pub fn is_hub(&self) -> bool {
        self.as_str().eq_ignore_ascii_case(HUB_NAME)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A participant of the scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Its number.
    pub id: ParticipantId,
    /// Its name.
    pub name: Name,
    /// Whether it may take part in new transfers.
    pub active: bool,
    /// Its position account per currency, in order of creation. The settlement account is the next number.
    pub accounts: Vec<(Currency, AccountId)>,
    /// When it was made.
    pub created_at: Millis,
}

impl Participant {
    /// The position account in that currency.
    #[must_use]
    pub fn position_account(&self, currency: Currency) -> Option<AccountId> {
        self.accounts.iter().find(|(of, _)| *of == currency).map(|(_, account)| *account)
    }
}

numbered! {
    /// What an account is for, with the `ledgerAccountType` of the admin API.
    pub enum AccountKind: u8, name {
        /// What the participant owes (> 0) from transfers.
        Position = 1 => "POSITION",
        /// Funds held for the participant (< 0).
        Settlement = 2 => "SETTLEMENT",
    }
}

/// An account of a participant in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub id: AccountId,
    /// Whose it is.
    pub participant: ParticipantId,
    /// In which currency.
    pub currency: Currency,
    /// What it is for.
    pub kind: AccountKind,
    /// Whether it may be reserved on. Accounts become active with their first limit.
    pub active: bool,
    /// What it stands at.
    pub value: Balance,
    /// What counts against the limits besides `value`.
    pub reserved: Balance,
    /// How far the position may rise; `None` before the first limit is set.
    pub net_debit_cap: Option<Amount>,
    /// Usage of the cap, in percent, at which an alarm is raised.
    pub alarm_percentage: u16,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed.
    pub changed_at: Millis,
}

impl Account {
    /// The settlement account that belongs to this position account: both are made together.
    #[must_use]
    pub const fn settlement(&self) -> AccountId {
        AccountId(self.id.0 + 1)
    }
}

numbered! {
    /// Where a movement of funds stands: what the operator moves between a settlement account and the outside.
    pub enum FundsState: u8 {
        /// Funds in, done.
        ReceivedIn = 1,
        /// Funds out, taken from the account and not yet confirmed.
        OutReserved = 2,
        /// Funds out, gone.
        OutCommitted = 3,
        /// Funds out, given back.
        OutAborted = 4,
    }
}

/// One movement of funds, kept so that a repeat finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FundsMovement {
    /// The id that the operator chose.
    pub id: TransferId,
    /// The settlement account.
    pub account: AccountId,
    /// How much.
    pub amount: Amount,
    /// Where it stands.
    pub state: FundsState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        for good in ["ab", "payer-fsp", "Bank_1.za", &"x".repeat(30)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", &"x".repeat(31), &"x".repeat(40), "a b", "a\0b", "naïve"] {
            assert_eq!(Name::new(bad), None, "{bad}");
        }
        for (name, is_hub) in [("Hub", true), ("hUB", true), ("Hub2", false)] {
            assert_eq!(Name::new(name).unwrap().is_hub(), is_hub, "{name}");
        }
        let mut hidden = [0; 32];
        hidden[..3].copy_from_slice(b"ab\0");
        hidden[5] = b'c';
        assert_eq!(Name::from_padded(hidden), None);
    }
}
