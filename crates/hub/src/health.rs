//! Whether the hub can be used, and if not, why.

use std::fmt;

use holdfast_engine::Monitor;
use holdfast_engine::clock::ClockFault;

/// What stands in the way, if anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// Commands are taken.
    Ready,
    /// The wall clock is not believed: commands are refused, reads go on.
    ClockSuspect(ClockFault),
    /// The log or the store failed, or a thread died: nothing is taken or shown any more.
    Stopped(String),
    /// The hub was asked to end.
    ShuttingDown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ready => write!(f, "the hub takes commands"),
            Status::ClockSuspect(fault) => write!(f, "the hub takes no commands for now: {fault}"),
            Status::Stopped(reason) => write!(f, "the hub has stopped for good: {reason}"),
            Status::ShuttingDown => write!(f, "the hub is shutting down"),
        }
    }
}

/// The status, shared between the threads.
#[derive(Debug)]
pub struct Health(Monitor<Status>);

impl Default for Health {
    fn default() -> Health {
        Health(Monitor::new(Status::Ready))
    }
}

impl Health {
    /// The status now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.lock().clone()
    }

    /// Readiness comes and goes; an end is for good, and a stop is the last word.
    pub(crate) fn set(&self, status: Status) {
        let finality = |status: &Status| match status {
            Status::Ready | Status::ClockSuspect(_) => 0,
            Status::ShuttingDown => 1,
            Status::Stopped(_) => 2,
        };
        let mut now = self.0.lock();
        let stopped_already = matches!(*now, Status::Stopped(_));
        if finality(&status) >= finality(&now) && !stopped_already && *now != status {
            *now = status.clone();
            drop(now);
            match status {
                Status::Ready | Status::ShuttingDown => tracing::info!("{status}"),
                Status::ClockSuspect(_) => tracing::warn!("{status}"),
                Status::Stopped(_) => tracing::error!("{status}"),
            }
        }
    }
}
