//! What the hub shows of itself, and takes for itself.

use std::fmt;

use holdfast_domain::transfers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::Text;
use crate::text::{Rule, shortened};

/// Where a transfer stands, by the hub's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferState(pub transfers::TransferState);

impl fmt::Display for TransferState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Rule for TransferState {
    fn read(text: &str) -> Result<TransferState, String> {
        let found = transfers::TransferState::from_name(text).map(TransferState);
        found.ok_or_else(|| format!("'{}' is not a state such as RESERVED", shortened(text)))
    }

    fn schema() -> Value {
        json!({"type": "string", "enum": transfers::TransferState::ALL.map(transfers::TransferState::name)})
    }
}

written_as_text!(TransferState);

/// `POST /hub/backup`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BackupWanted {
    /// An absolute path on the hub's machine; empty, or not there yet
    pub dir: Text,
}
