//! When a checkout that nobody decided is cancelled. Absolute, so that downtime counts.

use crate::limits::DEADLINE_MS_DEFAULT;

/// Milliseconds since 1970-01-01T00:00:00Z, as they come in with the frame.
pub type Millis = i64;

/// The last instant at which a checkout may still be undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Millis);

impl Deadline {
    /// The deadline of a checkout that starts now, with the default wait.
    #[must_use]
    pub const fn from_start(now: Millis) -> Deadline {
        Deadline::after(now, DEADLINE_MS_DEFAULT)
    }

    /// The same with a wait of its own. One beyond the end of time never comes.
    #[must_use]
    pub const fn after(now: Millis, wait_ms: i64) -> Deadline {
        Deadline(now.saturating_add(wait_ms))
    }

    /// Whether it has passed.
    #[must_use]
    pub const fn is_past(self, now: Millis) -> bool {
        self.0 < now
    }
}
