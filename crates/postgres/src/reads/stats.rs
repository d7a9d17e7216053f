//! Counts. What would have to be counted row by row over the whole history is estimated or left out where there is much
//! of it: nobody waits minutes for a view.

use holdfast_domain::transfers::TransferState;
use holdfast_domain::views::Stats;

use super::Snapshot;
use crate::guard::unsigned;
use crate::load::state_of;
use crate::types::Moment;
use crate::{Error, Store};

/// The history is counted exactly while its table is no larger than this.
const COUNTED_BYTES_MAX: i64 = 64 << 20;

impl Store {
    /// What was done, and what is held now. Beyond some size of the history it is not counted how many transfers came to
    /// each state, and how many there are is the server's estimate.
    pub fn stats(&mut self) -> Result<Stats, Error> {
        self.stats_within(COUNTED_BYTES_MAX)
    }

    /// The same with another bound, for tests.
    #[doc(hidden)]
    pub fn stats_within(&mut self, counted_bytes_max: i64) -> Result<Stats, Error> {
        let shards = i32::from(self.settings.expiry_shards);
        let mut snapshot = Snapshot::of(self)?;
        // Reading a whole table in its own order is right here, and only here.
        snapshot.tx.batch_execute("SET LOCAL enable_seqscan = on")?;
        let counts = snapshot.query(
            "SELECT (SELECT count(*) FROM transfer_timeout), (SELECT count(*) FROM participant),
                 (SELECT count(*) FROM participant_currency), (SELECT count(*) FROM dead_letter),
                 (SELECT min(first.at) FROM generate_series(0, $1::int - 1) AS s (shard)
                  CROSS JOIN LATERAL (SELECT min(o.expiration_date) AS at FROM transfer_timeout o
                      WHERE o.shard = s.shard) first),
                 pg_relation_size('transfer_state_change'),
                 (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'transfer'::regclass)",
            &[&shards],
        )?;
        let counts = counts.first().ok_or_else(|| Error::corrupt("pg_class", "no counts"))?;
        let count = |at: usize| unsigned("a table", counts.get(at));
        let next: Option<Moment> = counts.get(4);
        let few = counts.get::<_, i64>(5) <= counted_bytes_max;
        let reached = if few { Some(reached(&mut snapshot)?) } else { None };
        // Every transfer begins in one of two states, and enters each once.
        let begun = |reached: &Vec<(TransferState, u64)>| {
            let of =
                |wanted| reached.iter().find(|(state, _)| *state == wanted).map_or(0, |(_, count)| *count);
            of(TransferState::ReceivedPrepare) + of(TransferState::Invalid)
        };
        let stats = Stats {
            transfers: reached.as_ref().map_or_else(|| count(6), |reached| Ok(begun(reached)))?,
            open_holds: count(0)?,
            next_expiration: next.map(|next| next.0),
            reached,
            participants: count(1)?,
            accounts: count(2)?,
            dead_letters: count(3)?,
            limit_alarms: None,
        };
        Ok(stats)
    }
}

/// How many transfers ever came to each state.
fn reached(snapshot: &mut Snapshot<'_>) -> Result<Vec<(TransferState, u64)>, Error> {
    let rows = snapshot.query(
        "SELECT transfer_state_id, count(*) FROM transfer_state_change GROUP BY transfer_state_id",
        &[],
    )?;
    let mut counts = [0_u64; TransferState::ALL.len()];
    for row in &rows {
        let state = state_of("transfer_state_change", row.get(0))?;
        let place = TransferState::ALL.iter().position(|known| *known == state);
        counts[place.expect("all states are among them")] = unsigned("transfer_state_change", row.get(1))?;
    }
    Ok(TransferState::ALL.into_iter().zip(counts).collect())
}
