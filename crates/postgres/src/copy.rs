//! Rows in PostgreSQL's binary COPY form: the fastest way in, and no array per column.

use std::io::Write;

use postgres::Transaction;

use crate::Error;
use crate::session::Statements;
use crate::types::{Decimal, Moment, Uuid};

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Rows on their way to one table.
pub(crate) struct CopyRows {
    bytes: Vec<u8>,
    columns: i16,
    rows: usize,
}

impl CopyRows {
    pub(crate) fn new(columns: i16) -> CopyRows {
        CopyRows { bytes: HEADER.to_vec(), columns, rows: 0 }
    }

    /// Begins a row; as many fields as there are columns must follow.
    pub(crate) fn row(&mut self) -> &mut CopyRows {
        self.rows += 1;
        self.bytes.extend(self.columns.to_be_bytes());
        self
    }

    fn field(&mut self, bytes: &[u8]) -> &mut CopyRows {
        // A field of more than 2 GiB is more than any message may have.
        let len = i32::try_from(bytes.len()).expect("a field is bounded by its message");
        self.bytes.extend(len.to_be_bytes());
        self.bytes.extend(bytes);
        self
    }

    pub(crate) fn null(&mut self) -> &mut CopyRows {
        self.bytes.extend((-1_i32).to_be_bytes());
        self
    }

    pub(crate) fn small(&mut self, value: i16) -> &mut CopyRows {
        self.field(&value.to_be_bytes())
    }

    pub(crate) fn int(&mut self, value: i32) -> &mut CopyRows {
        self.field(&value.to_be_bytes())
    }

    pub(crate) fn big(&mut self, value: i64) -> &mut CopyRows {
        self.field(&value.to_be_bytes())
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut CopyRows {
        self.field(value)
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut CopyRows {
        self.field(value.as_bytes())
    }

    pub(crate) fn uuid(&mut self, value: Uuid) -> &mut CopyRows {
        self.field(&value.0.to_be_bytes())
    }

    pub(crate) fn moment(&mut self, value: Moment) -> &mut CopyRows {
        self.field(&value.micros().to_be_bytes())
    }

    pub(crate) fn decimal(&mut self, value: Decimal) -> &mut CopyRows {
        let len = i32::try_from(value.encoded_len()).expect("a decimal is short");
        self.bytes.extend(len.to_be_bytes());
        value.encode(&mut self.bytes);
        self
    }

    /// A field that may be null.
    pub(crate) fn optional<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut CopyRows, T) -> &mut CopyRows,
    ) -> &mut CopyRows {
        match value {
            Some(value) => put(self, value),
            None => self.null(),
        }
    }

    /// Sends them to where the statement says, if there are any.
    pub(crate) fn send(
        mut self,
        tx: &mut Transaction<'_>,
        statements: &Statements,
        copy: &'static str,
    ) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        self.bytes.extend((-1_i16).to_be_bytes());
        let copy = statements.prepared(tx, copy)?;
        let mut writer = tx.copy_in(&copy)?;
        // An error of the server shows itself in `finish`; what breaks here is the connection, and `finish` says so too.
        let _ = writer.write_all(&self.bytes);
        let written = writer.finish()?;
        assert_eq!(written, self.rows as u64, "COPY took another number of rows");
        Ok(())
    }
}
