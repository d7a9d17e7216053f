//! Connections for questions: a bounded few, opened when they are needed and kept while they work.

use std::sync::Arc;

use holdfast_engine::{EngineError, Monitor, Refusal};
use holdfast_postgres::{Error, Store};

use crate::health::Part;
use crate::settings::{NodeSettings, READER_WAIT, READERS_MAX};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// All connections are in use.
    #[error("the node is busy; try again after a moment")]
    Busy,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<ReadError> for EngineError {
    fn from(error: ReadError) -> EngineError {
        match error {
            ReadError::Busy => EngineError::Refused(Refusal::Busy),
            ReadError::Store(error) => EngineError::Unreadable(error.to_string()),
        }
    }
}

#[derive(Default)]
struct ReadsState {
    idle: Vec<Store>,
    in_use: usize,
}

/// The connections.
pub(crate) struct Reads {
    settings: Arc<NodeSettings>,
    part: Arc<Part>,
    seats: usize,
    state: Monitor<ReadsState>,
}

impl Reads {
    pub(crate) fn new(settings: Arc<NodeSettings>, part: Arc<Part>) -> Reads {
        Reads::with_seats(settings, part, READERS_MAX)
    }

    /// So many of them.
    pub(crate) fn with_seats(settings: Arc<NodeSettings>, part: Arc<Part>, seats: usize) -> Reads {
        Reads { settings, part, seats, state: Monitor::default() }
    }

    /// Others to the same server, so many, for what must not wait behind these.
    pub(crate) fn beside(&self, seats: usize) -> Reads {
        Reads::with_seats(Arc::clone(&self.settings), Arc::clone(&self.part), seats)
    }

    /// Asks. A connection that failed is not used again, and the question is asked once more: the failure may be older
    /// than the question.
    pub(crate) fn ask<R>(
        &self,
        mut question: impl FnMut(&mut Store) -> Result<R, Error>,
    ) -> Result<R, ReadError> {
        let first = self.ask_once(&mut question);
        match first {
            Err(ReadError::Store(Error::Unavailable(_))) => self.ask_once(&mut question),
            answer => answer,
        }
    }

    /// Has something written, once: after a failure nobody knows whether it was.
    pub(crate) fn write<R>(
        &self,
        mut command: impl FnMut(&mut Store) -> Result<R, Error>,
    ) -> Result<R, ReadError> {
        self.ask_once(&mut command)
    }

    fn ask_once<R>(&self, question: &mut impl FnMut(&mut Store) -> Result<R, Error>) -> Result<R, ReadError> {
        let mut seat = self.sit()?;
        let store = match &mut seat.store {
            Some(store) => store,
            none => none.insert(self.settings.connect_to_ask().inspect_err(|error| self.part.fails(error))?),
        };
        let answer = question(store);
        match &answer {
            Ok(_) => {
                self.part.works();
                seat.keep = true;
            }
            // What one question is about says nothing of the server, nor of the connection.
            Err(Error::Busy { .. } | Error::Refused(_)) => seat.keep = true,
            Err(error) => {
                self.part.fails(error);
                if matches!(error, Error::Unavailable(_)) {
                    // The others were made to the same server: whoever asks next would find them as dead, one by one.
                    let lost = std::mem::take(&mut self.state.lock().idle);
                    drop(lost);
                }
            }
        }
        Ok(answer?)
    }

    fn sit(&self) -> Result<Seat<'_>, ReadError> {
        let full = |state: &mut ReadsState| state.in_use >= self.seats;
        let mut state = self.state.wait_while_for(self.state.lock(), READER_WAIT, full);
        if state.in_use >= self.seats {
            return Err(ReadError::Busy);
        }
        state.in_use += 1;
        Ok(Seat { reads: self, store: state.idle.pop(), keep: false })
    }
}

/// A place among those who ask; given back when dropped, also by who panics.
struct Seat<'a> {
    reads: &'a Reads,
    store: Option<Store>,
    /// The connection is good for the next one.
    keep: bool,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let store = self.store.take().filter(|_| self.keep);
        let mut state = self.reads.state.lock();
        state.in_use -= 1;
        state.idle.extend(store);
        drop(state);
        self.reads.state.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use holdfast_services::Database;

    use super::*;
    use crate::health::Health;
    use crate::scene::without_kafka;

    #[test]
    fn a_question_that_panics_gives_its_place_back() {
        let Some(database) = Database::new("reads") else { return };
        let reads = Reads::new(without_kafka(&database), Health::default().part("store"));
        for _ in 0..READERS_MAX {
            let asked = catch_unwind(AssertUnwindSafe(|| reads.ask::<()>(|_| panic!("a bad question"))));
            assert!(asked.is_err());
        }
        assert!(reads.ask(|store| store.position_accounts(1)).unwrap().is_empty());
    }

    /// A question that cannot be answered says nothing of the connection, which serves the next one.
    #[test]
    fn a_refusal_costs_no_connection() {
        let Some(database) = Database::new("reads_refused") else { return };
        let reads = Reads::with_seats(without_kafka(&database), Health::default().part("store"), 1);
        let first = reads.ask(Store::backend).unwrap();
        // PostgreSQL's texts cannot hold it.
        let refused = reads.ask(|store| store.fix("a\0name", 1));
        assert!(matches!(refused, Err(ReadError::Store(Error::Refused(_)))), "{refused:?}");
        assert_eq!(reads.ask(Store::backend).unwrap(), first);
        // Others beside them have places of their own.
        assert_ne!(reads.beside(1).ask(Store::backend).unwrap(), first);
    }
}
