//! Claims: each gets all the tokens it names or none, and waits for nobody.

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_domain::ids::Millis;
use holdfast_tokens::{Fingerprint, Name, Token};

use super::moment;
use super::rows::decimal;
use crate::Error;
use crate::guard::unsigned;
use crate::session::Store;
use crate::types::{Moment, Uuid, list};

/// Tokens that a node has chosen for a spender.
#[derive(Debug, Clone)]
pub struct WantedClaim {
    /// For whom.
    pub spender: Name,
    /// What was asked, as a number.
    pub body: Fingerprint,
    /// What was asked for.
    pub amount: u64,
    /// For how long they are locked.
    pub lease_ms: i64,
    /// The tokens.
    pub tokens: Arc<[Token]>,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The tokens are locked.
    Locked {
        /// The selection's number.
        fence: u64,
        /// Since when.
        since: Millis,
        /// Until when.
        expires_at: Millis,
    },
    /// One of the tokens is spent, locked, or in somebody's hand just now. None was taken.
    Taken,
    /// The spender holds a live selection; of the same request, or of another.
    Holds {
        /// Whether it is the answer to this request too.
        same: bool,
    },
    /// The spender has spent.
    Spent,
}

/// Every access to a table is bounded by the request's own lists, besides being joined with them: a plan that was made while
/// the tables were empty must not read them whole when they are not.
const CLAIM: &str = "
    WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, hub_clock()) AS now),
    wanted AS MATERIALIZED (
        SELECT * FROM unnest($2::int[], $3::text[], $4::uuid[], $5::numeric[], $6::bigint[], $7::int[], $8::text[],
                $11::int[])
            AS w (place, spender, body, amount, lease, inputs, wallet, first)),
    before AS MATERIALIZED (
        SELECT w.place, s.state, s.body, s.state = 'HELD' AND s.expires_at > m.now AS live
        FROM wanted w JOIN token_selection s ON s.spender_tx_id = w.spender CROSS JOIN moment m
        WHERE s.spender_tx_id = ANY($3)),
    got AS MATERIALIZED (
        SELECT p.place, l.token_id
        FROM unnest($9::int[], $10::text[]) AS p (place, token_id)
        JOIN token_lock l ON l.token_id = p.token_id CROSS JOIN moment m
        WHERE l.token_id = ANY($10) AND NOT l.spent AND (l.spender_tx_id IS NULL OR l.expires_at <= m.now)
        ORDER BY l.token_id FOR UPDATE OF l SKIP LOCKED),
    whole AS MATERIALIZED (
        SELECT w.*, nextval('token_fence') AS fence
        FROM (SELECT place, count(*) AS inputs FROM got GROUP BY place) c
        JOIN wanted w ON w.place = c.place AND w.inputs = c.inputs
        LEFT JOIN before b ON b.place = w.place
        WHERE b.place IS NULL OR (NOT b.live AND b.state <> 'SPENT')),
    named AS (
        INSERT INTO token_selection AS s (spender_tx_id, state, fence, body, amount, token_ids, wallet, created_at,
            expires_at, changed_at)
        SELECT w.spender, 'HELD', w.fence, w.body, w.amount, ($10::text[])[w.first : w.first + w.inputs - 1], w.wallet,
            m.now, m.now + w.lease * interval '1 millisecond', m.now
        FROM whole w CROSS JOIN moment m ORDER BY w.spender
        ON CONFLICT (spender_tx_id) DO UPDATE SET state = 'HELD', fence = excluded.fence, body = excluded.body,
            amount = excluded.amount, token_ids = excluded.token_ids, wallet = excluded.wallet,
            payee_wallet = NULL,
            created_at = excluded.created_at, expires_at = excluded.expires_at, changed_at = excluded.changed_at
        WHERE s.state = 'RELEASED' OR (s.state = 'HELD' AND s.expires_at <= excluded.created_at)
        RETURNING s.spender_tx_id),
    locked AS (
        UPDATE token_lock l SET spender_tx_id = w.spender, fence = w.fence, created_at = m.now,
            expires_at = m.now + w.lease * interval '1 millisecond'
        FROM got g JOIN whole w ON w.place = g.place CROSS JOIN moment m
        WHERE l.token_id = g.token_id AND l.token_id = ANY($10))
    SELECT w.place, x.fence, m.now, b.state, b.live, b.body = w.body,
        CASE WHEN x.fence IS NOT NULL AND n.spender_tx_id IS NULL THEN token_race() END
    FROM wanted w CROSS JOIN moment m LEFT JOIN whole x ON x.place = w.place
    LEFT JOIN named n ON n.spender_tx_id = w.spender LEFT JOIN before b ON b.place = w.place";

/// The wallet of all these tokens; `None` if they are of several.
fn wallet_of(tokens: &[Token]) -> Option<&str> {
    let first = &*tokens.first()?.kind.wallet;
    tokens.iter().all(|token| *token.kind.wallet == *first).then_some(first)
}

impl Store {
    /// Locks tokens for spenders, each claim all or nothing. One verdict per claim, in their order.
    ///
    /// # Errors
    /// If the database fails, or others were in the way too often. Nothing is locked then.
    pub fn claim_tokens(
        &mut self,
        claims: &[WantedClaim],
        now: Option<Millis>,
    ) -> Result<Vec<ClaimVerdict>, Error> {
        self.retrying(|store| store.try_claims(claims, now))
    }

    fn try_claims(
        &mut self,
        claims: &[WantedClaim],
        now: Option<Millis>,
    ) -> Result<Vec<ClaimVerdict>, Error> {
        // Two claims of one batch on the same token or by the same spender: the first has it.
        let mut spenders = HashSet::new();
        let mut chosen = HashSet::new();
        let mut wanted: Vec<(i32, &WantedClaim)> = Vec::with_capacity(claims.len());
        for (place, claim) in (0..).zip(claims) {
            let alone = claim.tokens.iter().all(|token| !chosen.contains(&token.id));
            if alone && spenders.insert(&claim.spender) {
                chosen.extend(claim.tokens.iter().map(|token| &token.id));
                wanted.push((place, claim));
            }
        }
        let mut pieces: Vec<(&str, i32)> = Vec::new();
        // Where the tokens of each claim begin among all, counted from 1.
        let mut firsts: Vec<i32> = Vec::with_capacity(wanted.len());
        for (place, claim) in &wanted {
            firsts.push(i32::try_from(pieces.len() + 1).expect("inputs are bounded"));
            pieces.extend(claim.tokens.iter().map(|token| (token.id.as_str(), *place)));
        }
        let count = |claim: &WantedClaim| i32::try_from(claim.tokens.len()).expect("inputs are bounded");
        let rows = self.query(
            CLAIM,
            &[
                &moment(now),
                &list(&wanted, |(place, _)| *place),
                &list(&wanted, |(_, claim)| &*claim.spender),
                &list(&wanted, |(_, claim)| Uuid(claim.body.0)),
                &list(&wanted, |(_, claim)| decimal(claim.amount)),
                &list(&wanted, |(_, claim)| claim.lease_ms),
                &list(&wanted, |(_, claim)| count(claim)),
                &list(&wanted, |(_, claim)| wallet_of(&claim.tokens)),
                &list(&pieces, |(_, place)| *place),
                &list(&pieces, |(id, _)| *id),
                &firsts,
            ],
        )?;
        let mut verdicts = vec![ClaimVerdict::Taken; claims.len()];
        for row in rows {
            let place = usize::try_from(row.get::<_, i32>(0)).expect("counted from 0");
            let Moment(since) = row.get(2);
            verdicts[place] = match (row.get::<_, Option<i64>>(1), row.get::<_, Option<&str>>(3)) {
                (Some(fence), _) => ClaimVerdict::Locked {
                    fence: unsigned("token_fence", fence)?,
                    since,
                    expires_at: since.saturating_add(claims[place].lease_ms),
                },
                (None, Some("SPENT")) => ClaimVerdict::Spent,
                (None, Some(_)) if row.get(4) => ClaimVerdict::Holds { same: row.get(5) },
                (None, _) => ClaimVerdict::Taken,
            };
        }
        Ok(verdicts)
    }
}

/// A fence as the database counts it. What is beyond its numbers is the fence of no selection.
pub(super) fn fence_of(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}
