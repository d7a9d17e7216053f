//! Callbacks that were given up, and another try for them.

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};

use crate::Reading;

/// Dead letters that one request may set in motion; the answer says whether there are more.
pub const RETRIED_AT_ONCE_MAX: usize = 4_096;

/// A callback that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number.
    pub number: u64,
    /// Who was to be called.
    pub to: ParticipantId,
    /// The name of that participant, if it is known here.
    pub participant: Option<String>,
    /// About which transfer, if about one.
    pub transfer_id: Option<String>,
    /// What it would have said.
    pub what: String,
    /// Where it was sent last.
    pub url: Option<String>,
    /// Why that failed.
    pub last_error: String,
    /// How often it was sent.
    pub attempts: u32,
    /// When it was given up.
    pub at: Millis,
    /// It is being tried again.
    pub retrying: bool,
}

/// What a callback would have said, for people.
#[must_use]
pub fn in_words(message: &CallbackMessage, transfer: TransferId) -> String {
    match message {
        CallbackMessage::ForwardPrepare => "POST /transfers".to_owned(),
        CallbackMessage::ForwardFulfil => format!("PUT /transfers/{transfer}"),
        CallbackMessage::ForwardError => format!("PUT /transfers/{transfer}/error"),
        CallbackMessage::Put(state) => format!("PUT /transfers/{transfer} ({})", state.name()),
        CallbackMessage::Patch(state) => format!("PATCH /transfers/{transfer} ({})", state.name()),
        CallbackMessage::Error(code, _) => format!("PUT /transfers/{transfer}/error ({})", code.number()),
        CallbackMessage::Alarm { .. } => "limit alarm".to_owned(),
    }
}

/// Whether a callback is about a transfer.
#[must_use]
pub const fn has_transfer(message: &CallbackMessage) -> bool {
    !matches!(message, CallbackMessage::Alarm { .. })
}

/// What became of an operator's wish to try a dead letter again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It is on its way.
    Taken,
    /// It is on its way already.
    Already,
    /// There is no such letter.
    Unknown,
    /// Too much waits for the participant.
    NoRoom,
}

/// What became of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retried {
    /// They are on their way.
    pub retried: u64,
    /// There was no room for them.
    pub without_room: u64,
    /// There are others.
    pub more: bool,
}

/// The callbacks that were given up: in a file beside a hub's data, or in rows that all nodes share.
pub trait Callbacks: Send + Sync {
    /// Dead letters by number, after the one given: of one participant, or of all; at most `limit`.
    fn dead_letters(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        limit: usize,
    ) -> Reading<'_, Vec<DeadLetter>>;

    /// Tries one again.
    fn retry(&self, number: u64) -> Reading<'_, Retry>;

    /// Tries those of one participant, or all there are, again, at most [`RETRIED_AT_ONCE_MAX`].
    fn retry_all(&self, to: Option<ParticipantId>) -> Reading<'_, Retried>;
}
