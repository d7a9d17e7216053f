//! The process that Holdfast's expiry replaces: the ten steps of the timeout document, with its four tables in a schema of
//! their own. It keeps the document's faults, so that they can be shown and its cost be measured; nothing else uses it.
//!
//! What had to change for PostgreSQL: a join in a DELETE is written with USING, `datetime` is `timestamp(0)`, and a variable
//! that was never set is a NULL parameter.

use postgres::{Client, Error, Transaction};

/// The tables.
pub const TABLES: &str = include_str!("seed.sql");

/// The obvious query: the last state change of every transfer, joined to the transfers that ran out.
pub const NAIVE: &str = "
    SELECT count(*) FROM (
        SELECT t.transferId, t.expirationDate, last.transferStateId
        FROM seed.transfer t
        JOIN (SELECT transferId, max(transferStateChangeId) AS id
              FROM seed.transferStateChange GROUP BY transferId) newest ON newest.transferId = t.transferId
        JOIN seed.transferStateChange last ON last.transferStateChangeId = newest.id
        WHERE last.transferStateId IN ('RECEIVED_PREPARE', 'RESERVED') AND t.expirationDate < localtimestamp
        LIMIT 100000
    ) AS expired";

const GET_SEGMENT: &str = "
    SELECT value FROM seed.segment
    WHERE segmentType = 'timeout' AND enumeration = 0 AND tableName = 'transferStateChange'";

const CLEAN_UP: &str = "
    DELETE FROM seed.transferTimeout tt
    USING (SELECT tsc.transferId, max(tsc.transferStateChangeId) AS id
           FROM seed.transferTimeout open
           JOIN seed.transferStateChange tsc ON tsc.transferId = open.transferId
           GROUP BY tsc.transferId) newest,
        seed.transferStateChange last
    WHERE newest.transferId = tt.transferId AND last.transferStateChangeId = newest.id
        AND last.transferStateId IN ('RECEIVED_FULFIL', 'COMMITTED', 'FAILED', 'EXPIRED', 'EXPIRED_PREPARED',
            'EXPIRED_RESERVED', 'REJECTED', 'ABORTED')";

const INSERT_NEW: &str = "
    INSERT INTO seed.transferTimeout (transferId, expirationDate)
    SELECT t.transferId, t.expirationDate
    FROM seed.transfer t
    JOIN (SELECT transferId, max(transferStateChangeId) AS id
          FROM seed.transferStateChange
          WHERE transferStateChangeId > $1 AND transferStateChangeId <= $2
          GROUP BY transferId) newest ON newest.transferId = t.transferId
    JOIN seed.transferStateChange last ON last.transferStateChangeId = newest.id
    WHERE last.transferStateId IN ('RECEIVED_PREPARE', 'RESERVED')";

const LIST: &str = "
    SELECT transferId FROM seed.transferTimeout WHERE expirationDate < localtimestamp ORDER BY transferId";

const INSERT_SEGMENT: &str = "
    INSERT INTO seed.segment (segmentType, enumeration, tableName, value)
    VALUES ('timeout', 0, 'transferStateChange', $1)";

const UPDATE_SEGMENT: &str = "
    UPDATE seed.segment SET value = $1
    WHERE segmentType = 'timeout' AND enumeration = 0 AND tableName = 'transferStateChange'";

/// How the process is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// State changes that one run looks at, at most; the document proposes 100,000 to try it out.
    pub window: Option<i64>,
    /// With the variable of steps 1 and 2 spelled otherwise than in steps 6 and 9, as it is printed.
    pub as_printed: bool,
    /// A transfer that is listed already is passed over in step 6. The document has no such thing, and fails.
    pub listed_may_come_again: bool,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The transfers to be expired, in the order of their ids.
    pub listed: Vec<String>,
    /// The last state change that it looked at.
    pub upto: Option<i64>,
}

impl Process {
    /// Runs the ten steps once; `after` is called after each one, and is step 8 too.
    ///
    /// # Errors
    /// Whatever the database refuses: nothing of steps 5 to 10 has happened then.
    pub fn run(&self, client: &mut Client, mut after: impl FnMut(u8)) -> Result<Found, Error> {
        // More than one row is an error here as it is for SELECT … INTO.
        let stored: Option<i64> = client.query_opt(GET_SEGMENT, &[])?.map(|row| row.get(0));
        after(1);
        let inteval_min = Some(stored.unwrap_or(0));
        after(2);
        let interval_min = if self.as_printed { None } else { inteval_min };
        client.execute(CLEAN_UP, &[])?;
        after(3);
        let newest: Option<i64> =
            client.query_one("SELECT max(transferStateChangeId) FROM seed.transferStateChange", &[])?.get(0);
        let interval_max = match (newest, self.window) {
            (Some(newest), Some(window)) => Some(newest.min(interval_min.unwrap_or(0) + window)),
            _ => newest,
        };
        after(4);
        let mut tx = client.transaction()?;
        after(5);
        self.insert_new(&mut tx, interval_min, interval_max)?;
        after(6);
        let listed = tx.query(LIST, &[])?.iter().map(|row| row.get(0)).collect();
        after(7);
        after(8);
        // NULL is not 0 either.
        let statement = if interval_min == Some(0) { INSERT_SEGMENT } else { UPDATE_SEGMENT };
        tx.execute(statement, &[&interval_max])?;
        after(9);
        tx.commit()?;
        after(10);
        Ok(Found { listed, upto: interval_max })
    }

    fn insert_new(&self, tx: &mut Transaction<'_>, from: Option<i64>, to: Option<i64>) -> Result<(), Error> {
        if self.listed_may_come_again {
            tx.execute(&format!("{INSERT_NEW} ON CONFLICT DO NOTHING"), &[&from, &to])?;
        } else {
            tx.execute(INSERT_NEW, &[&from, &to])?;
        }
        Ok(())
    }
}
