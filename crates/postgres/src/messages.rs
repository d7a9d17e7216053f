//! What comes in and what goes out. Outgoing messages lie in the outbox as JSON until the relay has sent them.

use holdfast_domain::command::Admin;
use holdfast_domain::effects::{NotificationKind, Party};
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::Action;
use holdfast_domain::transfers::{Code, CompletionKind, Reason, TransferState};
use serde::{Deserialize, Serialize};

/// One message of a batch.
#[derive(Debug, Clone)]
pub struct Incoming<M> {
    /// Where it lies in its partition.
    pub offset: u64,
    /// Follows the request through all hops.
    pub trace: String,
    /// Its bytes, for the dead letters.
    pub body: Vec<u8>,
    /// What it says, or why it cannot be read: then it becomes a dead letter.
    pub message: Result<M, String>,
}

/// One message of the topic `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionRequest {
    /// A step of a transfer.
    Transfer(PositionMessage),
    /// Limits and funds, on the account's key.
    Admin(Admin),
}

/// A step of a transfer on its way to the position step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionMessage {
    /// Which transfer.
    pub transfer: TransferId,
    /// The account it changes, which is the message's key.
    pub account: AccountId,
    /// What to do.
    pub action: Action,
    /// The transfer's amount, for people; the row's is what counts.
    pub amount: Amount,
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// To the position step, by account.
    Position,
    /// To callbacks and waiting callers, by transfer.
    Notifications,
}

impl Topic {
    /// The topic's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Topic::Position => "position",
            Topic::Notifications => "notifications",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Topic> {
        [Topic::Position, Topic::Notifications].into_iter().find(|topic| topic.name() == name)
    }
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outgoing {
    /// To the position step.
    Position(PositionMessage),
    /// To whoever is to be told.
    Notification(Notice),
}

/// Somebody is told where a transfer, or an account, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub told: Told,
    /// Who is told.
    pub to: ParticipantId,
    /// About which transfer, or which movement of funds.
    pub transfer: Option<TransferId>,
    /// Where the transfer stands.
    pub state: Option<TransferState>,
    /// The error.
    pub code: Option<Code>,
    /// The error in particular.
    pub reason: Option<Reason>,
    /// The fulfil or abort that the transfer took.
    pub completion: Option<CompletionKind>,
    /// The number of what it is about.
    pub subject: u64,
    /// What the account touched last stands at.
    pub value: Balance,
}

/// What a notice tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Something happened to the transfer.
    Happened(NotificationKind, Party),
    /// The answer to a command that moved nothing, or to one of the operator's. `repeat`: it is the stored one.
    Answer {
        /// What was asked.
        asked: Asked,
        /// The same was asked before.
        repeat: bool,
    },
    /// The account passed the alarm percentage of its cap.
    Alarm {
        /// The position account.
        account: AccountId,
        /// Its cap.
        net_debit_cap: Amount,
    },
}

/// What an answer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Asked {
    Prepare,
    Commit,
    Reserve,
    Abort,
    Lookup,
    /// A step of the position handler that came again.
    Position,
    /// Limits and funds.
    Admin,
}

/// A stored message that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a message in the outbox cannot be read: {0}")]
pub struct MessageError(String);

/// The version of the stored form.
const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct PositionJson {
    v: u8,
    transfer: String,
    account: u32,
    action: String,
    amount: String,
}

#[derive(Serialize, Deserialize)]
struct NoticeJson {
    v: u8,
    to: u32,
    #[serde(flatten)]
    told: ToldJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<u8>,
    subject: u64,
    value: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "kebab-case")]
enum ToldJson {
    Happened { kind: u8, party: u8 },
    Answer { asked: Asked, repeat: bool },
    Alarm { account: u32, cap: String },
}

const KINDS: [NotificationKind; 5] = [
    NotificationKind::Prepared,
    NotificationKind::Committed,
    NotificationKind::Aborted,
    NotificationKind::Expired,
    NotificationKind::Refused,
];
const COMPLETIONS: [CompletionKind; 3] =
    [CompletionKind::Commit, CompletionKind::Reserve, CompletionKind::Abort];

pub(crate) fn completion_of(number: u8) -> Option<CompletionKind> {
    COMPLETIONS.into_iter().find(|kind| *kind as u8 == number)
}

impl Outgoing {
    pub(crate) const fn topic(&self) -> Topic {
        match self {
            Outgoing::Position(_) => Topic::Position,
            Outgoing::Notification(_) => Topic::Notifications,
        }
    }

    /// What decides on the partition: all of an account, all of a transfer, stay in order.
    pub(crate) fn key(&self) -> String {
        match self {
            Outgoing::Position(message) => message.account.0.to_string(),
            Outgoing::Notification(Notice { transfer: Some(id), .. }) => id.to_string(),
            Outgoing::Notification(notice) => notice.to.0.to_string(),
        }
    }

    pub(crate) fn to_json(self) -> String {
        let text = match self {
            Outgoing::Position(message) => serde_json::to_string(&PositionJson {
                v: VERSION,
                transfer: message.transfer.to_string(),
                account: message.account.0,
                action: message.action.name().to_owned(),
                amount: message.amount.to_string(),
            }),
            Outgoing::Notification(notice) => serde_json::to_string(&NoticeJson {
                v: VERSION,
                to: notice.to.0,
                told: match notice.told {
                    Told::Happened(kind, party) => {
                        ToldJson::Happened { kind: kind as u8, party: party as u8 }
                    }
                    Told::Answer { asked, repeat } => ToldJson::Answer { asked, repeat },
                    Told::Alarm { account, net_debit_cap } => {
                        ToldJson::Alarm { account: account.0, cap: net_debit_cap.to_string() }
                    }
                },
                transfer: notice.transfer.map(|id| id.to_string()),
                state: notice.state.map(|state| state.name().to_owned()),
                code: notice.code.map(Code::number),
                reason: notice.reason.map(|reason| reason as u8),
                completion: notice.completion.map(|kind| kind as u8),
                subject: notice.subject,
                value: notice.value.0.to_string(),
            }),
        };
        text.expect("plain data becomes JSON")
    }

    pub(crate) fn from_json(topic: Topic, text: &str) -> Result<Outgoing, MessageError> {
        let unreadable = |error: serde_json::Error| MessageError(error.to_string());
        match topic {
            Topic::Position => position_from(&serde_json::from_str(text).map_err(unreadable)?)
                .map(Outgoing::Position)
                .ok_or_else(|| MessageError(text.to_owned())),
            Topic::Notifications => notice_from(&serde_json::from_str(text).map_err(unreadable)?)
                .map(Outgoing::Notification)
                .ok_or_else(|| MessageError(text.to_owned())),
        }
    }
}

fn position_from(json: &PositionJson) -> Option<PositionMessage> {
    (json.v == VERSION).then_some(())?;
    Some(PositionMessage {
        transfer: json.transfer.parse().ok()?,
        account: AccountId(json.account),
        action: Action::ALL.into_iter().find(|action| action.name() == json.action)?,
        amount: json.amount.parse().ok()?,
    })
}

fn notice_from(json: &NoticeJson) -> Option<Notice> {
    (json.v == VERSION).then_some(())?;
    Some(Notice {
        told: match &json.told {
            ToldJson::Happened { kind, party } => Told::Happened(
                KINDS.into_iter().find(|known| *known as u8 == *kind)?,
                [Party::Payer, Party::Payee].into_iter().find(|known| *known as u8 == *party)?,
            ),
            ToldJson::Answer { asked, repeat } => Told::Answer { asked: *asked, repeat: *repeat },
            ToldJson::Alarm { account, cap } => {
                Told::Alarm { account: AccountId(*account), net_debit_cap: cap.parse().ok()? }
            }
        },
        to: ParticipantId(json.to),
        transfer: parsed(json.transfer.as_deref(), |text| text.parse().ok())?,
        state: parsed(json.state.as_deref(), TransferState::from_name)?,
        code: parsed(json.code, Code::of_payee)?,
        reason: parsed(json.reason, Reason::from_number)?,
        completion: parsed(json.completion, completion_of)?,
        subject: json.subject,
        value: Balance(json.value.parse().ok()?),
    })
}

/// Nothing stays nothing; what is there must be readable.
fn parsed<A, B>(given: Option<A>, parse: impl FnOnce(A) -> Option<B>) -> Option<Option<B>> {
    match given {
        None => Some(None),
        Some(given) => parse(given).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let notice = |told| Notice {
            told,
            to: ParticipantId(3),
            transfer: Some(TransferId(7)),
            state: Some(TransferState::Committed),
            code: Code::of_payee(5001),
            reason: Some(Reason::WrongSource),
            completion: Some(CompletionKind::Reserve),
            subject: u64::MAX,
            value: Balance(-12),
        };
        let mut all = vec![Outgoing::Position(PositionMessage {
            transfer: TransferId(9),
            account: AccountId(4),
            action: Action::TimeoutReserved,
            amount: Amount(123_456),
        })];
        for kind in KINDS {
            all.push(Outgoing::Notification(notice(Told::Happened(kind, Party::Payee))));
        }
        all.push(Outgoing::Notification(notice(Told::Answer { asked: Asked::Lookup, repeat: true })));
        let alarm = Told::Alarm { account: AccountId(1), net_debit_cap: Amount(5) };
        all.push(Outgoing::Notification(Notice { transfer: None, state: None, code: None, ..notice(alarm) }));
        for message in all {
            let text = message.to_json();
            assert_eq!(Outgoing::from_json(message.topic(), &text).unwrap(), message, "{text}");
        }
    }

    /// Rows written by an older program must stay readable.
    #[test]
    fn the_stored_form_is_fixed() {
        let text = r#"{"v":1,"transfer":"00000000-0000-0000-0000-000000000009","account":4,"action":"timeout-reserved","amount":"12.3456"}"#;
        let message = Outgoing::Position(PositionMessage {
            transfer: TransferId(9),
            account: AccountId(4),
            action: Action::TimeoutReserved,
            amount: Amount(123_456),
        });
        assert_eq!(message.to_json(), text);
        let notice = r#"{"v":1,"to":3,"told":"happened","kind":2,"party":1,"transfer":"00000000-0000-0000-0000-000000000007","state":"COMMITTED","completion":1,"subject":11,"value":"-50000"}"#;
        let read = Outgoing::from_json(Topic::Notifications, notice).unwrap();
        assert_eq!(read.to_json(), notice);
        assert!(Outgoing::from_json(Topic::Position, &text.replace("\"v\":1", "\"v\":2")).is_err());
    }
}
