//! A callback's message as columns, and back.

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::AccountId;
use holdfast_domain::money::Balance;
use holdfast_domain::transfers::{Code, Reason, TransferState};

use crate::Error;
use crate::load::{amount_of, number};
use crate::types::Decimal;
use crate::write::account_number;

const FORWARD_PREPARE: &str = "forward-prepare";
const FORWARD_FULFIL: &str = "forward-fulfil";
const FORWARD_ERROR: &str = "forward-error";
const PUT: &str = "put";
const PATCH: &str = "patch";
const ERROR: &str = "error";
const ALARM: &str = "alarm";

/// The columns that say what is said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Columns {
    pub(super) kind: &'static str,
    pub(super) state: Option<i16>,
    pub(super) code: Option<i32>,
    pub(super) reason: Option<i16>,
    pub(super) account: Option<i32>,
    pub(super) value: Option<Decimal>,
    pub(super) net_debit_cap: Option<Decimal>,
}

impl Columns {
    pub(super) fn of(message: CallbackMessage) -> Columns {
        let plain = |kind| Columns { kind, ..Columns::default() };
        let with =
            |kind, state: TransferState| Columns { state: Some(i16::from(state.number())), ..plain(kind) };
        match message {
            CallbackMessage::ForwardPrepare => plain(FORWARD_PREPARE),
            CallbackMessage::ForwardFulfil => plain(FORWARD_FULFIL),
            CallbackMessage::ForwardError => plain(FORWARD_ERROR),
            CallbackMessage::Put(state) => with(PUT, state),
            CallbackMessage::Patch(state) => with(PATCH, state),
            CallbackMessage::Error(code, reason) => Columns {
                code: Some(i32::from(code.number())),
                reason: reason.map(|reason| i16::from(reason as u8)),
                ..plain(ERROR)
            },
            CallbackMessage::Alarm { account, value, net_debit_cap } => Columns {
                account: Some(account_number(account)),
                value: Some(Decimal(value.0)),
                net_debit_cap: Some(Decimal(i128::from(net_debit_cap.0))),
                ..plain(ALARM)
            },
        }
    }

    /// The columns of a row, from `message_type` in the column `at` on.
    pub(super) fn read(row: &postgres::Row, at: usize) -> Result<CallbackMessage, Error> {
        let kind: &str = row.get(at);
        let known = [FORWARD_PREPARE, FORWARD_FULFIL, FORWARD_ERROR, PUT, PATCH, ERROR, ALARM];
        let kind = known.into_iter().find(|known| *known == kind);
        let columns = Columns {
            kind: kind.ok_or_else(|| Error::corrupt("callback", "a message of no known type"))?,
            state: row.get(at + 1),
            code: row.get(at + 2),
            reason: row.get(at + 3),
            account: row.get(at + 4),
            value: row.get(at + 5),
            net_debit_cap: row.get(at + 6),
        };
        let message = columns.message()?;
        message.ok_or_else(|| Error::corrupt("callback", format!("columns that say nothing: {columns:?}")))
    }

    fn message(&self) -> Result<Option<CallbackMessage>, Error> {
        let small = |number: i16| u8::try_from(number).ok();
        let state = self.state.and_then(small).and_then(TransferState::from_number);
        Ok(match self.kind {
            FORWARD_PREPARE => Some(CallbackMessage::ForwardPrepare),
            FORWARD_FULFIL => Some(CallbackMessage::ForwardFulfil),
            FORWARD_ERROR => Some(CallbackMessage::ForwardError),
            PUT => state.map(CallbackMessage::Put),
            PATCH => state.map(CallbackMessage::Patch),
            ERROR => {
                let code = self.code.and_then(|code| u16::try_from(code).ok()).and_then(Code::of_payee);
                let reason = self.reason.and_then(small).and_then(Reason::from_number);
                code.map(|code| CallbackMessage::Error(code, reason))
            }
            _ => match (self.account, self.value, self.net_debit_cap) {
                (Some(account), Some(value), Some(cap)) => Some(CallbackMessage::Alarm {
                    account: AccountId(number("callback", account)?),
                    value: Balance(value.0),
                    net_debit_cap: amount_of(cap)?,
                }),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_domain::money::Amount;

    use super::*;

    #[test]
    fn every_message_comes_back() {
        for message in [
            CallbackMessage::ForwardPrepare,
            CallbackMessage::ForwardFulfil,
            CallbackMessage::ForwardError,
            CallbackMessage::Put(TransferState::Committed),
            CallbackMessage::Patch(TransferState::ExpiredReserved),
            CallbackMessage::Error(Code::of_payee(3100).unwrap(), Some(Reason::NotReserved)),
            CallbackMessage::Error(Code::of_payee(5999).unwrap(), None),
            CallbackMessage::Alarm { account: AccountId(3), value: Balance(-7), net_debit_cap: Amount(5) },
        ] {
            assert_eq!(Columns::of(message).message().unwrap(), Some(message));
        }
        assert_eq!(Columns { kind: PUT, ..Columns::default() }.message().unwrap(), None);
    }
}
