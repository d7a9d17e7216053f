//! Faults put in on purpose, which the simulator must find. Without the feature `planted-bugs` whether
//! there is one is a constant `false` and leaves no trace in the program.

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
thread_local! { static ACTIVE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) }; }

/// Switches the fault on for this thread, or all of them off.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    ACTIVE.set(bug);
}

/// Whether the fault is switched on. Asked at the place that it is in.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn has(bug: Bug) -> bool {
    ACTIVE.get() == Some(bug)
}

/// Whether the fault is switched on: it never is in a program that serves.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
#[must_use]
pub const fn has(_: Bug) -> bool {
    false
}
