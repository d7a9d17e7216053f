//! The mark in the database that says that callers of its nodes need keys.

use crate::{Error, Store};

/// Under this name the mark stands.
const KEYS_REQUIRED: &str = "keys.required";

impl Store {
    /// Whether callers need keys.
    ///
    /// # Errors
    /// If the database fails.
    pub fn keys_are_required(&mut self) -> Result<bool, Error> {
        let sql = "SELECT 1 FROM fixed_setting WHERE name = $1";
        Ok(self.client.query_opt(sql, &[&KEYS_REQUIRED])?.is_some())
    }

    /// Has callers need keys from now on, at every node that is started.
    ///
    /// # Errors
    /// If the database fails.
    pub fn require_keys(&mut self) -> Result<(), Error> {
        let sql = "INSERT INTO fixed_setting (name, value) VALUES ($1, 1) ON CONFLICT DO NOTHING";
        self.client.execute(sql, &[&KEYS_REQUIRED])?;
        Ok(())
    }

    /// Callers need no keys any more.
    ///
    /// # Errors
    /// If the database fails.
    pub fn waive_keys(&mut self) -> Result<(), Error> {
        self.client.execute("DELETE FROM fixed_setting WHERE name = $1", &[&KEYS_REQUIRED])?;
        Ok(())
    }
}
