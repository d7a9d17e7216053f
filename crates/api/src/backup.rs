//! `/hub/backup`: a copy of the hub's data, made while payments go on.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_hub::backup::{BackupError, BackupStatus};
use serde_json::{Value, json};

use crate::Embedded;
use crate::admin::fields::Fields;
use crate::calls::beside;
use crate::error::ApiError;

/// Begins a backup to `dir`.
pub(crate) async fn begin(
    State(Embedded { hub, .. }): State<Embedded>,
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let dir = PathBuf::from(body.text("dir")?);
    beside(move || hub.begin_backup(&dir)).await?.map_err(|error| refusal(&error))?;
    Ok(StatusCode::ACCEPTED)
}

fn refusal(error: &BackupError) -> ApiError {
    let (status, code) = match error {
        BackupError::NotEmpty { .. } | BackupError::NotAbsolute { .. } | BackupError::Inside { .. } => {
            (StatusCode::BAD_REQUEST, 3100)
        }
        BackupError::Running { .. } => (StatusCode::CONFLICT, 3100),
        _ => (StatusCode::SERVICE_UNAVAILABLE, 2003),
    };
    ApiError::new(status, code, error.to_string())
}

/// How far it is.
pub(crate) async fn show(State(Embedded { hub, .. }): State<Embedded>) -> Json<Value> {
    Json(match hub.backup_status() {
        BackupStatus::None => json!({"state": "NONE"}),
        BackupStatus::Running { dir, done, total } => {
            json!({"state": "RUNNING", "dir": dir, "doneBytes": done, "totalBytes": total})
        }
        BackupStatus::Done { dir, backup } => {
            let bytes = backup.bytes();
            json!({
                "state": "DONE", "dir": dir, "doneBytes": bytes, "totalBytes": bytes, "offset": backup.offset,
                "logEnd": backup.log_end, "files": backup.files.len(),
            })
        }
        BackupStatus::Failed { dir, reason } => json!({"state": "FAILED", "dir": dir, "reason": reason}),
    })
}
