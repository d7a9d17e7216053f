//! Whether the log still runs: shared by all who change its directory.

use std::sync::{Arc, OnceLock};

use crate::{LogError, Tail};

/// The first failure, if there was one. Whoever meets it stops the log for all.
#[derive(Clone)]
pub(crate) struct Running {
    cause: Arc<OnceLock<String>>,
    tail: Tail,
}

impl Running {
    pub fn new(tail: Tail) -> Self {
        Self { cause: Arc::default(), tail }
    }

    /// Refuses once the log has stopped.
    pub fn check(&self) -> Result<(), LogError> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(LogError::Stopped { cause: cause.clone() }),
        }
    }

    /// Remembers the first failure and lets nobody wait for more.
    pub fn stop(&self, error: LogError) -> LogError {
        let cause = error.one_line();
        tracing::error!(cause, "the log stopped");
        let _ = self.cause.set(cause);
        self.tail.close();
        error
    }
}
