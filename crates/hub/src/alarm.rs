//! Rings when a thread of the hub dies: a hub whose state is in doubt takes and shows nothing.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::health::{Health, Status};

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |error| error.source())
        .fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

/// Starts a thread of the hub.
pub(crate) fn thread(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The same; if its body does not come back, the hub has stopped. `ring` must let nobody wait for the thread any more.
pub(crate) fn watched(
    name: &'static str,
    health: &Arc<Health>,
    ring: impl FnOnce(&str) + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let health = Arc::clone(health);
    thread(name, move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            let reason = format!(
                "the {name} stopped on a broken invariant; see the log of this process and restart it"
            );
            health.set(Status::Stopped(reason.clone()));
            ring(&reason);
            resume_unwind(panic);
        }
    })
}
