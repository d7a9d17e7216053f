//! What became of attempts. Every write here belongs to a claim: whoever has lost the shard writes nothing.

use std::time::Duration;

use crate::guard::signed;
use crate::session::Store;
use crate::types::list;
use crate::written::Parameters;
use crate::{Claim, Error};

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
    /// These were delivered, and go. `false`: the claim is no longer the latest, and nothing happened.
    ///
    /// # Errors
    /// If the database fails.
    pub fn callbacks_ended(&mut self, claim: &Claim, ids: &[u64]) -> Result<bool, Error> {
        let ids = list(ids, |id| signed(*id));
        self.is_ours(END, &[&claim.segment_id, &claim.epoch, &ids])
    }

    /// These failed and are due again after their pauses. `false` as above.
    ///
    /// # Errors
    /// If the database fails.
    pub fn callbacks_failed(&mut self, claim: &Claim, failed: &[(Failed, Duration)]) -> Result<bool, Error> {
        let pause = |pause: &Duration| Some(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        self.fail(claim, failed.iter().map(|(failed, after)| (failed, pause(after))))
    }

    /// These failed for good and become dead letters. `false` as above.
    ///
    /// # Errors
    /// If the database fails.
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
