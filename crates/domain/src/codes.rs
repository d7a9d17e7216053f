//! The error codes a hub answers with, as the FSPIOP standard numbers them.

use std::fmt;

/// One code of the standard that Holdfast gives out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum ErrorCode {
    /// A message in a state that it does not fit.
    InternalServerError = 2001,
    /// A request that cannot be made, such as a currency that is there already.
    ClientError = 3000,
    /// A rule was broken: the request is understood and refused.
    ValidationError = 3100,
    /// The same id with other content.
    ModifiedRequest = 3106,
    /// No participant of that name or number.
    IdNotFound = 3200,
    /// No transfer of that id.
    TransferIdNotFound = 3208,
    /// The transfer ran out.
    TransferExpired = 3303,
    /// The payer's funds do not cover it.
    PayerInsufficientLiquidity = 4001,
    /// The payer's net debit cap does not allow it.
    PayerLimitError = 4200,
}

impl ErrorCode {
    /// Every code, for tables in docs and tests.
    pub const ALL: [ErrorCode; 9] = [
        ErrorCode::InternalServerError,
        ErrorCode::ClientError,
        ErrorCode::ValidationError,
        ErrorCode::ModifiedRequest,
        ErrorCode::IdNotFound,
        ErrorCode::TransferIdNotFound,
        ErrorCode::TransferExpired,
        ErrorCode::PayerInsufficientLiquidity,
        ErrorCode::PayerLimitError,
    ];

    /// The four digits.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code of these digits, if Holdfast has it.
    #[must_use]
    pub fn from_number(number: u16) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The name that the standard gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorCode::InternalServerError => "Internal server error",
            ErrorCode::ClientError => "Generic client error",
            ErrorCode::ValidationError => "Generic validation error",
            ErrorCode::ModifiedRequest => "Modified request",
            ErrorCode::IdNotFound => "Generic ID not found",
            ErrorCode::TransferIdNotFound => "Transfer ID not found",
            ErrorCode::TransferExpired => "Transfer expired",
            ErrorCode::PayerInsufficientLiquidity => "Payer FSP insufficient liquidity",
            ErrorCode::PayerLimitError => "Payer limit error",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}
