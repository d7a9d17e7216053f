//! The states of a transfer and the moves between them, in the names of the system they come from.

use std::fmt;

use crate::numbered::numbered;

numbered! {
    /// Where a transfer stands. History is append-only; the last row is the truth. Each has its internal name, as in
    /// `transferStateChange`.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    #[allow(missing_docs, reason = "the names are the documentation: they are those of the peer system")]
    pub enum TransferState: u8, name {
        ReceivedPrepare = 1 => "RECEIVED_PREPARE",
        Invalid = 2 => "INVALID",
        Reserved = 3 => "RESERVED",
        ReceivedFulfil = 4 => "RECEIVED_FULFIL",
        Committed = 5 => "COMMITTED",
        ReceivedError = 6 => "RECEIVED_ERROR",
        AbortedError = 7 => "ABORTED_ERROR",
        AbortedRejected = 8 => "ABORTED_REJECTED",
        ReservedTimeout = 9 => "RESERVED_TIMEOUT",
        ExpiredPrepared = 10 => "EXPIRED_PREPARED",
        ExpiredReserved = 11 => "EXPIRED_RESERVED",
    }
}

use TransferState as S;

impl TransferState {
    /// Whether a transfer in `from` (`None`: not yet seen) may move to this state.
    #[must_use]
    pub const fn may_follow(self, from: Option<TransferState>) -> bool {
        match from {
            None => matches!(self, S::ReceivedPrepare | S::Invalid),
            Some(S::ReceivedPrepare) => matches!(self, S::Reserved | S::AbortedRejected | S::ExpiredPrepared),
            Some(S::Reserved) => matches!(self, S::ReceivedFulfil | S::ReceivedError | S::ReservedTimeout),
            Some(S::ReceivedFulfil) => matches!(self, S::Committed),
            Some(S::ReceivedError) => matches!(self, S::AbortedError),
            Some(S::ReservedTimeout) => matches!(self, S::ExpiredReserved),
            Some(
                S::Invalid
                | S::Committed
                | S::AbortedError
                | S::AbortedRejected
                | S::ExpiredPrepared
                | S::ExpiredReserved,
            ) => false,
        }
    }

    /// No move leads on from here.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            S::Invalid
                | S::Committed
                | S::AbortedError
                | S::AbortedRejected
                | S::ExpiredPrepared
                | S::ExpiredReserved
        )
    }

    /// The transfer's amount stands on the payer's position, or its tokens are held, and it has not yet reached its end.
    #[must_use]
    pub const fn holds_value(self) -> bool {
        matches!(self, S::Reserved | S::ReceivedFulfil | S::ReceivedError | S::ReservedTimeout)
    }

    /// Expiry may still end it.
    #[must_use]
    pub const fn may_expire(self) -> bool {
        matches!(self, S::ReceivedPrepare | S::Reserved)
    }

    /// The state of that internal name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TransferState> {
        TransferState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// What participants see: the `transferState` of the FSPIOP standard.
    #[must_use]
    pub const fn external(self) -> &'static str {
        match self {
            S::ReceivedPrepare => "RECEIVED",
            S::Reserved | S::ReceivedFulfil | S::ReceivedError | S::ReservedTimeout => "RESERVED",
            S::Committed => "COMMITTED",
            S::Invalid | S::AbortedError | S::AbortedRejected | S::ExpiredPrepared | S::ExpiredReserved => {
                "ABORTED"
            }
        }
    }
}

impl fmt::Display for TransferState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_come_back() {
        for state in TransferState::ALL {
            assert_eq!(TransferState::from_number(state.number()), Some(state));
            assert_eq!(TransferState::from_name(state.name()), Some(state));
        }
        assert_eq!(TransferState::from_number(0), None);
    }

    #[test]
    fn exactly_the_legal_moves() {
        let moves: Vec<String> = std::iter::once(None)
            .chain(TransferState::ALL.map(Some))
            .flat_map(|from| TransferState::ALL.map(move |to| (from, to)))
            .filter(|(from, to)| to.may_follow(*from))
            .map(|(from, to)| format!("{}->{to}", from.map_or("", TransferState::name)))
            .collect();
        assert_eq!(
            moves,
            [
                "->RECEIVED_PREPARE",
                "->INVALID",
                "RECEIVED_PREPARE->RESERVED",
                "RECEIVED_PREPARE->ABORTED_REJECTED",
                "RECEIVED_PREPARE->EXPIRED_PREPARED",
                "RESERVED->RECEIVED_FULFIL",
                "RESERVED->RECEIVED_ERROR",
                "RESERVED->RESERVED_TIMEOUT",
                "RECEIVED_FULFIL->COMMITTED",
                "RECEIVED_ERROR->ABORTED_ERROR",
                "RESERVED_TIMEOUT->EXPIRED_RESERVED",
            ]
        );
        for state in TransferState::ALL {
            let leads_on = TransferState::ALL.into_iter().any(|next| next.may_follow(Some(state)));
            assert_eq!(state.is_final(), !leads_on, "{state}");
        }
    }
}
