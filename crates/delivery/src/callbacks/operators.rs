//! What an operator sees of callbacks that were given up, and another try for them. A hub's lie in a file beside its data; those
//! of a database are its rows, and any node shows them.

use std::io;
use std::sync::Arc;

use holdfast_domain::ids::{HUB, Millis, ParticipantId};
use holdfast_domain::participants::HUB_NAME;
use holdfast_hub::CallbackRow;
use holdfast_postgres::DeadCallback;

use super::desk::HubDesk;
use super::lane::Job;
use super::lanes::Lanes;
use super::letter::Letter;
use crate::options::LANE_ROWS_MAX;

/// Letters that one request may set in motion; the answer says whether there are more. An empty lane has room for them.
pub const RETRIED_AT_ONCE_MAX: usize = LANE_ROWS_MAX / 2;

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

impl DeadLetter {
    fn of(letter: Letter, retrying: bool) -> DeadLetter {
        let (what, has_transfer) = (letter.what(), letter.has_transfer());
        DeadLetter {
            number: letter.number,
            to: ParticipantId(letter.to),
            participant: None,
            transfer_id: Some(letter.transfer_id).filter(|_| has_transfer),
            what,
            url: letter.url,
            last_error: letter.last_error,
            attempts: letter.attempts,
            at: letter.at,
            retrying,
        }
    }
}

impl From<DeadCallback> for DeadLetter {
    fn from(dead: DeadCallback) -> DeadLetter {
        let DeadCallback { id, to, name, transfer, message, url, last_error, attempts, at, retrying } = dead;
        let row = CallbackRow { number: id, offset: 0, time: at, to, transfer, message };
        let job = Job { row, attempts, from_dead_letters: true };
        let participant = if to == HUB { Some(HUB_NAME.to_owned()) } else { name };
        DeadLetter { participant, ..DeadLetter::of(Letter::new(&job, at, last_error, url), retrying) }
    }
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

/// The dead letters of a hub. Every call reads or writes a file.
#[derive(Clone)]
pub struct DeadLetters(pub(super) Arc<Lanes<HubDesk>>);

impl DeadLetters {
    /// Letters after the number given, of one participant or of all, at most `max`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn page(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        max: usize,
    ) -> io::Result<Vec<DeadLetter>> {
        let page = self.0.letters.page(to, after, max)?;
        Ok(page.into_iter().map(|(letter, retrying)| DeadLetter::of(letter, retrying)).collect())
    }

    /// Tries one again.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn retry(&self, number: u64) -> io::Result<Retry> {
        self.0.retry(number)
    }

    /// Tries those of one participant, or all there are, again, at most [`RETRIED_AT_ONCE_MAX`].
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn retry_all(&self, to: Option<ParticipantId>) -> io::Result<Retried> {
        let wanted = self.0.letters.at_rest(to, RETRIED_AT_ONCE_MAX + 1);
        let mut all = Retried { more: wanted.len() > RETRIED_AT_ONCE_MAX, ..Retried::default() };
        for number in wanted.into_iter().take(RETRIED_AT_ONCE_MAX) {
            match self.0.retry(number)? {
                Retry::Taken => all.retried += 1,
                Retry::Already | Retry::Unknown => {}
                Retry::NoRoom => all.without_room += 1,
            }
        }
        Ok(all)
    }
}
