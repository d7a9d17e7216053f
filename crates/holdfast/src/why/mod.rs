//! Why did this transfer end as it did? Its story, told from the log alone.
//!
//! The log is replayed as the hub replays it. A [`Witness`] follows the frames, keeps every account as it stood before
//! each sub-batch, and writes down each command that was about the transfer: the numbers it was tested with, what had
//! been done to the same account before it in the same batch, and who was to be told. The result is data ([`Story`]);
//! `tell` turns it into sentences.

mod calls;
mod checkout;
mod position;
mod tell;
#[cfg(test)]
mod tests;
mod witness;

pub(crate) use witness::Witness;

use std::fmt::Display;

use holdfast_domain::ids::{Currency, Millis, TransferId};
use holdfast_domain::money::Amount;
use serde::{Serialize, Serializer};

pub(crate) use calls::Told;
pub(crate) use position::PositionStep;

use crate::log_view::time;

/// Everything that the log knows of one transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Story {
    #[serde(serialize_with = "text")]
    pub(crate) transfer_id: TransferId,
    /// `None`: no prepare of it was ever stored.
    pub(crate) transfer: Option<Subject>,
    pub(crate) events: Vec<Event>,
    /// The log was read up to here.
    pub(crate) log_end: u64,
    #[serde(serialize_with = "instant")]
    pub(crate) log_time: Millis,
}

/// The transfer as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subject {
    pub(crate) payer_fsp: String,
    pub(crate) payee_fsp: String,
    #[serde(serialize_with = "text")]
    pub(crate) amount: Amount,
    #[serde(serialize_with = "text")]
    pub(crate) currency: Currency,
    #[serde(serialize_with = "instant")]
    pub(crate) expiration: Millis,
    pub(crate) state: &'static str,
    pub(crate) is_final: bool,
    #[serde(serialize_with = "instant")]
    pub(crate) prepared_at: Millis,
    #[serde(serialize_with = "instant")]
    pub(crate) since: Millis,
}

/// One command that was about the transfer, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(serialize_with = "instant")]
    pub(crate) at: Millis,
    pub(crate) offset: u64,
    pub(crate) frame: FrameAt,
    #[serde(flatten)]
    pub(crate) asked: Asked,
    /// Where the transfer stood afterwards; `None`: there was none, or it was not the sender's business.
    pub(crate) state: Option<&'static str>,
    pub(crate) error_code: Option<u16>,
    #[serde(flatten)]
    pub(crate) because: Because,
    /// What happened on a position account.
    pub(crate) position: Option<PositionStep>,
    pub(crate) told: Vec<Told>,
}

/// The frame that a command lay in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameAt {
    pub(crate) base_offset: u64,
    pub(crate) records: u32,
    /// The sub-batch of the frame that it was decided in, from 0.
    pub(crate) sub_batch: usize,
    pub(crate) sub_batches: usize,
}

/// What a command asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Asked {
    Prepare {
        by: String,
        payer_fsp: String,
        payee_fsp: String,
        #[serde(serialize_with = "text")]
        amount: Amount,
        #[serde(serialize_with = "text")]
        currency: Currency,
        #[serde(serialize_with = "instant")]
        expiration: Millis,
    },
    /// Fulfil, in one of its two ways.
    Commit {
        by: String,
    },
    Reserve {
        by: String,
    },
    Abort {
        by: String,
        payee_error: u16,
    },
    Expire {
        holds_ended: u64,
    },
    Lookup {
        by: String,
    },
    /// A command of the shop, which charges by transfers.
    Checkout {
        /// In words, up to the order's name.
        #[serde(skip)]
        what: &'static str,
        order: String,
        /// Which try of it.
        tr: Option<u32>,
    },
}

/// Why it went as it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Because {
    /// Both limits leave room.
    WithinLimits,
    /// The funds held for the payer do not cover it: 4001.
    OverCover,
    /// The payer's net debit cap does not allow it: 4200.
    OverCap,
    /// The wallet's tokens are held for it.
    TokensHeld { tokens: usize },
    /// The wallet had too few free tokens, or the chosen ones were gone: 4001.
    NoTokens,
    /// A rule was broken: INVALID with 3100.
    RuleBroken { rule: &'static str },
    /// The preimage is that of the condition, and in time.
    FulfilmentFits { before_expiration_ms: i64 },
    /// It is not: the transfer is aborted.
    FulfilmentWrong,
    /// The payee gave it up.
    PayeeGaveUp,
    /// Its time had run out.
    RanOut { late_ms: i64 },
    /// The fulfil or abort came at or after the expiration: 3303.
    TooLate { late_ms: i64 },
    /// The same message again: the stored answer.
    Repeat,
    /// The same id for something else: 3106.
    Modified { differences: Vec<Difference> },
    /// Another fulfil or abort than the one that was taken: 3106.
    OtherCompletion,
    /// The sender is not the party who may do this.
    WrongSender { only: String },
    /// There is no transfer to fulfil, abort or look up.
    UnknownTransfer,
    /// The transfer was in another state than RESERVED.
    NotReserved,
    /// Someone who is no party asked.
    NotAParty,
    /// A party asked and was told.
    Asked,
    /// Both sides of a checkout have taken: it is fulfilled, and the order is paid.
    OrderPaid,
    /// The checkout failed, and what was reserved is given back. Its order and try, where the command does not name them.
    OrderFailed {
        #[serde(skip_serializing_if = "Option::is_none")]
        order: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tr: Option<u32>,
        why: Option<&'static str>,
    },
    /// None of the above: the position step refused a message that fitted nowhere (2001).
    OutOfPlace,
}

/// Where a modified prepare differs from the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) field: &'static str,
    pub(crate) first: String,
    pub(crate) here: String,
}

fn text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn text_or_null<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

fn instant<S: Serializer>(at: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time(*at))
}
