//! The position step: messages in bins by account, credits before debits, no limit ever broken.
//!
//! [`process`] takes the messages of a whole batch. It divides them by account and then by action, works through
//! each bin against a running position, and pushes what happened to the [`Step`](crate::effects::Step).

mod bins;
mod processor;

pub use processor::{PositionAccount, PositionAccounts, process};

use crate::ids::{AccountId, TransferNo};
use crate::money::{Amount, Balance};
use crate::numbered::numbered;
use crate::transfers::{CompletionKind, ErrorInformation, TransferState};

/// The most messages that one batch may have: their indexes share a sort key with account and action.
pub const BATCH_MESSAGES_MAX: usize = (1 << 28) - 1;

numbered! {
    /// What a message does to a position, with the name that messages carry. The order is that of processing inside a bin.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Action: u8, name {
        /// Settle: the payee's position falls.
        Commit = 0 => "commit",
        /// Settle, and tell the payee too.
        Reserve = 1 => "reserve",
        /// Release: the payer's position falls.
        Abort = 2 => "abort",
        /// Release what ran out.
        TimeoutReserved = 3 => "timeout-reserved",
        /// Reserve: the payer's position rises.
        Prepare = 4 => "prepare",
    }
}

/// In which order the prepares of a bin are tried.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum PrepareOrder {
    /// As they came.
    #[default]
    Arrival,
    /// Smallest amount first, so that more of them fit; ties as they came.
    Smallest,
}

/// One message of the position step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The account it changes: the payer's, for a fulfil the payee's.
    pub account: AccountId,
    /// The transfer it is about.
    pub transfer: TransferNo,
    /// What to do.
    pub action: Action,
    /// The transfer's amount.
    pub amount: Amount,
    /// The transfer's state before the batch.
    pub state: TransferState,
    /// The command that leads to it, by its index.
    pub cause: u32,
    /// The fulfil or abort that the transfer took.
    pub completion: Option<CompletionKind>,
    /// The error that an abort goes on with: the payee's own, or that its preimage was wrong.
    pub error: Option<ErrorInformation>,
}

/// What became of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageResult {
    /// The transfer's state after it.
    pub state: TransferState,
    /// The error, if it was refused, ran out or was given up.
    pub error: Option<ErrorInformation>,
    /// What the account stands at after it.
    pub value: Balance,
    /// The same message came before it in the batch, and this is what became of that one.
    pub repeat: bool,
}
