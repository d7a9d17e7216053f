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
    /// Recovery keeps what reached the disk after the checkpoint that it starts from.
    RowAheadOfCheckpoint = 4,
    /// A merge of id runs leaves one of them out.
    LostRunInMerge = 5,
    /// A checkpoint says that the log was taken in one record further than it was.
    OffsetOffByOne = 6,
    /// A file is relied on before its new name is durable.
    UnsyncedRename = 7,
    /// A lease that is over still spends.
    SpendAfterLease = 8,
    /// A spend leaves one of its inputs alive.
    KeptInput = 9,
    /// A lock takes no notice of the live lock of another.
    LockOverLock = 10,
    /// A checkout that fails gives the credit back that it took, and then once more.
    GivenBackTwice = 11,
    /// A cancel does not look whether the checkout is decided, and decides it again.
    DecidedTwice = 12,
    /// A deadline undoes the sides that have not answered, and forgets the one that took.
    ForgottenTaker = 13,
    /// A deadline fails a checkout and leaves what was reserved for it, position or tokens, as it is.
    KeptHold = 14,
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

#[inline(always)]
pub(crate) fn spend_after_lease() -> bool {
    switch::is(Bug::SpendAfterLease)
}

#[inline(always)]
pub(crate) fn kept_input() -> bool {
    switch::is(Bug::KeptInput)
}

#[inline(always)]
pub(crate) fn lock_over_lock() -> bool {
    switch::is(Bug::LockOverLock)
}

#[inline(always)]
pub(crate) fn given_back_twice() -> bool {
    switch::is(Bug::GivenBackTwice)
}

#[inline(always)]
pub(crate) fn decided_twice() -> bool {
    switch::is(Bug::DecidedTwice)
}

#[inline(always)]
pub(crate) fn forgotten_taker() -> bool {
    switch::is(Bug::ForgottenTaker)
}

#[inline(always)]
pub(crate) fn kept_hold() -> bool {
    switch::is(Bug::KeptHold)
}

/// Asked by the loop that releases answers.
#[inline(always)]
#[must_use]
pub fn answer_despite_failure() -> bool {
    switch::is(Bug::AnswerDespiteFailure)
}

/// Asked by the recovery of the store.
#[inline(always)]
#[must_use]
pub fn row_ahead_of_checkpoint() -> bool {
    switch::is(Bug::RowAheadOfCheckpoint)
}

/// Asked by the merge of id runs.
#[inline(always)]
#[must_use]
pub fn lost_run_in_merge() -> bool {
    switch::is(Bug::LostRunInMerge)
}

/// Asked where a checkpoint is begun.
#[inline(always)]
#[must_use]
pub fn offset_off_by_one() -> bool {
    switch::is(Bug::OffsetOffByOne)
}

/// Asked where a file of the store gets its name.
#[inline(always)]
#[must_use]
pub fn unsynced_rename() -> bool {
    switch::is(Bug::UnsyncedRename)
}
