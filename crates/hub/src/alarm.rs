//! Rings when a thread of the hub dies: a hub whose state is in doubt takes and shows nothing.

use std::sync::Arc;

use crate::health::{Health, Status};

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |error| error.source())
        .fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

/// Watches one thread.
pub(crate) struct StopAlarm {
    thread: &'static str,
    health: Arc<Health>,
    ring: Box<dyn Fn(&str) + Send>,
}

impl StopAlarm {
    /// An alarm for that thread; `ring` must let nobody wait for it any more.
    pub(crate) fn new(
        thread: &'static str,
        health: Arc<Health>,
        ring: impl Fn(&str) + Send + 'static,
    ) -> StopAlarm {
        StopAlarm { thread, health, ring: Box::new(ring) }
    }

    /// Runs the thread's body; rings if it does not come back.
    pub(crate) fn watch(self, body: impl FnOnce()) {
        let armed = Armed(&self);
        body();
        std::mem::forget(armed);
    }
}

struct Armed<'a>(&'a StopAlarm);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        let thread = self.0.thread;
        let reason =
            format!("the {thread} stopped on a broken invariant; see the log of this process and restart it");
        self.0.health.set(Status::Stopped(reason.clone()));
        (self.0.ring)(&reason);
    }
}
