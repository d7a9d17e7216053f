//! Transfers: what is known of one, and the steps before its position is touched.

mod abort;
mod answer;
mod fulfil;
mod funded;
mod prepare;
mod state;

pub(crate) use abort::abort;
pub(crate) use answer::{answer, lookup};
pub(crate) use fulfil::fulfil;
pub(crate) use funded::{End, covers, give_back};
pub(crate) use prepare::prepare;
pub use state::TransferState;

use crate::codes::ErrorCode;
use crate::effects::Party;
use crate::ids::{AccountId, Currency, Millis, ParticipantId, TransferId, TransferNo};
use crate::money::{Amount, Balance, OptionalBalance};
use crate::numbered::numbered;

/// Everything known of a transfer. Its history follows from the last state and two times, since the inner
/// hops of a step share the time of their frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its number in order of arrival.
    pub no: TransferNo,
    /// Its id.
    pub id: TransferId,
    /// Who pays.
    pub payer: ParticipantId,
    /// Who is paid.
    pub payee: ParticipantId,
    /// The payer's position account; `None` if INVALID or paid for by tokens.
    pub payer_account: Option<AccountId>,
    /// The payee's position account; `None` if INVALID or paid for by tokens.
    pub payee_account: Option<AccountId>,
    /// In which currency.
    pub currency: Currency,
    /// How much.
    pub amount: Amount,
    /// When it runs out.
    pub expiration: Millis,
    /// What shows how it ends, or has shown it.
    pub proof: Proof,
    /// Tells a repeated prepare from a modified one.
    pub hash: [u8; 32],
    /// Where it stands.
    pub state: TransferState,
    /// Why it did not commit: one of our codes, or the payee's.
    pub code: Option<Code>,
    /// What exactly was refused; `None` where the code says it all.
    pub reason: Option<Reason>,
    /// Where its prepare lies in the log.
    pub offset: u64,
    /// When the prepare was decided.
    pub prepared_at: Millis,
    /// When the last state was reached.
    pub changed_at: Millis,
    /// The payer's position after the reservation.
    pub reserved_value: OptionalBalance,
    /// The position of the account that the last step changed, after it.
    pub final_value: OptionalBalance,
}

/// What shows how a transfer ends. Once the one is there, nobody asks for the other any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It has ended without the payee, or could never begin.
    Nothing,
    /// SHA-256 of the fulfilment.
    Condition([u8; 32]),
    /// The fulfil or abort that was accepted.
    Completed(Completion),
}

impl Transfer {
    /// Whether this participant pays or is paid.
    #[must_use]
    pub const fn has_party(&self, participant: ParticipantId) -> bool {
        participant.0 == self.payer.0 || participant.0 == self.payee.0
    }

    /// SHA-256 of the fulfilment, while it may still be shown.
    #[must_use]
    pub const fn condition(&self) -> Option<&[u8; 32]> {
        match &self.proof {
            Proof::Condition(condition) => Some(condition),
            Proof::Nothing | Proof::Completed(_) => None,
        }
    }

    /// The fulfil or abort that was accepted.
    #[must_use]
    pub const fn completion(&self) -> Option<Completion> {
        match self.proof {
            Proof::Completed(completion) => Some(completion),
            Proof::Nothing | Proof::Condition(_) => None,
        }
    }

    /// Why it did not commit, if it did not.
    #[must_use]
    pub fn error(&self) -> Option<ErrorInformation> {
        self.code.map(|code| (code, self.reason))
    }

    /// The participant on that side.
    #[must_use]
    pub const fn party(&self, side: Party) -> ParticipantId {
        match side {
            Party::Payer => self.payer,
            Party::Payee => self.payee,
        }
    }

    /// The append-only history with its times.
    #[must_use]
    pub fn history(&self) -> Vec<(TransferState, Millis)> {
        use TransferState as S;
        let first = (S::ReceivedPrepare, self.prepared_at);
        let reserved = (S::Reserved, self.prepared_at);
        let last = (self.state, self.changed_at);
        let between = |step| vec![first, reserved, (step, self.changed_at), last];
        match self.state {
            S::ReceivedPrepare | S::Invalid => vec![(self.state, self.prepared_at)],
            S::Reserved | S::AbortedRejected | S::ExpiredPrepared => vec![first, last],
            S::ReceivedFulfil | S::ReceivedError | S::ReservedTimeout => vec![first, reserved, last],
            S::Committed => between(S::ReceivedFulfil),
            S::AbortedError => between(S::ReceivedError),
            S::ExpiredReserved => between(S::ReservedTimeout),
        }
    }

    /// Whether tokens pay for it and no position moves. Such a transfer needs no position account and names none.
    #[must_use]
    pub const fn is_funded(&self) -> bool {
        self.payer_account.is_none() && !matches!(self.state, TransferState::Invalid)
    }

    /// Whether its amount stands on the payer's position.
    #[must_use]
    pub const fn holds_position(&self) -> bool {
        self.state.holds_value() && !self.is_funded()
    }

    /// The position changes it made: account, change and running value.
    #[must_use]
    pub fn position_changes(&self) -> Vec<(AccountId, Amount, Balance)> {
        let ended_on = match self.state {
            TransferState::Committed => self.payee_account,
            _ => self.payer_account,
        };
        let reserve =
            self.payer_account.zip(self.reserved_value.get()).map(|(on, value)| (on, self.amount, value));
        let end = ended_on.zip(self.final_value.get()).map(|(on, value)| (on, Amount(-self.amount.0), value));
        reserve.into_iter().chain(end).collect()
    }
}

/// An error code as it is kept and answered: ours, or one of four digits that a payee gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(std::num::NonZeroU16);

impl Code {
    /// A payee's code of four digits.
    #[must_use]
    pub fn of_payee(number: u16) -> Option<Code> {
        std::num::NonZeroU16::new(number).map(Code)
    }

    /// The digits.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Code {
        Code(std::num::NonZeroU16::new(code.number()).expect("no code is zero"))
    }
}

/// Why something was refused or ended: the code, and what it means in particular.
pub type ErrorInformation = (Code, Option<Reason>);

numbered! {
    /// What a 3100 means in particular.
    #[allow(missing_docs, reason = "text() says each of them")]
    pub enum Reason: u8, text {
        AmountNotPositive = 1 => "the amount must be more than zero",
        AmountTooLarge = 2 => "the amount has more than 18 digits",
        PayerUnknown = 3 => "there is no such payer",
        PayerInactive = 4 => "the payer is inactive",
        PayeeUnknown = 5 => "there is no such payee",
        PayeeInactive = 6 => "the payee is inactive",
        ExpirationPast = 7 => "the expiration is already in the past",
        PayerIsPayee = 8 => "payer and payee are the same",
        PayerAccountMissing = 9 => "the payer has no position account in this currency",
        PayerAccountInactive = 10 => "the payer's position account is inactive",
        PayeeAccountMissing = 11 => "the payee has no position account in this currency",
        WrongFulfilment = 12 => "the fulfilment does not match the condition",
        WrongSource = 13 => "the sender is not the party who may do this",
        NotReserved = 14 => "the transfer is not RESERVED",
        AmountNotWhole = 15 => "tokens are whole: the amount has a fraction",
    }
}

/// The fulfil or abort that a transfer took, kept to tell a repeat from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Which of the three it was.
    pub kind: CompletionKind,
    /// The fulfilment itself, or the abort's digest.
    pub digest: [u8; 32],
}

/// The ways in which a payee ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
#[allow(missing_docs, reason = "said above")]
pub enum CompletionKind {
    Commit = 1,
    Reserve = 2,
    Abort = 3,
}
