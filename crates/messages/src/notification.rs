//! The topic `notifications`: who is to be told what. Callbacks are made from it, and those who wait are answered.

use serde::{Deserialize, Serialize};

use holdfast_domain::effects::{self, Asked, LimitAlarm, NotificationKind, Outcome, Party, Subject};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::{CompletionKind, ErrorInformation, TransferState};

mod checkout;

pub use checkout::{CheckoutNotice, CheckoutRefusal};

use super::position::action_named;
use super::wire::Text;
use checkout::CheckoutBody;

use super::{Message, Place, Poison, Topic, TraceId, WireError, open, write};

/// A message of the topic `notifications`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The request it came from.
    pub trace: TraceId,
    /// Which participant is told; none is if only somebody at a node may be waiting, such as the operator.
    pub to: Option<ParticipantId>,
    /// What.
    pub notice: Notice,
}

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A transfer moved, or its position step was refused.
    Transfer(TransferNotice),
    /// The answer to a command that moved nothing, or was the operator's.
    Answer(Answer),
    /// A position passed the alarm percentage of its cap.
    Alarm(LimitAlarm),
    /// A checkout came to its end, or somebody's command about an order was decided. No participant is told.
    Checkout(CheckoutNotice),
}

impl Notice {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferNotice {
    /// Which.
    pub transfer: TransferId,
    /// What happened.
    pub kind: NotificationKind,
    /// Which side is told.
    pub party: Party,
    /// The position step that did it; none did if it never came to that.
    pub action: Option<Action>,
    /// Where it stands now.
    pub state: Option<TransferState>,
    /// Why not, if not.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What was asked.
    pub asked: Asked,
    /// The same was asked before, and this is the stored answer.
    pub repeat: bool,
    /// Which transfer it was about; a movement of funds has such an id too.
    pub transfer: Option<TransferId>,
    /// Where it stands; `None` if there is none.
    pub state: Option<TransferState>,
    /// Why not, if not.
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

impl Answer {
    /// The answer that an outcome is. Outcomes about tokens and the shop do not go this way.
    #[must_use]
    pub fn of(outcome: &Outcome, asked: Asked, transfer: Option<TransferId>) -> Answer {
        Answer {
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
        let answer = Answer { repeat, completion, origin, ..Answer::of(outcome, asked, Some(transfer)) };
        Notification { trace, to: Some(to), notice: Notice::Answer(answer) }
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
        let to = self.to.map(|to| to.0);
        match &self.notice {
            Notice::Transfer(notice) => write(self.trace, "transfer", &TransferBody::of(to, notice)),
            Notice::Answer(answer) => write(self.trace, "answer", &AnswerBody::of(to, answer)),
            Notice::Alarm(LimitAlarm { account, value, net_debit_cap }) => {
                let body = AlarmBody {
                    to,
                    account: account.0,
                    value: Text(*value),
                    net_debit_cap: Text(*net_debit_cap),
                };
                write(self.trace, "alarm", &body)
            }
            Notice::Checkout(notice) => write(self.trace, "checkout", &CheckoutBody::of(notice)),
        }
    }

    fn from_json(value: &[u8]) -> Result<Notification, Poison> {
        let envelope = open(value)?;
        let (to, notice) = match &*envelope.kind {
            "transfer" => {
                let body: TransferBody = envelope.body()?;
                (body.to, Notice::Transfer(body.read()?))
            }
            "answer" => {
                let body: AnswerBody = envelope.body()?;
                (body.to, Notice::Answer(body.read()?))
            }
            "alarm" => {
                let AlarmBody { to, account, value, net_debit_cap } = envelope.body()?;
                if i32::try_from(account).is_err() {
                    return Err(Poison::field("account", "is more than 31 bits"));
                }
                let alarm = LimitAlarm {
                    account: AccountId(account),
                    value: value.0,
                    net_debit_cap: net_debit_cap.0,
                };
                (to, Notice::Alarm(alarm))
            }
            "checkout" => (None, Notice::Checkout(envelope.body::<CheckoutBody>()?.read()?)),
            _ => return envelope.unknown_type(),
        };
        Ok(Notification { trace: envelope.trace.0, to: to.map(ParticipantId), notice })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TransferBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    party: String,
    transfer: Text<TransferId>,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<WireError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completion: Option<String>,
    subject: u64,
    value: Text<Balance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Place>,
}

const KINDS: [(NotificationKind, &str); 5] = [
    (NotificationKind::Prepared, "prepared"),
    (NotificationKind::Committed, "committed"),
    (NotificationKind::Aborted, "aborted"),
    (NotificationKind::Expired, "expired"),
    (NotificationKind::Refused, "refused"),
];
const COMPLETIONS: [(CompletionKind, &str); 3] = [
    (CompletionKind::Commit, "commit"),
    (CompletionKind::Reserve, "reserve"),
    (CompletionKind::Abort, "abort"),
];
const PARTIES: [(Party, &str); 2] = [(Party::Payer, "payer"), (Party::Payee, "payee")];

fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], value: T) -> String {
    let named = names.iter().find(|(named, _)| *named == value);
    named.expect("all have a name").1.to_owned()
}

fn named<T: Copy>(names: &[(T, &'static str)], field: &'static str, name: &str) -> Result<T, Poison> {
    let named = names.iter().find(|(_, known)| *known == name);
    named.map(|(value, _)| *value).ok_or_else(|| Poison::field(field, format!("'{name}' is not known")))
}

fn completion_named(name: Option<&str>) -> Result<Option<CompletionKind>, Poison> {
    name.map(|name| named(&COMPLETIONS, "completion", name)).transpose()
}

fn state_named(name: &str) -> Result<TransferState, Poison> {
    TransferState::from_name(name).ok_or_else(|| Poison::field("state", format!("'{name}' is not a state")))
}

impl TransferBody {
    fn of(to: Option<u32>, notice: &TransferNotice) -> TransferBody {
        TransferBody {
            to,
            party: name_of(&PARTIES, notice.party),
            transfer: Text(notice.transfer),
            kind: name_of(&KINDS, notice.kind),
            action: notice.action.map(|action| action.name().to_owned()),
            state: notice.state.map(|state| state.name().to_owned()),
            error: WireError::of(notice.error),
            completion: notice.completion.map(|kind| name_of(&COMPLETIONS, kind)),
            subject: notice.subject,
            value: Text(notice.value),
            origin: notice.origin,
        }
    }

    fn read(self) -> Result<TransferNotice, Poison> {
        Ok(TransferNotice {
            transfer: self.transfer.0,
            kind: named(&KINDS, "kind", &self.kind)?,
            party: named(&PARTIES, "party", &self.party)?,
            action: self.action.as_deref().map(action_named).transpose()?,
            state: self.state.as_deref().map(state_named).transpose()?,
            error: WireError::read(self.error)?,
            completion: completion_named(self.completion.as_deref())?,
            subject: self.subject,
            value: self.value.0,
            origin: self.origin,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnswerBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    asked: Asked,
    repeat: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transfer: Option<Text<TransferId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<WireError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    completion: Option<String>,
    subject: u64,
    value: Text<Balance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Place>,
}

impl AnswerBody {
    fn of(to: Option<u32>, answer: &Answer) -> AnswerBody {
        AnswerBody {
            to,
            asked: answer.asked,
            repeat: answer.repeat,
            transfer: answer.transfer.map(Text),
            state: answer.state.map(|state| state.name().to_owned()),
            error: WireError::of(answer.error),
            completion: answer.completion.map(|kind| name_of(&COMPLETIONS, kind)),
            subject: answer.subject,
            value: Text(answer.value),
            origin: answer.origin,
        }
    }

    fn read(self) -> Result<Answer, Poison> {
        Ok(Answer {
            asked: self.asked,
            repeat: self.repeat,
            transfer: self.transfer.map(|transfer| transfer.0),
            state: self.state.as_deref().map(state_named).transpose()?,
            error: WireError::read(self.error)?,
            completion: completion_named(self.completion.as_deref())?,
            subject: self.subject,
            value: self.value.0,
            origin: self.origin,
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AlarmBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u32>,
    account: u32,
    value: Text<Balance>,
    net_debit_cap: Text<Amount>,
}
