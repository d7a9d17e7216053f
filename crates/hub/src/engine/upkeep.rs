//! What an operator does with a hub, as the port has it.

use std::path::Path;

use holdfast_engine::{BackupRefusal, BackupStatus, Upkeep};

use crate::backup::BackupError;
use crate::hub::HubHandle;

impl Upkeep for HubHandle {
    fn begin_backup(&self, dir: &Path) -> Result<(), BackupRefusal> {
        HubHandle::begin_backup(self, dir).map_err(|error| match error {
            BackupError::NotEmpty { .. } | BackupError::NotAbsolute { .. } | BackupError::Inside { .. } => {
                BackupRefusal::Unsuitable(error.to_string())
            }
            BackupError::Running { .. } => BackupRefusal::Running(error.to_string()),
            BackupError::Stopped | BackupError::Io { .. } | BackupError::Store(_) | BackupError::Log(_) => {
                BackupRefusal::Failed(error.to_string())
            }
        })
    }

    fn backup_status(&self) -> BackupStatus {
        HubHandle::backup_status(self)
    }

    fn confirm_clock(&self) {
        HubHandle::confirm_clock(self);
    }
}
