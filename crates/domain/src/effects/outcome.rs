//! The answer to one command.

use std::sync::Arc;

use crate::codes::ErrorCode;
use crate::ids::{AccountId, ParticipantId, TransferNo};
use crate::money::Balance;
use crate::shop::ShopOutcome;
use crate::tokens::TokenOutcome;
use crate::transfers::{Code, ErrorInformation, Reason, Transfer, TransferState};
use crate::view::Accounts;

/// What a command was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that has a number.
    Nothing,
    /// A transfer.
    Transfer(TransferNo),
    /// A participant.
    Participant(ParticipantId),
    /// A participant with its position account in the currency that was asked for.
    Member(ParticipantId, AccountId),
    /// An account.
    Account(AccountId),
    /// So many holds, leases, checkouts and keys that an expiry ended.
    Ended(u64),
}

impl Subject {
    /// The number that stands for it in replies, in messages and in the audit chain. A member is its participant, with the
    /// account in the upper half.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Subject::Nothing => 0,
            Subject::Transfer(no) => no.0,
            Subject::Participant(id) => id.0.into(),
            Subject::Member(id, account) => u64::from(id.0) | u64::from(account.0) << 32,
            Subject::Account(account) => account.0.into(),
            Subject::Ended(count) => count,
        }
    }

    /// The member that such a number stands for.
    #[must_use]
    pub const fn member(number: u64) -> (ParticipantId, AccountId) {
        #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
        let participant = number as u32;
        (ParticipantId(participant), AccountId((number >> 32) as u32))
    }

    /// How many an expiry ended; nothing else ends any.
    #[must_use]
    pub const fn ended(self) -> u64 {
        match self {
            Subject::Ended(count) => count,
            _ => 0,
        }
    }
}

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where the transfer stands now; `None` if there is none.
    pub state: Option<TransferState>,
    /// The error; `None` if all went well.
    pub code: Option<Code>,
    /// The error in particular.
    pub reason: Option<Reason>,
    /// What the command was about.
    pub subject: Subject,
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
        Outcome { code: Some(code.into()), ..Outcome::done(Subject::Nothing, Balance::ZERO) }
    }

    pub(crate) fn because(self, reason: Reason) -> Outcome {
        Outcome { reason: Some(reason), ..self }
    }

    pub(crate) const fn done(subject: Subject, value: Balance) -> Outcome {
        Outcome { state: None, code: None, reason: None, subject, value, token: None, shop: None }
    }

    /// The answer to a command about tokens.
    pub(crate) fn of_tokens(outcome: TokenOutcome) -> Outcome {
        Outcome { token: Some(Arc::new(outcome)), ..Outcome::done(Subject::Nothing, Balance::ZERO) }
    }

    /// The answer to a command about the shop.
    #[must_use]
    pub fn of_shop(outcome: ShopOutcome) -> Outcome {
        Outcome { shop: Some(Arc::new(outcome)), ..Outcome::done(Subject::Nothing, Balance::ZERO) }
    }

    /// A transfer stands there now, perhaps with an error, and the account that was touched at that value.
    pub(crate) fn reached(
        transfer: TransferNo,
        state: TransferState,
        error: Option<ErrorInformation>,
        value: Balance,
    ) -> Outcome {
        let (code, reason) = error.map_or((None, None), |(code, reason)| (Some(code), reason));
        let subject = Subject::Transfer(transfer);
        Outcome { state: Some(state), code, reason, ..Outcome::done(subject, value) }
    }

    /// Why not, if not.
    #[must_use]
    pub fn error(&self) -> Option<ErrorInformation> {
        self.code.map(|code| (code, self.reason))
    }

    /// The stored answer of a transfer.
    #[must_use]
    pub fn of_transfer(row: &Transfer) -> Outcome {
        let value = row.final_value.get().or_else(|| row.reserved_value.get()).unwrap_or_default();
        Outcome::reached(row.no, row.state, row.error(), value)
    }

    /// The same for a prepare on that account that comes again. One that was refused changed no position, so its row keeps none:
    /// this shows where the payer stands now.
    pub(crate) fn of_prepared(view: &impl Accounts, row: &Transfer, account: Option<AccountId>) -> Outcome {
        let outcome = Outcome::of_transfer(row);
        let refused = account.filter(|_| row.state == TransferState::AbortedRejected);
        let value = refused.and_then(|account| view.account(account)).map_or(outcome.value, |row| row.value);
        Outcome { value, ..outcome }
    }
}
