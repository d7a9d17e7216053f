//! The callbacks that durable frames gave rise to, on their way to whoever delivers them.
//!
//! Every callback has a number. Numbers follow from the log alone, so a replay gives each the same one again, and
//! a deliverer that remembers numbers can go on where it stopped. The rows lie in the store, in the order of their
//! numbers; the feed only tells how many of them are durable. However far a deliverer is behind, nothing waits in
//! memory for it.

use holdfast_disk::BLOCK;
use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::transfers::{Code, Reason, TransferState};
use holdfast_engine::Monitor;
use holdfast_store::{CallbackRows, StoreError};

/// One message to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackRow {
    /// Its number since the log began.
    pub number: u64,
    /// The offset of the record that caused it, whose bytes a forward hands on.
    pub offset: u64,
    /// When it was decided.
    pub time: Millis,
    /// Who is called.
    pub to: ParticipantId,
    /// About which transfer.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
}

/// A row as the store keeps it. All have one length, so a row's number tells its place.
pub(crate) const ROW_BYTES: usize = 80;

impl CallbackRow {
    /// The bytes that the store keeps, little-endian:
    /// `number u64, offset u64, time i64, to u32, transfer u128, tag u8, body of 35 bytes`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.time.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[28..44].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[44] = match self.message {
            CallbackMessage::ForwardPrepare => 1,
            CallbackMessage::ForwardFulfil => 2,
            CallbackMessage::ForwardError => 3,
            CallbackMessage::Put(state) => {
                bytes[45] = state.number();
                4
            }
            CallbackMessage::Patch(state) => {
                bytes[45] = state.number();
                5
            }
            CallbackMessage::Error(code, reason) => {
                bytes[45..47].copy_from_slice(&code.number().to_le_bytes());
                bytes[47] = reason.map_or(0, |reason| reason as u8);
                6
            }
            CallbackMessage::Alarm { account, value, net_debit_cap } => {
                bytes[45..49].copy_from_slice(&account.0.to_le_bytes());
                bytes[49..65].copy_from_slice(&value.0.to_le_bytes());
                bytes[65..73].copy_from_slice(&net_debit_cap.0.to_le_bytes());
                7
            }
        };
        bytes
    }

    /// Reads what [`CallbackRow::to_bytes`] wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<CallbackRow> {
        let bytes: &[u8; ROW_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"));
        let wide = |at: usize| u128::from_le_bytes(*bytes[at..].first_chunk().expect("sixteen bytes"));
        let message = match bytes[44] {
            1 => CallbackMessage::ForwardPrepare,
            2 => CallbackMessage::ForwardFulfil,
            3 => CallbackMessage::ForwardError,
            4 => CallbackMessage::Put(TransferState::from_number(bytes[45])?),
            5 => CallbackMessage::Patch(TransferState::from_number(bytes[45])?),
            6 => {
                let reason = match bytes[47] {
                    0 => None,
                    number => Some(Reason::from_number(number)?),
                };
                CallbackMessage::Error(Code::of_payee(u16::from_le_bytes([bytes[45], bytes[46]]))?, reason)
            }
            7 => CallbackMessage::Alarm {
                account: AccountId(half(45)),
                value: Balance(wide(49).cast_signed()),
                net_debit_cap: Amount(word(65).cast_signed()),
            },
            _ => return None,
        };
        Some(CallbackRow {
            number: word(0),
            offset: word(8),
            time: word(16).cast_signed(),
            to: ParticipantId(half(24)),
            transfer: TransferId(wide(28)),
            message,
        })
    }
}

/// Where the row of that number lies: the store puts a header of 16 bytes before a block and 2 before a record.
#[must_use]
pub const fn place_of(number: u64) -> u64 {
    const RECORD: u64 = ROW_BYTES as u64 + 2;
    const PER_BLOCK: u64 = (BLOCK as u64 - 16) / RECORD;
    number / PER_BLOCK * BLOCK as u64 + 16 + number % PER_BLOCK * RECORD
}

#[derive(Default)]
struct FeedState {
    durable: u64,
    ended_below: u64,
    closed: bool,
}

/// Tells the deliverer how many callbacks are durable, and gives them out.
pub struct CallbackFeed {
    state: Monitor<FeedState>,
    rows: CallbackRows,
}

impl CallbackFeed {
    /// A feed of these rows, of which the first `durable` may be delivered.
    pub(crate) fn new(rows: CallbackRows, durable: u64) -> CallbackFeed {
        CallbackFeed { state: Monitor::new(FeedState { durable, ended_below: 0, closed: false }), rows }
    }

    /// All rows before `end` are durable.
    pub(crate) fn advance(&self, end: u64) {
        let mut state = self.state.lock();
        if end > state.durable {
            state.durable = end;
            drop(state);
            self.state.notify_all();
        }
    }

    /// Everything below this number has been delivered or given up.
    pub fn ended_below(&self, number: u64) {
        let mut state = self.state.lock();
        state.ended_below = state.ended_below.max(number.min(state.durable));
    }

    /// The place before which no row is needed any more.
    pub(crate) fn unneeded_before(&self) -> u64 {
        place_of(self.state.lock().ended_below)
    }

    /// How many callbacks are durable.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    /// Waits until more than `known` are durable and tells how many; `None` when there will be no more.
    pub fn wait_beyond(&self, known: u64) -> Option<u64> {
        let idle = |state: &mut FeedState| state.durable <= known && !state.closed;
        let state = self.state.wait_while(self.state.lock(), idle);
        (state.durable > known).then_some(state.durable)
    }

    /// Says that there will be no more.
    pub fn close(&self) {
        self.state.change(|state| state.closed = true);
    }

    /// The durable rows with numbers from `from` to `to`, in order. Those that were removed as delivered are left out.
    pub fn rows(&self, from: u64, to: u64) -> impl Iterator<Item = Result<CallbackRow, StoreError>> {
        let to = to.min(self.durable());
        // Between the last row of a block and the first of the next lies nothing.
        let rows = (from < to).then(|| self.rows.scan(place_of(from), place_of(to)));
        rows.into_iter().flatten().map(move |row| {
            let (at, bytes) = row?;
            let row = CallbackRow::from_bytes(&bytes).filter(|row| place_of(row.number) == at);
            row.ok_or_else(|| self.rows.damaged(at, "no callback of that number stands there"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_comes_back_from_its_bytes() {
        let code = Code::of_payee(5_101).unwrap();
        let messages = [
            CallbackMessage::ForwardPrepare,
            CallbackMessage::ForwardFulfil,
            CallbackMessage::ForwardError,
            CallbackMessage::Put(TransferState::Committed),
            CallbackMessage::Patch(TransferState::ExpiredReserved),
            CallbackMessage::Error(code, None),
            CallbackMessage::Error(code, Some(Reason::NotReserved)),
            CallbackMessage::Alarm { account: AccountId(7), value: Balance(-5), net_debit_cap: Amount(-9) },
        ];
        for message in messages {
            let row = CallbackRow {
                number: 1,
                offset: 2,
                time: -3,
                to: ParticipantId(4),
                transfer: TransferId(u128::MAX - 5),
                message,
            };
            assert_eq!(CallbackRow::from_bytes(&row.to_bytes()), Some(row));
        }
        assert_eq!(CallbackRow::from_bytes(&[0; ROW_BYTES]), None);
    }
}
