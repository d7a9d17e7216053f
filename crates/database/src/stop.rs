//! That it is over, told to threads that wait.

use std::time::Duration;

use holdfast_engine::Monitor;

/// Set once; whoever pauses wakes up then.
#[derive(Debug, Default)]
pub(crate) struct Stop(Monitor<bool>);

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        *self.0.lock()
    }

    pub(crate) fn set(&self) {
        self.0.change(|over| *over = true);
    }

    /// Pauses, at most so long. Whether it is over.
    pub(crate) fn pause(&self, most: Duration) -> bool {
        *self.0.wait_while_for(self.0.lock(), most, |over| !*over)
    }
}
