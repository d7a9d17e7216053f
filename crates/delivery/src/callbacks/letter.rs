//! A dead letter as it is kept: the callback itself, so that it can go out again, and what became of it.

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::transfers::{Code, Reason, TransferState};
use holdfast_engine::callbacks::in_words;
use holdfast_hub::CallbackRow;
use serde::{Deserialize, Serialize};

use super::callback::Callback;

/// A callback that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Letter {
    pub(super) number: u64,
    offset: u64,
    decided_at: Millis,
    pub(super) to: u32,
    pub(super) transfer_id: String,
    message: Message,
    /// Where it was sent last.
    pub(super) url: Option<String>,
    /// Why that failed.
    pub(super) last_error: String,
    pub(super) attempts: u32,
    /// When it was given up.
    pub(super) at: Millis,
}

/// [`CallbackMessage`] in the words of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Message {
    ForwardPrepare,
    ForwardFulfil,
    ForwardError,
    Put { state: String },
    Patch { state: String },
    Error { code: u16, reason: Option<u8> },
    Alarm { account: u32, value: String, net_debit_cap: i64 },
}

impl Letter {
    pub(super) fn new(
        row: &CallbackRow,
        attempts: u32,
        at: Millis,
        last_error: String,
        url: Option<String>,
    ) -> Letter {
        let CallbackRow { number, offset, time, to, transfer, message } = *row;
        let message = match message {
            CallbackMessage::ForwardPrepare => Message::ForwardPrepare,
            CallbackMessage::ForwardFulfil => Message::ForwardFulfil,
            CallbackMessage::ForwardError => Message::ForwardError,
            CallbackMessage::Put(state) => Message::Put { state: state.name().to_owned() },
            CallbackMessage::Patch(state) => Message::Patch { state: state.name().to_owned() },
            CallbackMessage::Error(code, reason) => {
                Message::Error { code: code.number(), reason: reason.map(|reason| reason as u8) }
            }
            CallbackMessage::Alarm { account, value, net_debit_cap } => Message::Alarm {
                account: account.0,
                value: value.0.to_string(),
                net_debit_cap: net_debit_cap.0,
            },
        };
        Letter {
            number,
            offset,
            decided_at: time,
            to: to.0,
            transfer_id: transfer.to_string(),
            message,
            url,
            last_error,
            attempts,
            at,
        }
    }

    /// The callback, ready to be tried anew; `None` if it was written by a program that says more than this one.
    pub(super) fn callback(&self) -> Option<Callback> {
        let state = |name: &str| TransferState::from_name(name);
        let message = match &self.message {
            Message::ForwardPrepare => CallbackMessage::ForwardPrepare,
            Message::ForwardFulfil => CallbackMessage::ForwardFulfil,
            Message::ForwardError => CallbackMessage::ForwardError,
            Message::Put { state: name } => CallbackMessage::Put(state(name)?),
            Message::Patch { state: name } => CallbackMessage::Patch(state(name)?),
            Message::Error { code, reason } => {
                let reason = match reason {
                    None => None,
                    Some(number) => Some(Reason::from_number(*number)?),
                };
                CallbackMessage::Error(Code::of_payee(*code)?, reason)
            }
            Message::Alarm { account, value, net_debit_cap } => CallbackMessage::Alarm {
                account: AccountId(*account),
                value: Balance(value.parse().ok()?),
                net_debit_cap: Amount(*net_debit_cap),
            },
        };
        let transfer: TransferId = self.transfer_id.parse().ok()?;
        let row = CallbackRow {
            number: self.number,
            offset: self.offset,
            time: self.decided_at,
            to: ParticipantId(self.to),
            transfer,
            message,
        };
        Some(Callback { from_dead_letters: true, ..Callback::new(row) })
    }

    /// What it would have said, for people.
    pub(super) fn what(&self) -> String {
        match self.callback() {
            Some(callback) => in_words(&callback.row.message, callback.row.transfer),
            None => "a callback that this program cannot send".to_owned(),
        }
    }

    /// Whether it is about a transfer.
    pub(super) const fn has_transfer(&self) -> bool {
        !matches!(self.message, Message::Alarm { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_from_its_line() {
        let messages = [
            CallbackMessage::ForwardPrepare,
            CallbackMessage::ForwardFulfil,
            CallbackMessage::ForwardError,
            CallbackMessage::Put(TransferState::Committed),
            CallbackMessage::Patch(TransferState::ExpiredReserved),
            CallbackMessage::Error(Code::of_payee(3100).unwrap(), Some(Reason::NotReserved)),
            CallbackMessage::Error(Code::of_payee(5999).unwrap(), None),
            CallbackMessage::Alarm {
                account: AccountId(3),
                value: Balance(i128::MAX),
                net_debit_cap: Amount(-5),
            },
        ];
        for message in messages {
            let row = CallbackRow {
                number: u64::MAX,
                offset: 5,
                time: -6,
                to: ParticipantId(7),
                transfer: TransferId(8),
                message,
            };
            let letter = Letter::new(&row, 9, 10, "why \"not\"\n?".to_owned(), Some("http://x/".to_owned()));
            let line = serde_json::to_string(&letter).unwrap();
            let back: Letter = serde_json::from_str(&line).unwrap();
            assert_eq!(back, letter, "{line}");
            assert_eq!(back.callback(), Some(Callback { from_dead_letters: true, ..Callback::new(row) }));
        }
    }
}
