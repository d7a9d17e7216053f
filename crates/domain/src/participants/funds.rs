//! Funds in and out: what the operator moves between a participant's settlement account and the outside.

use crate::ids::{AccountId, TransferId};
use crate::money::Amount;

/// Where a movement of funds stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FundsState {
    /// Funds in, done.
    ReceivedIn = 1,
    /// Funds out, taken from the account and not yet confirmed.
    OutReserved = 2,
    /// Funds out, gone.
    OutCommitted = 3,
    /// Funds out, given back.
    OutAborted = 4,
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
