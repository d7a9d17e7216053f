//! What a holder can do with its lock besides spending: renew it, give it back.

use std::time::Duration;

use holdfast_domain::ids::Millis;
use holdfast_messages::{Message as _, TokenEvent};
use holdfast_tokens::{Lease, Name, Refusal};

use super::claim::fence_of;
use super::moment;
use super::supply::tell;
use crate::Error;
use crate::guard::unsigned;
use crate::session::Store;
use crate::types::Moment;

/// Why a lock was neither renewed nor given back.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// There is no such live lock, or a transfer has it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<postgres::Error> for HoldError {
    fn from(error: postgres::Error) -> HoldError {
        HoldError::Store(error.into())
    }
}

const RENEW: &str = "
    WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, hub_clock()) AS now),
    old AS MATERIALIZED (SELECT s.expires_at FROM token_selection s WHERE s.spender_tx_id = $2 FOR UPDATE),
    kept AS (
        UPDATE token_selection s SET expires_at = m.now + $4::double precision * interval '1 second', changed_at = m.now
        FROM moment m, old
        WHERE s.spender_tx_id = $2 AND s.state = 'HELD' AND s.expires_at > m.now AND s.fence = coalesce($3::bigint, s.fence)
            AND s.payee_wallet IS NULL
        RETURNING s.fence, s.expires_at, s.token_ids, s.expires_at < old.expires_at AS shorter),
    locked AS (
        UPDATE token_lock l SET expires_at = k.expires_at FROM kept k
        WHERE l.token_id = ANY(k.token_ids) AND l.spender_tx_id = $2 AND l.fence = k.fence AND NOT l.spent
        RETURNING 1)
    SELECT k.fence, k.expires_at, k.shorter,
        CASE WHEN (SELECT count(*) FROM locked) <> cardinality(k.token_ids) THEN token_race() END
    FROM kept k";

const RELEASE: &str = "
    WITH given AS (
        UPDATE token_selection s SET state = 'RELEASED', changed_at = coalesce($1::timestamptz, hub_clock())
        WHERE s.spender_tx_id = $2 AND s.state = 'HELD' AND s.fence = $3 AND s.payee_wallet IS NULL
        RETURNING s.token_ids),
    freed AS (
        UPDATE token_lock l SET spender_tx_id = NULL, expires_at = NULL FROM given g
        WHERE l.token_id = ANY(g.token_ids) AND l.spender_tx_id = $2 AND l.fence = $3 AND NOT l.spent
        RETURNING 1),
    told AS (INSERT INTO token_change (event) SELECT $4::text FROM given)
    SELECT (SELECT count(*) FROM freed), EXISTS (SELECT FROM given)";

impl Store {
    /// Moves the end of a live lease to `lease_ms` from now. If that is earlier than before, there is something to tell: nodes
    /// whose callers wait for the lease's end know only the old one.
    ///
    /// # Errors
    /// If there is no such live lock, or a transfer has it.
    pub fn renew_tokens(
        &mut self,
        spender: &str,
        fence: Option<u64>,
        lease_ms: i64,
        now: Option<Millis>,
    ) -> Result<(Lease, Option<TokenEvent>), HoldError> {
        let fence = fence.map(fence_of);
        let lease = Duration::from_millis(lease_ms.unsigned_abs()).as_secs_f64();
        let row = self.retrying(|store| store.query_opt(RENEW, &[&moment(now), &spender, &fence, &lease]))?;
        let Some(row) = row else {
            let held = self.held_fence(spender)?;
            return Err(held
                .err()
                .unwrap_or_else(|| lost(spender, "its lease has ended, or it is another's")));
        };
        let Moment(expires_at) = row.get(1);
        let lease = Lease { expires_at, fence: unsigned("token_selection", row.get(0))? };
        if !row.get::<_, bool>(2) {
            return Ok((lease, None));
        }
        // By itself, and only now: most renewals have nothing to tell. If it does not come to it, whoever waits elsewhere waits for
        // the old end.
        let event = TokenEvent::Shortened { spender: spender.into(), fence: lease.fence, expires_at };
        tell(&mut self.client, &event)?;
        Ok((lease, Some(event)))
    }

    /// Gives back what a spender has locked; how many tokens that were.
    ///
    /// # Errors
    /// If the fence is of another selection, or a transfer has it.
    pub fn release_tokens(
        &mut self,
        spender: &str,
        fence: Option<u64>,
        now: Option<Millis>,
    ) -> Result<(usize, Option<TokenEvent>), HoldError> {
        let Some(held) = self.held_fence(spender)?? else { return Ok((0, None)) };
        if fence.is_some_and(|fence| fence != held) {
            return Err(lost(spender, "the fence is of another selection"));
        }
        let event = TokenEvent::Released { spender: spender.into(), fence: held };
        let json = String::from_utf8(event.to_json()).expect("JSON is text");
        let (freed, is_given): (i64, bool) = self.retrying(|store| {
            let row = store.query_one(RELEASE, &[&moment(now), &spender, &fence_of(held), &json])?;
            Ok((row.get(0), row.get(1)))
        })?;
        if !is_given {
            // It ended meanwhile, or a transfer has made a hold of it.
            return self.held_fence(spender)?.map(|_| (0, None));
        }
        let freed = usize::try_from(freed).map_err(|_| Error::corrupt("token_lock", "a negative count"))?;
        Ok((freed, Some(event)))
    }

    /// The fence of what a spender has locked, if anything. The inner error: a transfer has it.
    fn held_fence(&mut self, spender: &str) -> Result<Result<Option<u64>, HoldError>, Error> {
        let held = self.client.query_opt(
            "SELECT fence, payee_wallet IS NOT NULL FROM token_selection WHERE spender_tx_id = $1 AND state = 'HELD'",
            &[&spender],
        )?;
        let Some(held) = held else { return Ok(Ok(None)) };
        if held.get(1) {
            return Ok(Err(HoldError::Refused(of_transfer(spender.into()))));
        }
        Ok(Ok(Some(unsigned("token_selection", held.get(0))?)))
    }
}

fn lost(spender: &str, reason: &'static str) -> HoldError {
    HoldError::Refused(Refusal::LeaseLost { spender: spender.into(), reason })
}

/// The refusal of whoever wants to renew, release or spend what a transfer holds.
#[must_use]
pub fn of_transfer(spender: Name) -> Refusal {
    Refusal::SpenderInUse { spender, reason: "a transfer or checkout holds it and will end it" }
}
