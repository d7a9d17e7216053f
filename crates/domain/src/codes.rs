//! The error codes a hub answers with, as the FSPIOP standard numbers them.

use std::fmt;

use crate::numbered::numbered;

numbered! {
    /// One code of the standard that Holdfast gives out itself. Its number has four digits, its name is the standard's.
    pub enum ErrorCode: u16, name {
        /// A message in a state that it does not fit.
        InternalServerError = 2001 => "Internal server error",
        /// A request that cannot be made, such as a currency that is there already.
        ClientError = 3000 => "Generic client error",
        /// A rule was broken: the request is understood and refused.
        ValidationError = 3100 => "Generic validation error",
        /// The same id with other content.
        ModifiedRequest = 3106 => "Modified request",
        /// No participant of that name or number.
        IdNotFound = 3200 => "Generic ID not found",
        /// No transfer of that id.
        TransferIdNotFound = 3208 => "Transfer ID not found",
        /// The transfer ran out.
        TransferExpired = 3303 => "Transfer expired",
        /// The payer's funds do not cover it.
        PayerInsufficientLiquidity = 4001 => "Payer FSP insufficient liquidity",
        /// The payer's net debit cap does not allow it.
        PayerLimitError = 4200 => "Payer limit error",
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
