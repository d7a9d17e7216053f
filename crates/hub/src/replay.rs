//! From the log back to the state: every frame decided again, every link of the chain compared.

use holdfast_domain::command::Command;
use holdfast_domain::effects::Effects;
use holdfast_domain::{RULES_VERSION, records};
use holdfast_log::{Frame, Frames, LogError};
use holdfast_store::{LocalStore, Store, StoreError};

use crate::core::{Core, OPTIONS_KNOWN};

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(LogError),
    /// What the store holds of ended transfers cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A frame does not begin where the one before it ended, or the log does not begin with the first one.
    #[error(
        "the log has no frame at offset {expected}: the next one begins at {found}. Restore the data directory from a backup"
    )]
    Gap {
        /// Where a frame was expected.
        expected: u64,
        /// Where the next one begins.
        found: u64,
    },
    /// A frame holds bytes that are no record.
    #[error(
        "record {index} of the frame at offset {offset} cannot be read: {error}. This log was written by another version of Holdfast (frame rules {written}, ours {RULES_VERSION}); start the version that wrote it"
    )]
    BadRecord {
        /// The frame's base offset.
        offset: u64,
        /// Which of its records.
        index: usize,
        /// Rules version of the frame.
        written: u32,
        /// What is wrong with it.
        error: records::RecordError,
    },
    /// A frame that this program would decide by other rules. The chain would tell only with the next frame.
    #[error(
        "the frame at offset {offset} was decided under rules {written}, and this program has rules {RULES_VERSION}: it might decide it otherwise. Start the version that wrote it and stop it cleanly (SIGTERM), then upgrade"
    )]
    OtherRules {
        /// The frame's base offset.
        offset: u64,
        /// Rules version of the frame.
        written: u32,
    },
    /// The replay decided something else than the log says was decided.
    #[error(
        "the audit chain breaks at offset {offset}: the frames before it (the last one under rules {before}) were decided otherwise than this program decides (its rules {RULES_VERSION}; the frame at {offset} has {written}). Either the log was changed, or the version that wrote it must be started instead"
    )]
    ChainBroken {
        /// Base offset of the first frame whose hash does not fit.
        offset: u64,
        /// Rules version of that frame.
        written: u32,
        /// Rules version of the frame before it.
        before: u32,
    },
    /// A frame says something that this program does not understand, or that its records do not bear out.
    #[error(
        "the frame at offset {offset} has {what} (frame rules {written}, ours {RULES_VERSION}); start the version that wrote it"
    )]
    StrangeFrame {
        /// The frame's base offset.
        offset: u64,
        /// Rules version of the frame.
        written: u32,
        /// What is strange.
        what: &'static str,
    },
}

impl ReplayError {
    /// The rules that decided the frames at which the replay stopped, if they are not ours.
    pub(crate) fn other_rules(&self) -> Option<u32> {
        let rules = match self {
            ReplayError::ChainBroken { before, written, .. } if *before == RULES_VERSION => *written,
            ReplayError::ChainBroken { before, .. } => *before,
            ReplayError::OtherRules { written, .. }
            | ReplayError::BadRecord { written, .. }
            | ReplayError::StrangeFrame { written, .. } => *written,
            _ => return None,
        };
        (rules != RULES_VERSION).then_some(rules)
    }
}

impl From<LogError> for ReplayError {
    /// A state follows from the whole log: if its beginning is gone, frames are missing.
    fn from(error: LogError) -> ReplayError {
        match error {
            LogError::BeforeStart { offset, start } => ReplayError::Gap { expected: offset, found: start },
            other => ReplayError::Log(other),
        }
    }
}

/// Which frames a replay may decide again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Those that were decided under the rules of this program: what comes out is relied on.
    OursOnly,
    /// All, as long as the chain agrees: it is only looked at.
    Any,
}

/// Replays every frame into `core`, showing each with its commands and effects right after it was applied.
///
/// # Errors
/// The first frame that cannot be read, parsed or matched to the chain.
pub fn replay_with<S: Store>(
    frames: Frames,
    core: &mut Core<S>,
    mut show: impl FnMut(&Frame, &[Command], &Effects, &Core<S>),
) -> Result<(), ReplayError> {
    walk(frames, core, Rules::Any, |frame, commands, effects, core| {
        show(frame, commands, effects, core);
        Ok(())
    })
}

/// As [`replay_with`], running the store's jobs on the way and making checkpoints every `checkpoint_bytes`, so that a long
/// log takes no more memory than a running hub.
///
/// # Errors
/// As [`replay_with`], or if the store's files cannot be written.
pub(crate) fn replay_keeping(
    frames: Frames,
    core: &mut Core<LocalStore>,
    checkpoint_bytes: u64,
) -> Result<(), ReplayError> {
    walk(frames, core, Rules::OursOnly, |_, _, _, core| {
        if core.unsaved_bytes() >= checkpoint_bytes {
            core.begin_checkpoint();
        }
        core.run_jobs()
    })
}

pub(crate) fn walk<S: Store>(
    mut frames: Frames,
    core: &mut Core<S>,
    rules: Rules,
    mut after: impl FnMut(&Frame, &[Command], &Effects, &mut Core<S>) -> Result<(), StoreError>,
) -> Result<(), ReplayError> {
    let mut frame = Frame::default();
    while frames.next_into(&mut frame)? {
        let offset = frame.header.base_offset;
        let written = frame.header.rules_version;
        if offset != core.end() {
            return Err(ReplayError::Gap { expected: core.end(), found: offset });
        }
        if rules == Rules::OursOnly && written != RULES_VERSION {
            return Err(ReplayError::OtherRules { offset, written });
        }
        if frame.header.running_hash != core.chain() {
            let before = core.progress().rules_version;
            return Err(ReplayError::ChainBroken { offset, written, before });
        }
        let commands = records::read_all(&frame.payload)
            .map_err(|(index, error)| ReplayError::BadRecord { offset, index, written, error })?;
        if frame.header.options & !OPTIONS_KNOWN != 0 {
            let what = "processing options that this version does not know";
            return Err(ReplayError::StrangeFrame { offset, written, what });
        }
        if commands.len() != frame.header.count as usize {
            let what = "another number of records than its header says";
            return Err(ReplayError::StrangeFrame { offset, written, what });
        }
        core.load(&commands)?;
        let effects = core.advance(&frame.header, &commands, std::iter::once(frame.payload.as_slice()));
        after(&frame, &commands, &effects, core)?;
    }
    Ok(())
}
