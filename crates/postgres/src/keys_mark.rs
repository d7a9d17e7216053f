//! The mark in the database that says that callers of its nodes need keys.

use std::time::Duration;

use crate::connect::connect;
use crate::{Error, Store};

/// Under this name the mark stands.
const KEYS_REQUIRED: &str = "keys.required";

/// Whether callers need keys. Looks only: a start that is refused for want of keys must not have brought the schema up to date.
///
/// # Errors
/// If the database fails.
pub fn keys_are_required(url: &str, patience: Duration) -> Result<bool, Error> {
    let mut client = connect(url, "holdfast keys", patience)?;
    let is_there: bool = client.query_one("SELECT to_regclass('fixed_setting') IS NOT NULL", &[])?.get(0);
    let sql = "SELECT 1 FROM fixed_setting WHERE name = $1";
    Ok(is_there && client.query_opt(sql, &[&KEYS_REQUIRED])?.is_some())
}

impl Store {
    /// Has callers need keys from now on, at every node that is started.
    pub fn require_keys(&mut self) -> Result<(), Error> {
        let sql = "INSERT INTO fixed_setting (name, value) VALUES ($1, 1) ON CONFLICT DO NOTHING";
        self.client.execute(sql, &[&KEYS_REQUIRED])?;
        Ok(())
    }

    /// Callers need no keys any more.
    pub fn waive_keys(&mut self) -> Result<(), Error> {
        self.client.execute("DELETE FROM fixed_setting WHERE name = $1", &[&KEYS_REQUIRED])?;
        Ok(())
    }
}
