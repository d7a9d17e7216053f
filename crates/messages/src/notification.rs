//! The topic `notifications`: who is to be told what. Callbacks are made from it, and those who wait are answered.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_with_macros::skip_serializing_none;

use holdfast_domain::effects::{self, Asked, LimitAlarm, NotificationKind, Outcome, Party, Subject};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::{CompletionKind, ErrorInformation, TransferState};

mod checkout;

pub use checkout::CheckoutNotice;

use super::wire::error;
use super::{Message, Place, Poison, Topic, TraceId, read, write};

/// A message of the topic `notifications`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The request it came from.
    pub trace: TraceId,
    /// What.
    pub notice: Notice,
}

/// What is told, and to whom: no participant is if only somebody at a node may be waiting, such as the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "body", rename_all = "lowercase")]
pub enum Notice {
    /// A transfer moved, or its position step was refused.
    Transfer(TransferNotice),
    /// The answer to a command that moved nothing, or was the operator's.
    Answer(Answer),
    /// A position passed the alarm percentage of its cap.
    Alarm(Alarm),
    /// A checkout came to its end, or somebody's command about an order was decided. No participant is told.
    Checkout(CheckoutNotice),
}

impl Notice {
    /// Which participant is told.
    #[must_use]
    pub fn to(&self) -> Option<ParticipantId> {
        match self {
            Notice::Transfer(notice) => notice.to,
            Notice::Answer(answer) => answer.to,
            Notice::Alarm(alarm) => alarm.to,
            Notice::Checkout(_) => None,
        }
    }

    /// What became of the command that whoever waits for the trace sent; an alarm answers nobody.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Notice::Transfer(notice) => Some(notice.outcome()),
            Notice::Answer(answer) => Some(answer.outcome()),
            Notice::Alarm(_) => None,
            Notice::Checkout(notice) => Some(notice.outcome()),
        }
    }
}

/// A transfer moved.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferNotice {
    /// Who is told.
    pub to: Option<ParticipantId>,
    /// Which side that is.
    pub party: Party,
    /// Which.
    pub transfer: TransferId,
    /// What happened.
    pub kind: NotificationKind,
    /// The position step that did it; none did if it never came to that.
    pub action: Option<Action>,
    /// Where it stands now.
    pub state: Option<TransferState>,
    /// Why not, if not.
    #[serde(default, with = "error")]
    pub error: Option<ErrorInformation>,
    /// The fulfil or abort that it took: a payee that said `reserve` is told in another way.
    pub completion: Option<CompletionKind>,
    /// As the number of [`Outcome::subject`].
    pub subject: u64,
    /// What the account stands at that was touched last.
    pub value: Balance,
    /// The message of `transfers` whose opaque parts are handed on.
    pub origin: Option<Place>,
}

impl TransferNotice {
    /// What became of the command that moved it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(self.state, self.error, Subject::Transfer(TransferNo(self.subject)), self.value)
    }
}

/// The answer to one command.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Who is told.
    pub to: Option<ParticipantId>,
    /// What was asked.
    pub asked: Asked,
    /// The same was asked before, and this is the stored answer.
    pub repeat: bool,
    /// Which transfer it was about; a movement of funds has such an id too.
    pub transfer: Option<TransferId>,
    /// Where it stands; `None` if there is none.
    pub state: Option<TransferState>,
    /// Why not, if not.
    #[serde(default, with = "error")]
    pub error: Option<ErrorInformation>,
    /// The fulfil or abort that the transfer took.
    pub completion: Option<CompletionKind>,
    /// As the number of [`Outcome::subject`].
    pub subject: u64,
    /// As [`Outcome::value`].
    pub value: Balance,
    /// The message of `transfers` that is answered.
    pub origin: Option<Place>,
}

/// A position passed the alarm percentage of its cap.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alarm {
    /// Who is told.
    pub to: Option<ParticipantId>,
    /// The position account. The database counts accounts in 31 bits: a larger one would stop whoever stores it.
    #[serde(deserialize_with = "account_of_31_bits")]
    pub account: AccountId,
    /// Its position.
    pub value: Balance,
    /// The cap.
    pub net_debit_cap: Amount,
}

impl Alarm {
    /// The alarm, for the participant that has the account.
    #[must_use]
    pub const fn of(alarm: &LimitAlarm, to: Option<ParticipantId>) -> Alarm {
        let LimitAlarm { account, value, net_debit_cap } = *alarm;
        Alarm { to, account, value, net_debit_cap }
    }
}

fn account_of_31_bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AccountId, D::Error> {
    let account = AccountId::deserialize(deserializer)?;
    match i32::try_from(account.0) {
        Ok(_) => Ok(account),
        Err(_) => Err(D::Error::custom("account is more than 31 bits")),
    }
}

impl Answer {
    /// The answer that an outcome is, for nobody in particular. Outcomes about tokens and the shop do not go this way.
    #[must_use]
    pub fn of(outcome: &Outcome, asked: Asked, transfer: Option<TransferId>) -> Answer {
        Answer {
            to: None,
            asked,
            repeat: false,
            transfer,
            state: outcome.state,
            error: outcome.error(),
            completion: None,
            subject: outcome.subject.number(),
            value: outcome.value,
            origin: None,
        }
    }

    /// The outcome that it was.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let subject = match (self.asked, self.subject, self.state) {
            (Asked::Admin, 1.., _) => u32::try_from(self.subject)
                .map_or(Subject::Nothing, |account| Subject::Account(AccountId(account))),
            (_, number, Some(_)) => Subject::Transfer(TransferNo(number)),
            _ => Subject::Nothing,
        };
        outcome(self.state, self.error, subject, self.value)
    }
}

fn outcome(
    state: Option<TransferState>,
    error: Option<ErrorInformation>,
    subject: Subject,
    value: Balance,
) -> Outcome {
    let (code, reason) = (error.map(|(code, _)| code), error.and_then(|(_, reason)| reason));
    Outcome { state, code, reason, subject, value, token: None, shop: None }
}

impl Notification {
    /// The answer to a command that moved nothing, for its sender.
    #[must_use]
    pub fn answer(
        row: &effects::Answer,
        outcome: &Outcome,
        trace: TraceId,
        origin: Option<Place>,
    ) -> Notification {
        let effects::Answer { to, transfer, asked, repeat, completion, .. } = *row;
        let answer = Answer::of(outcome, asked, Some(transfer));
        let answer = Answer { to: Some(to), repeat, completion, origin, ..answer };
        Notification { trace, notice: Notice::Answer(answer) }
    }
}

impl Message for Notification {
    const TOPIC: Topic = Topic::Notifications;

    fn trace(&self) -> TraceId {
        self.trace
    }

    /// The transfer; the order; else the account; else the request.
    fn key(&self) -> String {
        match &self.notice {
            Notice::Transfer(notice) => notice.transfer.to_string(),
            Notice::Answer(Answer { transfer: Some(transfer), .. }) => transfer.to_string(),
            Notice::Answer(_) => self.trace.to_string(),
            Notice::Alarm(alarm) => alarm.account.0.to_string(),
            Notice::Checkout(notice) => notice.key(),
        }
    }

    fn to_json(&self) -> Vec<u8> {
        write(self.trace, &self.notice)
    }

    fn from_json(value: &[u8]) -> Result<Notification, Poison> {
        read(value).map(|(trace, notice)| Notification { trace, notice })
    }
}
