//! Nodes that hang in the middle of a transaction.
//!
//! The server ends a transaction in which nothing happens, but not one whose client owes it the rest of a COPY or of a
//! request: there it waits without end, and its own timeouts wait with it. The locks of such a session would keep everybody
//! from what the node held. Whoever has the right to it now ends the session. One that has idled for longer than any node may
//! is ended too, whatever it told its server.

use std::time::Duration;

use postgres::Client;

use crate::Error;

/// What the sessions of nodes are called. Tools are called otherwise: they may well copy for minutes.
pub(crate) const NODE: &str = "holdfast";
/// What the sessions of tools are called.
pub(crate) const TOOL: &str = "holdfast tool";

/// A node that folds a log says nothing to its server meanwhile. It may be silent for so many times as long as others may: with
/// the usual 3 s for a minute, in which a log of tens of millions of records is folded.
const FOLDING_TIMES: u32 = 20;

/// How long a transaction may idle in which a log is folded, where others may for that long.
pub(crate) const fn folding_max(patience: Duration) -> Duration {
    patience.saturating_mul(FOLDING_TIMES)
}

/// Ends the sessions of nodes that have owed their server the rest of a statement for longer than `patience`, or have idled in a
/// transaction for longer than [`folding_max`]. What they did is rolled back; if they live on, they connect again and find
/// themselves fenced.
pub(crate) fn end_hung(client: &mut Client, patience: Duration) -> Result<(), Error> {
    // Materialized: among the conditions, the call could come first and meet everybody.
    let ended = client.query(
        "WITH hung AS MATERIALIZED (
             SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND usename = current_user AND application_name = $1
                 AND (state = 'active' AND wait_event_type = 'Client' AND xact_start IS NOT NULL
                         AND query_start < clock_timestamp() - $2::double precision * interval '1 second'
                     OR state LIKE 'idle in transaction%'
                         AND state_change < clock_timestamp() - $3::double precision * interval '1 second')
         )
         SELECT pid, pg_terminate_backend(pid) FROM hung",
        &[&NODE, &patience.as_secs_f64(), &folding_max(patience).as_secs_f64()],
    )?;
    for row in ended {
        let pid: i32 = row.get(0);
        tracing::warn!(pid, "ended the session of a node that hangs in the middle of a transaction");
    }
    Ok(())
}
