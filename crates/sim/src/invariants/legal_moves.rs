//! The moves a transfer may make, written down a second time.

use holdfast_domain::transfers::TransferState::{self, *};

const MOVES: [(TransferState, TransferState); 9] = [
    (ReceivedPrepare, Reserved),
    (ReceivedPrepare, AbortedRejected),
    (ReceivedPrepare, ExpiredPrepared),
    (Reserved, ReceivedFulfil),
    (Reserved, ReceivedError),
    (Reserved, ReservedTimeout),
    (ReceivedFulfil, Committed),
    (ReceivedError, AbortedError),
    (ReservedTimeout, ExpiredReserved),
];

/// Whether a history may begin so.
pub fn may_begin(state: TransferState) -> bool {
    state == ReceivedPrepare || state == Invalid
}

/// Whether one row of a history may follow on another.
pub fn may_move(from: TransferState, to: TransferState) -> bool {
    MOVES.contains(&(from, to))
}

/// Whether a transfer seen in one state may be found in the other later.
pub fn may_become(from: TransferState, to: TransferState) -> bool {
    from == to || MOVES.iter().any(|(source, next)| *source == from && may_become(*next, to))
}

/// Whether nothing follows.
pub fn is_end(state: TransferState) -> bool {
    MOVES.iter().all(|(source, _)| *source != state)
}
