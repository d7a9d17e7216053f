//! `/hub/backup`: a copy of the hub's data, made while payments go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdfast_engine::{BackupRefusal, BackupStatus, Upkeep};
use holdfast_wire::views::{Backup, BackupState, BackupWanted};

use crate::admin::body::Body;
use crate::calls::beside;
use crate::error::ApiError;

/// Begins a backup to `dir`.
pub(crate) async fn begin(
    State(upkeep): State<Arc<dyn Upkeep>>,
    Body(BackupWanted { dir }): Body<BackupWanted>,
) -> Result<StatusCode, ApiError> {
    let dir = PathBuf::from(dir.0);
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
pub(crate) async fn show(State(upkeep): State<Arc<dyn Upkeep>>) -> Json<Backup> {
    let begun = |state: BackupState, dir: &Path| {
        let dir = Some(dir.display().to_string());
        Backup { state, dir, ..Backup::default() }
    };
    Json(match upkeep.backup_status() {
        BackupStatus::None => Backup::default(),
        BackupStatus::Running { dir, done, total } => {
            Backup { done_bytes: Some(done), total_bytes: Some(total), ..begun(BackupState::Running, &dir) }
        }
        BackupStatus::Done { dir, bytes, offset, log_end, files } => Backup {
            done_bytes: Some(bytes),
            total_bytes: Some(bytes),
            offset: Some(offset),
            log_end: Some(log_end),
            files: Some(files),
            ..begun(BackupState::Done, &dir)
        },
        BackupStatus::Failed { dir, reason } => {
            Backup { reason: Some(reason), ..begun(BackupState::Failed, &dir) }
        }
    })
}
