//! Migrations: numbered SQL files inside the program, each applied once, by whichever node comes first.

use postgres::{Client, GenericClient};

use crate::Error;
use crate::error::waited_in_vain;

/// The migrations in their order; the first has the version 1.
const MIGRATIONS: [&str; 13] = [
    include_str!("../migrations/0001_tables.sql"),
    include_str!("../migrations/0002_patrol.sql"),
    include_str!("../migrations/0003_operator_messages.sql"),
    include_str!("../migrations/0004_outbox_of_batches.sql"),
    include_str!("../migrations/0005_tokens.sql"),
    include_str!("../migrations/0006_shop.sql"),
    include_str!("../migrations/0007_token_changes_as_text.sql"),
    include_str!("../migrations/0008_charges.sql"),
    include_str!("../migrations/0009_shop_outside.sql"),
    include_str!("../migrations/0010_tokens_gone_outside.sql"),
    include_str!("../migrations/0011_pay_again.sql"),
    include_str!("../migrations/0012_little_statistics.sql"),
    include_str!("../migrations/0013_chain_over_shop_rows.sql"),
];

/// The advisory lock under which a node migrates: "holdfast" in letters.
const LOCK: i64 = 0x686f_6c64_6661_7374;

/// A change of a table waits so long for those who use it: behind a change that waits, all others wait too.
const TABLE_WAIT: &str = "2s";
/// Between two attempts. Nodes at work go on meanwhile.
const PAUSE: &str = "SELECT pg_sleep(1)";
/// Attempts before a start gives up: about five minutes.
const ATTEMPTS: u32 = 100;

/// Brings the schema up to date. Several nodes may do this at once; all but one wait and find nothing left to do. While a long
/// reader, such as `verify` or a dump, is in the way of a change, nodes of the former version go on working.
///
/// # Errors
/// If the database refuses, or its schema is newer than this program.
pub(crate) fn migrate(client: &mut Client) -> Result<(), Error> {
    for _ in 1..ATTEMPTS {
        match attempt(client) {
            Err(Error::Busy { cause, .. }) if waited_in_vain(&cause) => {
                tracing::warn!(
                    "a table of the schema is in use, and its change waits: is a dump or verify at work?"
                );
                client.batch_execute(PAUSE)?;
            }
            result => return result,
        }
    }
    attempt(client)
}

/// One attempt, in one transaction.
fn attempt(client: &mut Client) -> Result<(), Error> {
    let mut tx = client.transaction()?;
    // An index over a large table takes its time, and so do those who wait for it.
    tx.batch_execute("SET LOCAL statement_timeout = 0")?;
    // The lock belongs to the transaction, so a node that dies in the middle leaves neither lock nor half a schema.
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
    tx.batch_execute(&format!("SET LOCAL lock_timeout = '{TABLE_WAIT}'"))?;
    let found = match version(&mut tx)? {
        Some(found) => found,
        None => {
            tx.batch_execute(
                "CREATE TABLE schema_version (
                     version int PRIMARY KEY,
                     applied_date timestamptz NOT NULL DEFAULT clock_timestamp()
                 )",
            )?;
            0
        }
    };
    let known = known();
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    for (version, sql) in (1..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        tracing::info!(version, "applying migration");
        tx.batch_execute(sql)?;
        tx.execute("INSERT INTO schema_version (version) VALUES ($1)", &[&version])?;
    }
    tx.commit()?;
    Ok(())
}

/// Looks whether the schema is the one that this program knows, and changes nothing.
///
/// # Errors
/// If there is none, or one of another version.
pub(crate) fn is_current(client: &mut Client) -> Result<(), Error> {
    let known = known();
    match version(client)? {
        None | Some(0) => Err(Error::NoSchema),
        Some(found) if found < known => Err(Error::TooOld { found, known }),
        Some(found) if found > known => Err(Error::TooNew { found, known }),
        Some(_) => Ok(()),
    }
}

/// The version of the schema; `None` if there is none.
fn version(client: &mut impl GenericClient) -> Result<Option<i32>, Error> {
    // Looked up and not made if it is missing: the server remarks on each table that is there already.
    let is_there: bool = client.query_one("SELECT to_regclass('schema_version') IS NOT NULL", &[])?.get(0);
    if !is_there {
        return Ok(None);
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[])?;
    Ok(Some(row.get(0)))
}

fn known() -> i32 {
    i32::try_from(MIGRATIONS.len()).expect("few migrations")
}
