//! `/hub/backup`: a copy of the hub's data, made while payments go on.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_engine::{BackupRefusal, BackupStatus, Upkeep};
use serde_json::{Value, json};

use crate::admin::fields::Fields;
use crate::calls::beside;
use crate::error::ApiError;

/// Begins a backup to `dir`.
pub(crate) async fn begin(
    State(upkeep): State<Arc<dyn Upkeep>>,
    body: Fields,
) -> Result<StatusCode, ApiError> {
    let dir = PathBuf::from(body.text("dir")?);
    beside(move || upkeep.begin_backup(&dir)).await?.map_err(|error| refusal(&error))?;
    Ok(StatusCode::ACCEPTED)
}

fn refusal(refusal: &BackupRefusal) -> ApiError {
    let (status, code) = match refusal {
        BackupRefusal::Unsuitable(_) => (StatusCode::BAD_REQUEST, 3100),
        BackupRefusal::Running(_) => (StatusCode::CONFLICT, 3100),
        BackupRefusal::Failed(_) => (StatusCode::SERVICE_UNAVAILABLE, 2003),
    };
    ApiError::new(status, code, refusal.to_string())
}

/// How far it is.
pub(crate) async fn show(State(upkeep): State<Arc<dyn Upkeep>>) -> Json<Value> {
    Json(match upkeep.backup_status() {
        BackupStatus::None => json!({"state": "NONE"}),
        BackupStatus::Running { dir, done, total } => {
            json!({"state": "RUNNING", "dir": dir, "doneBytes": done, "totalBytes": total})
        }
        BackupStatus::Done { dir, bytes, offset, log_end, files } => {
            json!({
                "state": "DONE", "dir": dir, "doneBytes": bytes, "totalBytes": bytes, "offset": offset,
                "logEnd": log_end, "files": files,
            })
        }
        BackupStatus::Failed { dir, reason } => json!({"state": "FAILED", "dir": dir, "reason": reason}),
    })
}
