//! Nodes that hang in the middle of a COPY.
//!
//! The server ends a transaction in which nothing happens, but not one whose client owes it the rest of a COPY or of a
//! request: there it waits without end, and its own timeouts wait with it. The locks of such a session would keep everybody
//! from what the node held. Whoever has the right to it now ends the session.

use std::time::Duration;

use postgres::Client;

use crate::Error;

/// What the sessions of nodes are called. Tools are called otherwise: they may well copy for minutes.
pub(crate) const NODE: &str = "holdfast";
/// What the sessions of tools are called.
pub(crate) const TOOL: &str = "holdfast tool";

/// Ends the sessions of nodes that have owed their server the rest of a statement for longer than `patience`. What they did
/// is rolled back; if they live on, they connect again and find themselves fenced.
pub(crate) fn end_hung(client: &mut Client, patience: Duration) -> Result<(), Error> {
    // Materialized: among the conditions, the call could come first and meet everybody.
    let ended = client.query(
        "WITH hung AS MATERIALIZED (
             SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND usename = current_user AND application_name = $1
                 AND state = 'active' AND wait_event_type = 'Client' AND xact_start IS NOT NULL
                 AND query_start < clock_timestamp() - $2::double precision * interval '1 second'
         )
         SELECT pid, pg_terminate_backend(pid) FROM hung",
        &[&NODE, &patience.as_secs_f64()],
    )?;
    for row in ended {
        let pid: i32 = row.get(0);
        tracing::warn!(pid, "ended the session of a node that hangs in the middle of a statement");
    }
    Ok(())
}
