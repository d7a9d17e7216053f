//! Callbacks that were given up, for operators to look at and to try again.

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};

use super::message::Columns;
use crate::Error;
use crate::guard::unsigned;
use crate::load::number;
use crate::session::Store;
use crate::types::{Moment, Uuid, most};

/// A callback that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadCallback {
    /// Its number.
    pub id: u64,
    /// Who was called.
    pub to: ParticipantId,
    /// The name, if there is one.
    pub name: Option<String>,
    /// About which transfer; [`NO_TRANSFER`] if about none.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
    /// Where it was sent last.
    pub url: Option<String>,
    /// Why that failed.
    pub last_error: String,
    /// Attempts made.
    pub attempts: u32,
    /// When it was given up.
    pub at: Millis,
    /// It is being tried again.
    pub retrying: bool,
}

/// What became of the wish to try one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// It is due at once, with a full set of attempts.
    Another,
    /// It is being tried already.
    Already,
    /// There is no such dead letter.
    Nothing,
}

impl Store {
    /// Dead letters by number, after the one given: of one participant, or of all; at most `max`.
    ///
    /// # Errors
    /// If the database fails, or a row makes no sense.
    pub fn dead_callbacks(
        &mut self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        max: usize,
    ) -> Result<Vec<DeadCallback>, Error> {
        let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
        let to = to.map(|to| i64::from(to.0));
        let which = if to.is_some() { "c.participant_id = $1::bigint" } else { "$1::bigint IS NULL" };
        let rows = self.client.query(
            &format!(
                "SELECT c.callback_id, c.participant_id, c.transfer_id, c.message_type, c.transfer_state_id,
                     c.error_code, c.error_reason, c.participant_currency_id, c.value, c.net_debit_cap,
                     c.url, coalesce(c.last_error, ''), c.attempts, c.dead_date, c.is_waiting, p.name
                 FROM callback c LEFT JOIN participant p ON p.participant_id = c.participant_id
                 WHERE {which} AND c.dead_date IS NOT NULL AND c.callback_id > $2
                 ORDER BY c.callback_id LIMIT $3"
            ),
            &[&to, &after, &most(max)],
        )?;
        rows.iter()
            .map(|row| {
                let transfer: Option<Uuid> = row.get(2);
                let Moment(at) = row.get(13);
                Ok(DeadCallback {
                    id: unsigned("callback", row.get(0))?,
                    to: ParticipantId(number("callback", row.get(1))?),
                    name: row.get(15),
                    transfer: transfer.map_or(NO_TRANSFER, |id| TransferId(id.0)),
                    message: Columns::read(row, 3)?,
                    url: row.get(10),
                    last_error: row.get(11),
                    attempts: number("callback", row.get(12))?,
                    at,
                    retrying: row.get(14),
                })
            })
            .collect()
    }

    /// How many dead letters there are; nobody needs to know beyond `max`.
    pub fn count_dead_callbacks(&mut self, max: u32) -> Result<u64, Error> {
        let row = self.client.query_one(
            "SELECT count(*) FROM (SELECT callback_id FROM callback WHERE dead_date IS NOT NULL
                 ORDER BY callback_id LIMIT $1) d",
            &[&i64::from(max)],
        )?;
        unsigned("callback", row.get(0))
    }

    /// Has one tried again. It stays a dead letter until it is delivered.
    pub fn retry_callback(&mut self, id: u64) -> Result<Given, Error> {
        let Ok(id) = i64::try_from(id) else { return Ok(Given::Nothing) };
        let row = self.client.query_opt(
            "WITH before AS (SELECT callback_id, is_waiting FROM callback
                 WHERE callback_id = $1 AND dead_date IS NOT NULL FOR UPDATE)
             UPDATE callback c SET is_waiting = true,
                 attempts = CASE WHEN b.is_waiting THEN c.attempts ELSE 0 END,
                 next_try = CASE WHEN b.is_waiting THEN c.next_try ELSE (SELECT hub_clock()) END
             FROM before b WHERE c.callback_id = b.callback_id RETURNING b.is_waiting",
            &[&id],
        )?;
        Ok(match row.map(|row| row.get::<_, bool>(0)) {
            None => Given::Nothing,
            Some(true) => Given::Already,
            Some(false) => Given::Another,
        })
    }

    /// Has up to `max` tried again, of one participant or of all: how many.
    pub fn retry_callbacks(&mut self, to: Option<ParticipantId>, max: usize) -> Result<u64, Error> {
        let to = to.map(|to| i64::from(to.0));
        let which = if to.is_some() { "participant_id = $1::bigint" } else { "$1::bigint IS NULL" };
        Ok(self.client.execute(
            &format!(
                "UPDATE callback SET is_waiting = true, attempts = 0, next_try = (SELECT hub_clock())
                 WHERE callback_id IN (SELECT callback_id FROM callback
                     WHERE {which} AND dead_date IS NOT NULL AND NOT is_waiting
                     ORDER BY callback_id LIMIT $2 FOR UPDATE)"
            ),
            &[&to, &most(max)],
        )?)
    }
}
