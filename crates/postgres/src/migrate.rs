//! Migrations: numbered SQL files inside the program, each applied once, by whichever node comes first.

use postgres::Client;

use crate::Error;

/// The migrations in their order; the first has the version 1.
const MIGRATIONS: [&str; 4] = [
    include_str!("../migrations/0001_tables.sql"),
    include_str!("../migrations/0002_patrol.sql"),
    include_str!("../migrations/0003_operator_messages.sql"),
    include_str!("../migrations/0004_outbox_of_batches.sql"),
];

/// The advisory lock under which a node migrates: "holdfast" in letters.
const LOCK: i64 = 0x686f_6c64_6661_7374;

/// Brings the schema up to date. Several nodes may do this at once; all but one wait and find nothing left to do.
///
/// # Errors
/// If the database refuses, or its schema is newer than this program.
pub fn migrate(client: &mut Client) -> Result<i32, Error> {
    let mut tx = client.transaction()?;
    // An index over a large table takes its time, and so do those who wait for it.
    tx.batch_execute("SET LOCAL statement_timeout = 0")?;
    // The lock belongs to the transaction, so a node that dies in the middle leaves neither lock nor half a schema.
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
    tx.batch_execute(
        "CREATE TABLE IF NOT EXISTS schema_version (
             version int PRIMARY KEY,
             applied_date timestamptz NOT NULL DEFAULT clock_timestamp()
         )",
    )?;
    let found: i32 = tx.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[])?.get(0);
    let known = i32::try_from(MIGRATIONS.len()).expect("few migrations");
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        tracing::info!(version, "applying migration");
        tx.batch_execute(sql)?;
        tx.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&version])?;
    }
    tx.commit()?;
    Ok(known)
}
