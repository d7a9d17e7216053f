//! The relay: what the outbox of a source holds is sent on, in order. After any failure it begins again at the first row
//! that is not known to be sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_kafka::{Producer, SendCause};
use holdfast_postgres::{Claim, Error, OutboxRow, Store};

use crate::board::Board;
use crate::health::Part;
use crate::meters::RelayMeters;
use crate::settings::{NodeSettings, RELAY_ROWS, SEND_WAIT, TROUBLE_PAUSE};
use crate::stop::Stop;

/// How long the relay waits for a ring before it looks around.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a source could not be sent for.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] Error),
    #[error("Kafka does not take what is to be sent: {0}")]
    Kafka(SendCause),
}

pub(crate) struct Relay {
    pub(crate) settings: Arc<NodeSettings>,
    pub(crate) board: Arc<Board>,
    pub(crate) producer: Producer,
    pub(crate) part: Arc<Part>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) meters: RelayMeters,
}

impl Relay {
    /// Sends until the board has ended and nothing rings any more.
    pub(crate) fn run(mut self) {
        let mut store: Option<Store> = None;
        while let Some(claims) = self.board.take(LOOK_EVERY) {
            for claim in claims {
                match self.drain(&mut store, &claim) {
                    Ok(()) => self.part.works(),
                    Err(trouble) => {
                        if matches!(trouble, Trouble::Store(_)) {
                            store = None;
                        }
                        self.part.fails(&trouble);
                        self.meters.failures.increment(1);
                        if self.stop.pause(TROUBLE_PAUSE) {
                            // Whoever claims the source next goes on with it.
                            return;
                        }
                        self.board.ring(claim.segment_id);
                    }
                }
            }
        }
    }

    /// Sends all of a source, or as much as its claim allows.
    fn drain(&mut self, store: &mut Option<Store>, claim: &Claim) -> Result<(), Trouble> {
        let store = match store {
            Some(store) => store,
            None => store.insert(self.settings.connect()?),
        };
        loop {
            let rows = store.unsent(claim, RELAY_ROWS)?;
            let Some(first) = rows.first() else { return Ok(()) };
            let (sent, trouble) = self.send(&rows);
            if sent > 0 {
                self.meters.sent.increment(sent as u64);
                if !store.mark_sent(claim, first.number + sent as u64)? {
                    self.board.remove(claim);
                    return Ok(());
                }
            }
            match trouble {
                Some(trouble) => return Err(trouble),
                None if rows.len() < RELAY_ROWS => return Ok(()),
                None => {}
            }
        }
    }

    /// How many of the rows are sent, and what happened to the next one.
    fn send(&mut self, rows: &[OutboxRow]) -> (usize, Option<Trouble>) {
        let topics = &self.settings.topics;
        let outgoing: Vec<_> =
            rows.iter().map(|row| topics.outgoing(row.topic, row.key.as_bytes(), &row.value)).collect();
        match self.producer.send_all(&outgoing, Instant::now() + SEND_WAIT) {
            Ok(()) => (rows.len(), None),
            // It will never fit; its rows stay in the database, and nothing behind it may wait for ever.
            Err(error) if !error.cause.may_pass() => {
                let row = &rows[error.first_unsent];
                tracing::error!(number = row.number, cause = %error.cause, "a message cannot be sent and is left out");
                self.meters.left_out.increment(1);
                (error.first_unsent + 1, None)
            }
            Err(error) => (error.first_unsent, Some(Trouble::Kafka(error.cause))),
        }
    }
}
