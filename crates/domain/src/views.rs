//! What edges show of the state, as values that every profile can give.

use crate::ids::{Millis, ParticipantId};
use crate::money::{Amount, Balance};
use crate::participants::Name;
use crate::transfers::{Transfer, TransferState};

/// A transfer as it stood when it was asked for, with the names of its parties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTransfer {
    /// The transfer.
    pub row: Transfer,
    /// Who pays; only an INVALID transfer can name a participant that does not exist.
    pub payer: Option<Name>,
    /// Who is paid.
    pub payee: Option<Name>,
}

/// What a transfer did to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedChange {
    /// Whose position.
    pub participant: Option<Name>,
    /// By how much it changed.
    pub change: Amount,
    /// What it stood at afterwards.
    pub value: Balance,
}

/// One transfer with its past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferStory {
    /// The transfer itself.
    pub transfer: NamedTransfer,
    /// Every state that it came to, and when.
    pub history: Vec<(TransferState, Millis)>,
    /// The changes of positions that it made, in their order.
    pub changes: Vec<NamedChange>,
    /// Whether its messages are no longer kept.
    pub archived: bool,
}

/// Which transfers a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferFilter {
    /// Only those that stand in this state.
    pub state: Option<TransferState>,
    /// Only those that this participant pays or is paid by.
    pub participant: Option<ParticipantId>,
}

impl TransferFilter {
    /// Whether the list shows this one.
    #[must_use]
    pub fn lets_through(self, row: &Transfer) -> bool {
        self.state.is_none_or(|state| row.state == state)
            && self.participant.is_none_or(|party| row.payer == party || row.payee == party)
    }
}

/// A page of a list of transfers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferPage {
    /// Its rows. With a filter that few match, a page can be short or empty and still have a `next`.
    pub transfers: Vec<NamedTransfer>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<String>,
}

/// What has been done, and what is held now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Transfers that there ever were.
    pub transfers: u64,
    /// Holds that are open.
    pub open_holds: u64,
    /// When the next of them runs out.
    pub next_expiration: Option<Millis>,
    /// How many transfers ever came to each state; `None` where counting them would take too long.
    pub reached: Option<Vec<(TransferState, u64)>>,
    /// Participants.
    pub participants: u64,
    /// Accounts.
    pub accounts: u64,
    /// Records that a decision could not place.
    pub dead_letters: u64,
    /// Times a position passed the alarm percentage of its cap; `None` where nobody counts them.
    pub limit_alarms: Option<u64>,
}
