//! What edges ask: read without a lock, each question from one snapshot, so that what it shows belongs together. Nothing
//! here changes anything or holds up a handler.
//!
//! | room | what is read there |
//! | --- | --- |
//! | `registry` | participants, accounts with positions and limits, endpoints |
//! | `transfers` | one transfer, its story, a page of them; open holds, the next to run out first |
//! | `stats` | counts |

mod registry;
mod stats;
mod transfers;

pub use registry::Registered;
pub use transfers::ROWS_LOOKED_AT_MAX;

use postgres::{IsolationLevel, Row, Transaction};

use crate::Error;
use crate::session::{Statements, Store};
use crate::written::Parameters;

/// One snapshot, until it is dropped: there is nothing to commit.
pub(crate) struct Snapshot<'a> {
    pub(crate) tx: Transaction<'a>,
    statements: &'a Statements,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(store: &'a mut Store) -> Result<Snapshot<'a>, Error> {
        let Store { client, statements, .. } = store;
        let tx = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok(Snapshot { tx: tx.start()?, statements })
    }

    fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.statements.query(&mut self.tx, sql, parameters)
    }
}
