//! What an operator sees of a hub's callbacks that were given up, and another try for them. They lie in a file beside its data.

use std::io;
use std::sync::Arc;

use holdfast_domain::ids::ParticipantId;
use holdfast_engine::{Callbacks, DeadLetter, EngineError, RETRIED_AT_ONCE_MAX, Reading, Retried, Retry};

use super::letter::Letter;
use super::logged::CallbackLanes;
use super::requests::HubRequests;
use crate::options::LANE_ROWS_MAX;

/// An empty lane has room for what one request may set in motion.
const _: () = assert!(RETRIED_AT_ONCE_MAX <= LANE_ROWS_MAX / 2);

fn shown(letter: Letter, retrying: bool) -> DeadLetter {
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

/// The dead letters of a hub. Cheap to clone.
#[derive(Clone)]
pub struct DeadLetters(pub(super) Arc<CallbackLanes<HubRequests>>);

impl DeadLetters {
    /// Works on the file, on a thread that may wait for the disk.
    fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<CallbackLanes<HubRequests>>) -> io::Result<T> + Send + 'static,
    ) -> Reading<'_, T> {
        let lanes = Arc::clone(&self.0);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || work(&lanes)).await;
            done.map_err(|_| EngineError::Stopped)?.map_err(|error| {
                tracing::error!(%error, "the dead letters cannot be read");
                EngineError::Broken("the dead letters cannot be read")
            })
        })
    }
}

impl Callbacks for DeadLetters {
    fn dead_letters(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        limit: usize,
    ) -> Reading<'_, Vec<DeadLetter>> {
        self.beside(move |lanes| {
            let page = lanes.source.letters.page(to, after, limit)?;
            Ok(page.into_iter().map(|(letter, retrying)| shown(letter, retrying)).collect())
        })
    }

    fn retry(&self, number: u64) -> Reading<'_, Retry> {
        self.beside(move |lanes| lanes.retry(number))
    }

    fn retry_all(&self, to: Option<ParticipantId>) -> Reading<'_, Retried> {
        self.beside(move |lanes| {
            let wanted = lanes.source.letters.at_rest(to, RETRIED_AT_ONCE_MAX + 1);
            let mut all = Retried { more: wanted.len() > RETRIED_AT_ONCE_MAX, ..Retried::default() };
            for number in wanted.into_iter().take(RETRIED_AT_ONCE_MAX) {
                match lanes.retry(number)? {
                    Retry::Taken => all.retried += 1,
                    Retry::Already | Retry::Unknown => {}
                    Retry::NoRoom => all.without_room += 1,
                }
            }
            Ok(all)
        })
    }
}
