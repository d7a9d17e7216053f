//! What the hub shows of itself, and takes for itself.

use std::fmt;

use holdfast_domain::transfers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with_macros::skip_serializing_none;

use crate::admin::{ShownCurrency, Text};
use crate::text::{Rule, shortened};
use crate::{Instant, Nullable};

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

words! {
    /// Where a transfer stands, as FSPIOP has it.
    ExternalState {
        /// The hub has it.
        Received = "RECEIVED",
        /// The payer's position holds its amount.
        Reserved = "RESERVED",
        /// It is paid.
        Committed = "COMMITTED",
        /// It has ended without payment.
        Aborted = "ABORTED",
    }
}

/// A transfer as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferRow {
    /// Its id
    #[schemars(regex(pattern = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))]
    pub transfer_id: String,
    /// The state inside the hub
    pub state: TransferState,
    /// The state that participants see
    pub transfer_state: ExternalState,
    /// Who pays
    pub payer_fsp: Nullable<String>,
    /// Who is paid
    pub payee_fsp: Nullable<String>,
    /// A decimal
    pub amount: String,
    /// Its currency
    pub currency: ShownCurrency,
    /// After this it can no longer be committed
    pub expiration: Instant,
}

/// A page of transfers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPage {
    /// Its rows
    #[schemars(length(max = 1_000))]
    pub transfers: Vec<TransferRow>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<String>,
}

/// A page of open holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HoldPage {
    /// Its rows
    #[schemars(length(max = 1_000))]
    pub holds: Vec<TransferRow>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<String>,
}

/// One transfer with its history and what it did to positions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferStory {
    /// The transfer.
    #[serde(flatten)]
    pub row: TransferRow,
    /// The states it went through
    pub history: Vec<TransferStep>,
    /// What it did to positions
    pub position_changes: Vec<PositionChange>,
    /// Why it was refused or ended without payment
    pub error_information: Option<TransferError>,
    /// Only there if retention has removed the record of its prepare from the log
    pub archived: Option<bool>,
}

/// A state that a transfer went through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferStep {
    /// The state inside the hub
    pub state: TransferState,
    /// When it came there
    pub at: Instant,
}

/// What a transfer did to a position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PositionChange {
    /// Whose position
    pub participant: Nullable<String>,
    /// By how much
    pub change: String,
    /// The position after it
    pub value: String,
}

/// Why a transfer ended without payment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferError {
    /// Four digits
    pub error_code: String,
    /// In words
    pub error_description: String,
}

/// A callback that was given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The callback's number
    pub number: u64,
    /// Who was called
    pub participant: Nullable<String>,
    /// About which transfer; null for a limit alarm
    pub transfer_id: Nullable<String>,
    /// The call, such as PUT /transfers/{id}
    pub what: String,
    /// Where it was sent last; null if it never was
    pub url: Nullable<String>,
    /// Why that failed
    pub last_error: String,
    /// Attempts made
    pub attempts: u32,
    /// When it was given up
    pub at: Instant,
    /// Whether it is being tried again
    pub retrying: bool,
}

/// A page of dead letters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterPage {
    /// Its rows
    #[schemars(length(max = 1_000))]
    pub dead_letters: Vec<DeadLetter>,
    /// For `after` of the next page; null at the end
    pub next: Nullable<String>,
}

/// What became of a retry of many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLettersRetried {
    /// How many were set in motion
    pub retried: u64,
    /// Whether some are left
    pub more: bool,
}

words! {
    /// How far a backup is.
    #[derive(Default)]
    BackupState {
        /// There was none since the start.
        #[default]
        None = "NONE",
        /// It is being made.
        Running = "RUNNING",
        /// It is made.
        Done = "DONE",
        /// It failed.
        Failed = "FAILED",
    }
}

/// How far the backup is, or how the last one ended.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// How far it is
    pub state: BackupState,
    /// Where it goes
    pub dir: Option<String>,
    /// Bytes copied
    pub done_bytes: Option<u64>,
    /// Bytes to copy; 0 as long as that is not known
    pub total_bytes: Option<u64>,
    /// The state in it is that after the records before this offset
    pub offset: Option<u64>,
    /// Where its log ends
    pub log_end: Option<u64>,
    /// How many files it has
    pub files: Option<usize>,
    /// Why it failed
    pub reason: Option<String>,
}

words! {
    /// Whether a part works.
    HealthStatus {
        /// It does.
        Ok = "OK",
        /// It does not.
        Down = "DOWN",
    }
}

impl HealthStatus {
    /// Whether it works.
    #[must_use]
    pub const fn of(works: bool) -> HealthStatus {
        if works { HealthStatus::Ok } else { HealthStatus::Down }
    }
}

/// Whether commands are taken, part by part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// All of it
    pub status: HealthStatus,
    /// Seconds
    pub uptime: u64,
    /// When this process began to serve
    pub start_time: Instant,
    /// Of this program
    pub version_number: String,
    /// The parts
    pub services: Vec<HealthPart>,
}

/// A part of the hub.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthPart {
    /// log, clock or process; or a server behind the hub
    pub name: String,
    /// Whether it works
    pub status: HealthStatus,
    /// What is wrong
    pub reason: Option<String>,
}
