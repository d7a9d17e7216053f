//! What became of attempts. Every write here belongs to a claim: whoever has lost the shard writes nothing.

use std::time::Duration;

use crate::guard::signed;
use crate::session::Store;
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

impl Store {
    /// These were delivered, and go. `false`: the claim is no longer the latest, and nothing happened.
    ///
    /// # Errors
    /// If the database fails.
    pub fn callbacks_ended(&mut self, claim: &Claim, ids: &[u64]) -> Result<bool, Error> {
        let ids: Vec<i64> = ids.iter().map(|id| signed(*id)).collect();
        let row = self
            .client
            .query_one(&self.statements.callbacks.end, &[&claim.segment_id, &claim.epoch, &ids])?;
        Ok(row.get(0))
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
        let ids: Vec<i64> = failed.iter().map(|failed| signed(failed.id)).collect();
        let attempts: Vec<i32> =
            failed.iter().map(|failed| i32::try_from(failed.attempts).unwrap_or(i32::MAX)).collect();
        let urls: Vec<Option<String>> =
            failed.iter().map(|failed| failed.url.as_deref().map(clean)).collect();
        let whys: Vec<String> = failed.iter().map(|failed| clean(&failed.why)).collect();
        let row = self.client.query_one(
            &self.statements.callbacks.fail,
            &[&claim.segment_id, &claim.epoch, &ids, &attempts, &urls, &whys, &pauses],
        )?;
        Ok(row.get(0))
    }
}
