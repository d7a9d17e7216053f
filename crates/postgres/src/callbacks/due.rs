//! What is to be delivered now, and what became of attempts. Every write here belongs to a claim: whoever has lost the shard writes
//! nothing.

use std::time::Duration;

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::ids::{Millis, ParticipantId, TransferId};
use postgres::Row;

use super::message::Columns;
use crate::guard::{signed, unsigned};
use crate::load::number;
use crate::session::Store;
use crate::types::{Moment, Uuid, list, most};
use crate::written::Parameters;
use crate::{Claim, Error};

/// A callback that is to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCallback {
    /// Its number.
    pub id: u64,
    /// Who is called.
    pub to: ParticipantId,
    /// About which transfer; [`NO_TRANSFER`] if about none.
    pub transfer: TransferId,
    /// With what.
    pub message: CallbackMessage,
    /// It answers a prepare, whose headers tell how.
    pub answers_prepare: bool,
    /// When it was decided.
    pub decided_at: Millis,
    /// Attempts made so far.
    pub attempts: u32,
}

/// Participant by participant, by a walk over the index: whoever has a million waiting costs as much as one who has ten. The
/// clock stands in a subquery because an index is not asked for a value that may change.
const DUE: &str = "WITH RECURSIVE held AS (
         SELECT s.enumeration::smallint AS shard
         FROM unnest($1::int[], $2::bigint[]) AS c (id, epoch)
         JOIN segment s ON s.segment_id = c.id AND s.epoch = c.epoch
     ), who (shard, participant_id) AS (
         SELECT h.shard, (SELECT c.participant_id FROM callback c
             WHERE c.shard = h.shard AND c.is_waiting ORDER BY c.participant_id LIMIT 1)
         FROM held h
     UNION ALL
         SELECT w.shard, (SELECT c.participant_id FROM callback c
             WHERE c.shard = w.shard AND c.is_waiting AND c.participant_id > w.participant_id
             ORDER BY c.participant_id LIMIT 1)
         FROM who w WHERE w.participant_id IS NOT NULL
     )
     SELECT d.* FROM who w CROSS JOIN LATERAL (
         SELECT c.callback_id, c.participant_id, c.transfer_id, c.message_type, c.transfer_state_id,
             c.error_code, c.error_reason, c.participant_currency_id, c.value, c.net_debit_cap,
             c.answers_prepare, c.decided_date, c.attempts, c.next_try
         FROM callback c
         WHERE c.shard = w.shard AND c.participant_id = w.participant_id AND c.is_waiting
             AND c.next_try <= (SELECT hub_clock()) AND c.callback_id <> ALL($3)
             AND NOT EXISTS (SELECT 1 FROM callback b
                 WHERE b.transfer_id = c.transfer_id AND b.participant_id = c.participant_id
                     AND b.is_waiting AND b.callback_id < c.callback_id)
         ORDER BY c.next_try, c.callback_id LIMIT $4) d
     WHERE w.participant_id IS NOT NULL AND w.participant_id <> ALL($5)
     ORDER BY d.next_try, d.callback_id LIMIT $6";

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Which callback.
    pub id: u64,
    /// Attempts made so far, this one included.
    pub attempts: u32,
    /// Where it was sent, as far as is known.
    pub url: Option<String>,
    /// Why it failed.
    pub why: String,
}

const END: &str = "WITH ours AS MATERIALIZED (
         SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR SHARE
     ), ended AS (
         DELETE FROM callback WHERE callback_id = ANY($3) AND EXISTS (SELECT 1 FROM ours)
     )
     SELECT EXISTS (SELECT 1 FROM ours)";
const FAIL: &str = "WITH ours AS MATERIALIZED (
         SELECT 1 FROM segment WHERE segment_id = $1 AND epoch = $2 FOR SHARE
     ), failed AS (
         UPDATE callback c SET attempts = u.attempts, url = u.url, last_error = u.why,
             next_try = (SELECT hub_clock()) + coalesce(u.pause, 0) * interval '1 millisecond',
             is_waiting = u.pause IS NOT NULL,
             dead_date = CASE WHEN u.pause IS NULL THEN (SELECT hub_clock()) ELSE c.dead_date END
         FROM unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::bigint[])
             AS u (id, attempts, url, why, pause)
         WHERE c.callback_id = u.id AND EXISTS (SELECT 1 FROM ours)
     )
     SELECT EXISTS (SELECT 1 FROM ours)";

impl Store {
    /// Callbacks of these shards that may go out now, oldest first: at most one of each transfer and participant, at most
    /// `each` of one participant, `max` in all. None of the participants `full`, and none that is in hand already. A
    /// claim that is no longer the latest gives none.
    ///
    /// # Errors
    /// If the database fails, or a row makes no sense.
    pub fn due_callbacks(
        &mut self,
        claims: &[Claim],
        in_hand: &[u64],
        full: &[ParticipantId],
        each: usize,
        max: usize,
    ) -> Result<Vec<DueCallback>, Error> {
        if claims.is_empty() || max == 0 {
            return Ok(Vec::new());
        }
        let (segments, epochs): (Vec<i32>, Vec<i64>) =
            claims.iter().map(|claim| (claim.segment_id, claim.epoch)).unzip();
        let in_hand = list(in_hand, |id| signed(*id));
        let full: Vec<i32> = full.iter().filter_map(|id| i32::try_from(id.0).ok()).collect();
        let rows = self.query(DUE, &[&segments, &epochs, &in_hand, &most(each), &full, &most(max)])?;
        rows.iter().map(due_of).collect()
    }

    /// These were delivered, and go. `false`: the claim is no longer the latest, and nothing happened.
    pub fn callbacks_ended(&mut self, claim: &Claim, ids: &[u64]) -> Result<bool, Error> {
        let ids = list(ids, |id| signed(*id));
        self.is_ours(END, &[&claim.segment_id, &claim.epoch, &ids])
    }

    /// These failed and are due again after their pauses. `false` as above.
    pub fn callbacks_failed(&mut self, claim: &Claim, failed: &[(Failed, Duration)]) -> Result<bool, Error> {
        let pause = |pause: &Duration| Some(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.fail(claim, failed.iter().map(|(failed, after)| (failed, pause(after))))
    }

    /// These failed for good and become dead letters. `false` as above.
    pub fn callbacks_dead(&mut self, claim: &Claim, failed: &[Failed]) -> Result<bool, Error> {
        self.fail(claim, failed.iter().map(|failed| (failed, None)))
    }

    /// Without a pause there is no next time.
    fn fail<'a>(
        &mut self,
        claim: &Claim,
        failed: impl Iterator<Item = (&'a Failed, Option<i64>)>,
    ) -> Result<bool, Error> {
        // PostgreSQL's texts have no NUL.
        let clean = |text: &str| text.replace('\0', "\u{fffd}");
        let (failed, pauses): (Vec<&Failed>, Vec<Option<i64>>) = failed.unzip();
        self.is_ours(
            FAIL,
            &[
                &claim.segment_id,
                &claim.epoch,
                &list(&failed, |failed| signed(failed.id)),
                &list(&failed, |failed| i32::try_from(failed.attempts).unwrap_or(i32::MAX)),
                &list(&failed, |failed| failed.url.as_deref().map(clean)),
                &list(&failed, |failed| clean(&failed.why)),
                &pauses,
            ],
        )
    }

    /// Runs a statement that tells whether the claim is still the latest.
    fn is_ours(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<bool, Error> {
        let row = self.query_opt(sql, parameters)?;
        Ok(row.is_some_and(|row| row.get(0)))
    }
}

fn due_of(row: &Row) -> Result<DueCallback, Error> {
    let transfer: Option<Uuid> = row.get(2);
    let decided: Moment = row.get(11);
    Ok(DueCallback {
        id: unsigned("callback", row.get(0))?,
        to: ParticipantId(number("callback", row.get(1))?),
        transfer: transfer.map_or(NO_TRANSFER, |id| TransferId(id.0)),
        message: Columns::read(row, 3)?,
        answers_prepare: row.get(10),
        decided_at: decided.0,
        attempts: number("callback", row.get(12))?,
    })
}
