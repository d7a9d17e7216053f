//! The messages of a checkout. Both sides work alike, so what they exchange is the same but for the value.

use crate::ids::{Key, UserId};
use crate::items::Items;
use crate::number::Whole;

/// What the payment side moves.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Payment {
    /// Who pays.
    pub user_id: UserId,
    /// How much.
    pub amnt: Whole,
}

/// What a participant is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<V> {
    /// Take: `pay`, `sub`.
    Forward(V),
    /// Give back: `can`, `add`.
    Rollback(V),
}

/// What a participant answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<V> {
    /// It was taken: `psucc`, `ssucc`.
    Taken(V),
    /// It was not, and never will be: `pfail`, `sfail`.
    Refused(V),
    /// It is given back, or was never taken and never will be: `csucc`, `asucc`. No forward outcome.
    Undone(V),
}

/// How a checkout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Both sides took: `trsucc`.
    Succeeded,
    /// At least one did not, or not in time: `trfail`.
    Failed,
}

/// What one message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// To the payment side.
    Pay(Step<Payment>),
    /// To the stock side.
    Stock(Step<Items>),
    /// From the payment side.
    Paid(Answer<Payment>),
    /// From the stock side.
    Stocked(Answer<Items>),
    /// From whoever decided.
    Decided(Verdict),
}

/// A message with the try that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The try.
    pub key: Key,
    /// What it says.
    pub body: Body,
}

/// Where a message is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Read by the payment side.
    Pay,
    /// Read by the stock side.
    Stock,
    /// Read by the order consumer.
    Outcomes,
}

impl Topic {
    /// The topic's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Pay => "pay",
            Topic::Stock => "stock",
            Topic::Outcomes => "outcomes",
        }
    }
}

impl Body {
    /// The topic that it belongs to.
    #[must_use]
    pub const fn topic(&self) -> Topic {
        match self {
            Body::Pay(_) => Topic::Pay,
            Body::Stock(_) => Topic::Stock,
            Body::Paid(_) | Body::Stocked(_) | Body::Decided(_) => Topic::Outcomes,
        }
    }

    /// What its `type` field says.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Body::Pay(Step::Forward(_)) => "pay",
            Body::Pay(Step::Rollback(_)) => "can",
            Body::Stock(Step::Forward(_)) => "sub",
            Body::Stock(Step::Rollback(_)) => "add",
            Body::Paid(Answer::Taken(_)) => "psucc",
            Body::Paid(Answer::Refused(_)) => "pfail",
            Body::Paid(Answer::Undone(_)) => "csucc",
            Body::Stocked(Answer::Taken(_)) => "ssucc",
            Body::Stocked(Answer::Refused(_)) => "sfail",
            Body::Stocked(Answer::Undone(_)) => "asucc",
            Body::Decided(Verdict::Succeeded) => "trsucc",
            Body::Decided(Verdict::Failed) => "trfail",
        }
    }
}
