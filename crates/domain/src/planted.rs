//! Faults put in on purpose, which the simulator must find. Without the feature `planted-bugs` each of these
//! questions is a constant `false` and leaves no trace in the program.

/// A fault that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The amounts accepted earlier in a bin do not count against the limits.
    ForgottenRunningPosition = 1,
    /// An abort or timeout ends the transfer and does not give the payer its position back.
    KeptPosition = 2,
    /// Answers go out as if the frame were durable, though the log has failed.
    AnswerDespiteFailure = 3,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use super::Bug;
    use std::cell::Cell;

    thread_local! { static ACTIVE: Cell<Option<Bug>> = const { Cell::new(None) }; }

    /// Switches the fault on for this thread, or all of them off.
    pub fn plant(bug: Option<Bug>) {
        ACTIVE.set(bug);
    }

    pub(super) fn is(bug: Bug) -> bool {
        ACTIVE.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use switch::plant;

#[cfg(not(feature = "planted-bugs"))]
mod switch {
    #[inline(always)]
    pub(super) const fn is(_: super::Bug) -> bool {
        false
    }
}

#[inline(always)]
pub(crate) fn forgotten_running_position() -> bool {
    switch::is(Bug::ForgottenRunningPosition)
}

#[inline(always)]
pub(crate) fn kept_position() -> bool {
    switch::is(Bug::KeptPosition)
}

/// Asked by the loop that releases answers.
#[inline(always)]
#[must_use]
pub fn answer_despite_failure() -> bool {
    switch::is(Bug::AnswerDespiteFailure)
}
