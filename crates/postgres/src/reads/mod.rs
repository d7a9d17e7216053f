//! What edges ask: read without a lock, each question from one snapshot, so that what it shows belongs together. Nothing
//! here changes anything or holds up a handler.
//!
//! | room | what is read there |
//! | --- | --- |
//! | `registry` | participants, accounts with positions and limits, endpoints |
//! | `transfers` | one transfer, its story, a page of them |
//! | `holds` | what is open, the next to run out first |
//! | `stats` | counts |

mod holds;
mod registry;
mod stats;
mod transfers;

pub use registry::Registered;
pub use transfers::ROWS_LOOKED_AT_MAX;

use std::cell::RefCell;
use std::collections::HashMap;

use postgres::{Client, GenericClient, IsolationLevel, Row, Statement, Transaction};

use holdfast_domain::participants::Name;
use holdfast_domain::views::NamedTransfer;

use crate::Error;
use crate::load::transfer_of;
use crate::session::Store;

/// The statements of questions that were asked before. A handler never asks, so none is prepared ahead.
#[derive(Default)]
pub(crate) struct Prepared(RefCell<HashMap<&'static str, Statement>>);

impl Prepared {
    /// The statement of that text, inside or outside of a transaction.
    pub(crate) fn prepared(
        &self,
        client: &mut impl GenericClient,
        sql: &'static str,
    ) -> Result<Statement, Error> {
        if let Some(known) = self.0.borrow().get(sql) {
            return Ok(known.clone());
        }
        let statement = client.prepare(sql)?;
        self.0.borrow_mut().insert(sql, statement.clone());
        Ok(statement)
    }
}

/// One snapshot, and what is known of statements.
struct Snapshot<'a> {
    tx: Transaction<'a>,
    prepared: &'a Prepared,
}

impl<'a> Snapshot<'a> {
    fn of(store: &'a mut Store) -> Result<Snapshot<'a>, Error> {
        let Store { client, statements, .. } = store;
        Snapshot::new(client, &statements.asked)
    }

    fn new(client: &'a mut Client, prepared: &'a Prepared) -> Result<Snapshot<'a>, Error> {
        let tx = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()?;
        Ok(Snapshot { tx, prepared })
    }

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared.prepared(&mut self.tx, sql)?;
        Ok(self.tx.query(&statement, parameters)?)
    }

    /// There is nothing to commit; this lets the server know that it is over.
    fn end(self) -> Result<(), Error> {
        Ok(self.tx.rollback()?)
    }
}

/// The columns of a transfer and the names of its parties, and where they come from.
macro_rules! named_transfers {
    () => {
        concat!(
            "SELECT ",
            crate::session::transfer_columns!(),
            ", payer.name, payee.name FROM transfer t
             LEFT JOIN participant payer ON payer.participant_id = t.payer_id
             LEFT JOIN participant payee ON payee.participant_id = t.payee_id "
        )
    };
}
use named_transfers;

/// Reads a row of [`named_transfers`].
fn named_of(row: &Row) -> Result<NamedTransfer, Error> {
    let name = |at: usize| -> Result<Option<Name>, Error> {
        let text: Option<&str> = row.get(at);
        let wrong = |text: &str| Error::corrupt("participant", format!("the name '{text}'"));
        text.map(|text| Name::new(text).ok_or_else(|| wrong(text))).transpose()
    };
    Ok(NamedTransfer { row: transfer_of(row)?, payer: name(21)?, payee: name(22)? })
}
