//! The answer to one command.

use std::sync::Arc;

use crate::codes::ErrorCode;
use crate::money::Balance;
use crate::positions::{Message, MessageResult};
use crate::shop::ShopOutcome;
use crate::tokens::TokenOutcome;
use crate::transfers::{Code, ErrorInformation, Reason, Transfer, TransferState};

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where the transfer stands now; `None` if there is none.
    pub state: Option<TransferState>,
    /// The error; `None` if all went well.
    pub code: Option<Code>,
    /// The error in particular.
    pub reason: Option<Reason>,
    /// The number of what the command was about: a transfer, participant (its position account in the upper
    /// half), account, or how many holds an expiry ended.
    pub subject: u64,
    /// What the account touched last stands at.
    pub value: Balance,
    /// The answer to a command about tokens.
    pub token: Option<Arc<TokenOutcome>>,
    /// The answer to a command about the shop.
    pub shop: Option<Arc<ShopOutcome>>,
}

impl Outcome {
    /// Nothing was done, for that reason.
    #[must_use]
    pub fn refused(code: ErrorCode) -> Outcome {
        Outcome { code: Some(code.into()), ..Outcome::done(0, Balance::ZERO) }
    }

    pub(crate) fn because(self, reason: Reason) -> Outcome {
        Outcome { reason: Some(reason), ..self }
    }

    pub(crate) const fn done(subject: u64, value: Balance) -> Outcome {
        Outcome { state: None, code: None, reason: None, subject, value, token: None, shop: None }
    }

    /// The answer to a command about tokens.
    pub(crate) fn of_tokens(outcome: TokenOutcome) -> Outcome {
        Outcome { token: Some(Arc::new(outcome)), ..Outcome::done(0, Balance::ZERO) }
    }

    /// The answer to a command about the shop.
    #[must_use]
    pub fn of_shop(outcome: ShopOutcome) -> Outcome {
        Outcome { shop: Some(Arc::new(outcome)), ..Outcome::done(0, Balance::ZERO) }
    }

    /// What became of a message of the position step.
    pub(crate) fn of_message(message: &Message, result: MessageResult) -> Outcome {
        let (code, reason) = match result.error {
            Some((code, reason)) => (Some(code), reason),
            None => (None, None),
        };
        let MessageResult { state, value, .. } = result;
        Outcome { state: Some(state), code, reason, ..Outcome::done(message.transfer.0, value) }
    }

    /// Why not, if not.
    #[must_use]
    pub fn error(&self) -> Option<ErrorInformation> {
        self.code.map(|code| (code, self.reason))
    }

    /// The stored answer of a transfer.
    #[must_use]
    pub fn of_transfer(row: &Transfer) -> Outcome {
        Outcome {
            state: Some(row.state),
            code: row.code,
            reason: row.reason,
            subject: row.no.0,
            value: row.final_value.get().or_else(|| row.reserved_value.get()).unwrap_or_default(),
            token: None,
            shop: None,
        }
    }
}
