//! Callbacks that were given up, as rows that all nodes share.

use holdfast_domain::ids::{HUB, ParticipantId};
use holdfast_domain::participants::HUB_NAME;
use holdfast_engine::{Callbacks, DeadLetter, RETRIED_AT_ONCE_MAX, Reading, Retried, Retry, callbacks};
use holdfast_postgres::{DeadCallback, Given};

use super::DatabaseEngine;

fn letter(dead: DeadCallback) -> DeadLetter {
    let DeadCallback { id, to, name, transfer, message, url, last_error, attempts, at, retrying } = dead;
    DeadLetter {
        number: id,
        to,
        participant: if to == HUB { Some(HUB_NAME.to_owned()) } else { name },
        transfer_id: callbacks::has_transfer(&message).then(|| transfer.to_string()),
        what: callbacks::in_words(&message, transfer),
        url,
        last_error,
        attempts,
        at,
        retrying,
    }
}

impl Callbacks for DatabaseEngine {
    fn dead_letters(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        limit: usize,
    ) -> Reading<'_, Vec<DeadLetter>> {
        Box::pin(async move {
            let page = self.read(move |store| store.dead_callbacks(to, after, limit)).await?;
            Ok(page.into_iter().map(letter).collect())
        })
    }

    fn retry(&self, number: u64) -> Reading<'_, Retry> {
        Box::pin(async move {
            Ok(match self.read(move |store| store.retry_callback(number)).await? {
                Given::Another => Retry::Taken,
                Given::Already => Retry::Already,
                Given::Nothing => Retry::Unknown,
            })
        })
    }

    fn retry_all(&self, to: Option<ParticipantId>) -> Reading<'_, Retried> {
        Box::pin(async move {
            let retried = self.read(move |store| store.retry_callbacks(to, RETRIED_AT_ONCE_MAX)).await?;
            // With as many as one call may set in motion there may be more, and whoever asks again learns it.
            let more = retried >= RETRIED_AT_ONCE_MAX as u64;
            Ok(Retried { retried, without_room: 0, more })
        })
    }
}
