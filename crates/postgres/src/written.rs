//! Rows of tokens and of the shop as a step writes them, and what its audit record says of them. Most of them are overwritten
//! later, so they are hashed as they are sent; those that a side of a checkout appends are hashed as they lie in their table,
//! and are computed again by `verify`.

use bytes::BytesMut;
use holdfast_messages::{Message as _, TokenEvent};
use postgres::types::{IsNull, ToSql};
use postgres::{Statement, Transaction};

use crate::Error;
use crate::session::Statements;

/// The parameters of a statement.
pub(crate) type Parameters<'p> = &'p [&'p (dyn ToSql + Sync)];

/// What was written in a step besides transfers and positions.
#[derive(Default)]
pub(crate) struct Written {
    rows: Option<blake3::Hasher>,
    /// The hashes of what a side of a checkout has appended.
    pub(crate) appended: Vec<[u8; 32]>,
}

impl Written {
    /// The hash of what may be overwritten; none if there is none.
    pub(crate) fn rows_hash(&self) -> Option<[u8; 32]> {
        self.rows.as_ref().map(|rows| *rows.finalize().as_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let rows = self.rows.get_or_insert_default();
        rows.update(&(bytes.len() as u64).to_le_bytes());
        rows.update(bytes);
    }

    /// What happened to tokens.
    pub(crate) fn token_event(&mut self, event: &TokenEvent) {
        self.bytes(&event.to_json());
    }

    /// A statement with its parameters, as the server gets them.
    pub(crate) fn statement(&mut self, sql: &str, statement: &Statement, parameters: Parameters<'_>) {
        self.bytes(sql.as_bytes());
        let mut value = BytesMut::new();
        for (parameter, kind) in parameters.iter().zip(statement.params()) {
            value.clear();
            // What cannot be sent is refused when it is sent.
            match parameter.to_sql_checked(kind, &mut value) {
                Ok(IsNull::No) => self.bytes(&value),
                Ok(IsNull::Yes) | Err(_) => self.bytes(b"\0null"),
            }
        }
    }
}

/// Writes rows within a transaction.
pub(crate) struct RowWriter<'a, 'c> {
    pub(crate) tx: &'a mut Transaction<'c>,
    pub(crate) statements: &'a Statements,
    pub(crate) written: &'a mut Written,
}

impl RowWriter<'_, '_> {
    /// Runs a statement, and tells how many rows it has written.
    pub(crate) fn execute(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<u64, Error> {
        let statement = self.statements.prepared(self.tx, sql)?;
        self.written.statement(sql, &statement, parameters);
        Ok(self.tx.execute(&statement, parameters)?)
    }

    /// Runs a statement that must write so many rows.
    pub(crate) fn rows(
        &mut self,
        sql: &'static str,
        rows: usize,
        parameters: Parameters<'_>,
    ) -> Result<(), Error> {
        if rows > 0 {
            assert_eq!(self.execute(sql, parameters)?, rows as u64, "locked rows do not vanish");
        }
        Ok(())
    }

    /// Adds rows that are never overwritten: they are hashed as they lie in their table.
    pub(crate) fn append(
        &mut self,
        sql: &'static str,
        rows: usize,
        parameters: Parameters<'_>,
    ) -> Result<(), Error> {
        if rows > 0 {
            self.statements.execute(self.tx, sql, parameters)?;
        }
        Ok(())
    }
}
