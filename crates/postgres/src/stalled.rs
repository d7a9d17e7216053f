//! Transfers that stand half-way: the message that would move them on was lost, buried or never sent. Nothing ends them by
//! itself, so somebody must look.
//!
//! An index over states would cost every payment several writes. Instead a patrol reads the history once, a while after it
//! was written: whoever entered a half-way state then and is still in it stands still. Any node may go; one at a time
//! does, and the others read what it found.

use std::time::Duration;

use holdfast_domain::ids::{Millis, TransferId};
use holdfast_domain::transfers::TransferState;

use crate::Error;
use crate::guard::unsigned;
use crate::session::Store;
use crate::types::{Moment, Uuid};

/// The most transfers that are kept in mind; with more the patrol stops where it is.
pub const STALLED_MAX: usize = 1_000;
/// How much of the history one look covers.
const LOOK_SPAN: Millis = 60_000;
/// Changes of so long after that time are read with it.
const SOON_AFTER: Millis = 1_000;
/// The most looks of one patrol: nodes that were away for long catch up in several.
const LOOKS_MAX: usize = 100;
/// How many transfers are named.
const EXAMPLES: i64 = 5;

/// The states between two hops: RECEIVED_PREPARE, RECEIVED_FULFIL, RECEIVED_ERROR, RESERVED_TIMEOUT.
pub const HALF_WAY: [TransferState; 4] = [
    TransferState::ReceivedPrepare,
    TransferState::ReceivedFulfil,
    TransferState::ReceivedError,
    TransferState::ReservedTimeout,
];

/// What stands half-way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stalled {
    /// How many in each of [`HALF_WAY`], in that order; together at most [`STALLED_MAX`].
    pub counts: [u64; 4],
    /// The oldest of them: which, and since when.
    pub examples: Vec<(TransferId, TransferState, Millis)>,
}

impl Stalled {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Until when the next look goes that begins at `from` and may see all before `end`; and whether it needs others after it.
/// Nothing if it is too early for one.
fn next_look(from: Millis, end: Millis) -> Option<(Millis, bool)> {
    let until = end.min(from.saturating_add(LOOK_SPAN));
    (until > from).then_some((until, until < end))
}

impl Store {
    /// Goes on patrol, unless somebody else is, and tells which transfers have stood half-way for at least `after`.
    pub fn stalled(&mut self, after: Duration) -> Result<Stalled, Error> {
        self.go_on_patrol(Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX))?;
        let states = HALF_WAY.map(|state| i16::from(state.number()));
        let mut stalled = Stalled::default();
        // One that has moved on since the last patrol is no longer told.
        let rows = self.client.query(
            "SELECT s.transfer_state_id, count(*) FROM stalled_transfer s
             CROSS JOIN LATERAL (SELECT * FROM transfer WHERE transfer_no = s.transfer_no OFFSET 0) t
             WHERE t.current_state = s.transfer_state_id GROUP BY 1",
            &[],
        )?;
        for row in rows {
            let at = states.iter().position(|state| *state == row.get::<_, i16>(0));
            let at = at.ok_or_else(|| Error::corrupt("stalled_transfer", "a state that is not half-way"))?;
            stalled.counts[at] = unsigned("stalled_transfer", row.get(1))?;
        }
        if stalled.total() == 0 {
            return Ok(stalled);
        }
        let rows = self.client.query(
            "SELECT t.transfer_id, t.current_state, s.since_date FROM stalled_transfer s
             CROSS JOIN LATERAL (SELECT * FROM transfer WHERE transfer_no = s.transfer_no OFFSET 0) t
             WHERE t.current_state = s.transfer_state_id
             ORDER BY s.since_date, s.transfer_no LIMIT $1",
            &[&EXAMPLES],
        )?;
        for row in rows {
            let (id, state, since): (Uuid, i16, Moment) = (row.get(0), row.get(1), row.get(2));
            let state = u8::try_from(state).ok().and_then(TransferState::from_number);
            let state = state.ok_or_else(|| Error::corrupt("transfer", "a state"))?;
            stalled.examples.push((TransferId(id.0), state, since.0));
        }
        Ok(stalled)
    }

    fn go_on_patrol(&mut self, after: Millis) -> Result<(), Error> {
        for _ in 0..LOOKS_MAX {
            if !self.look(after)? {
                break;
            }
        }
        Ok(())
    }

    /// Looks at the next part of the history; whether there is more.
    fn look(&mut self, after: Millis) -> Result<bool, Error> {
        let mut tx = self.client.transaction()?;
        let Some(row) =
            tx.query_opt("SELECT looked_until, hub_clock() FROM patrol FOR UPDATE SKIP LOCKED", &[])?
        else {
            return Ok(false);
        };
        let (from, now): (Moment, Moment) = (row.get(0), row.get(1));
        let Some((until, is_behind)) = next_look(from.0, now.0.saturating_sub(after)) else {
            return Ok(false);
        };
        tx.execute(
            "DELETE FROM stalled_transfer s WHERE s.transfer_state_id <>
                 (SELECT t.current_state FROM transfer t WHERE t.transfer_no = s.transfer_no)",
            &[],
        )?;
        let known: i64 = tx.query_one("SELECT count(*) FROM stalled_transfer", &[])?.get(0);
        let room = i64::try_from(STALLED_MAX).expect("a small number").saturating_sub(known);
        // Nearly all that enter such a state leave it within the same moment. So the history alone is read first, once and in its
        // own order: whose last change of that time, or soon after it, is half-way? Only those few are looked at.
        let found = tx.execute(
            "INSERT INTO stalled_transfer (transfer_no, transfer_state_id, since_date)
             SELECT l.transfer_no, t.current_state, l.since FROM (
                 SELECT c.transfer_no, max(c.transfer_state_change_id * 16 + c.transfer_state_id) % 16 AS state,
                     max(c.created_date) AS since
                 FROM transfer_state_change c WHERE c.created_date >= $1 AND c.created_date < $3 GROUP BY c.transfer_no
                 HAVING max(c.transfer_state_change_id * 16 + c.transfer_state_id) % 16 IN (1, 4, 6, 9)
                     AND max(c.created_date) < $2
             ) l
             CROSS JOIN LATERAL (SELECT * FROM transfer WHERE transfer_no = l.transfer_no OFFSET 0) t
             WHERE t.current_state = l.state AND NOT EXISTS (SELECT 1 FROM stalled_transfer s WHERE s.transfer_no = l.transfer_no)
             LIMIT $4 ON CONFLICT DO NOTHING",
            &[&from, &Moment(until), &Moment(until.saturating_add(SOON_AFTER)), &room],
        )?;
        // With all places taken there may be more in this part: it is looked at again when some are free.
        let is_full = i64::try_from(found).unwrap_or(i64::MAX) >= room;
        if !is_full {
            tx.execute("UPDATE patrol SET looked_until = $1", &[&Moment(until)])?;
        }
        tx.commit()?;
        Ok(is_behind && !is_full)
    }

    /// The numbers of all position accounts, for those who count them by partition; at most `max`.
    pub fn position_accounts(&mut self, max: u32) -> Result<Vec<u32>, Error> {
        let rows = self.client.query(
            "SELECT participant_currency_id FROM participant_currency WHERE ledger_account_type = 'POSITION'
             ORDER BY participant_currency_id LIMIT $1",
            &[&i64::from(max)],
        )?;
        rows.iter().map(|row| crate::load::number("participant_currency", row.get(0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time goes on while it looks: whoever looks again at once finds a little more, and would never come to an end.
    #[test]
    fn a_patrol_that_has_caught_up_looks_once() {
        assert_eq!(next_look(0, 2_000), Some((2_000, false)));
        assert_eq!(next_look(2_000, 2_000), None);
        assert_eq!(next_look(0, LOOK_SPAN), Some((LOOK_SPAN, false)));
        assert_eq!(
            next_look(0, LOOK_SPAN + 1),
            Some((LOOK_SPAN, true)),
            "after nodes were away it catches up"
        );
    }
}
