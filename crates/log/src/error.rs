//! What can go wrong, in words an operator can act on: which file, where in it, at which offset, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::frame::{FRAME_PAYLOAD_MAX, FrameFault};
use holdfast_disk::LogId;

/// An error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system refused an operation. During an append this also stops the log.
    #[error("cannot {op} {}; check the disk, its free space and the permissions", path.display())]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },

    /// An acknowledged frame is damaged or missing: something valid follows it. Nothing was changed.
    #[error(
        "{} is damaged at byte {position}, where offset {offset} should be: {found}. \
         Nothing was changed. Restore the log directory from a backup",
        file.display()
    )]
    Corrupt {
        /// The damaged segment.
        file: PathBuf,
        /// The first byte of the damaged frame (0: the segment header).
        position: u64,
        /// The offset that should be found there.
        offset: u64,
        /// What is there instead, and why it cannot be a torn tail.
        found: String,
    },

    /// The segments do not join: frames between two of them are gone. Nothing was changed.
    #[error(
        "the log in {} has a gap: offset {offset} is missing, the next segment is {}. \
         Nothing was changed. Put the missing segment back, or restore the directory from a backup",
        dir.display(), next.display()
    )]
    Gap {
        /// The log directory.
        dir: PathBuf,
        /// The first missing offset.
        offset: u64,
        /// The segment after the gap.
        next: PathBuf,
    },

    /// The log ends before a point that it is known to have reached. Nothing was changed.
    #[error(
        "the log in {} ends at offset {end}, but it had reached {reached}: its newest segment is missing, or its \
         last frame is damaged. Nothing was changed. Put the missing file back, or restore the directory from a \
         backup",
        dir.display()
    )]
    Shortened {
        /// The log directory.
        dir: PathBuf,
        /// Where it ends now.
        end: u64,
        /// Where it is known to have ended: its mark, or the checkpoint of the caller, says so.
        reached: u64,
    },

    /// A segment belongs to another log.
    #[error(
        "{} belongs to log {found}, this directory holds log {expected}. Move the file to where it came from",
        file.display()
    )]
    ForeignSegment {
        /// The stranger.
        file: PathBuf,
        /// The log id in its header.
        found: LogId,
        /// The log id of the first segment.
        expected: LogId,
    },

    /// A segment was written by a later release.
    #[error("{} has format version {found}, this release knows {known}. Start the newer release", file.display())]
    UnsupportedVersion {
        /// The segment.
        file: PathBuf,
        /// Its version.
        found: u16,
        /// The latest version this code reads.
        known: u16,
    },

    /// Another process holds the directory.
    #[error("{} is in use by another process. Stop it, or use another --data directory", dir.display())]
    Locked {
        /// The log directory.
        dir: PathBuf,
    },

    /// There is no log to read here.
    #[error("{} holds no log segments. Check the path", dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },

    /// The caller's frame does not follow the last one. Nothing was written; the log goes on.
    #[error("frame starts at offset {found}, but the log ends at {expected}; this is a bug in the caller")]
    WrongOffset {
        /// The end of the log.
        expected: u64,
        /// The base offset given.
        found: u64,
    },

    /// A frame must hold between 1 record and the largest countable offset. Nothing was written.
    #[error("a frame of {count} records cannot be appended at offset {offset}; this is a bug in the caller")]
    BadCount {
        /// The base offset given.
        offset: u64,
        /// The record count given.
        count: u32,
    },

    /// The payload is above [`FRAME_PAYLOAD_MAX`]. Nothing was written.
    #[error("a frame payload of {bytes} bytes is above the limit of {FRAME_PAYLOAD_MAX}; split the batch")]
    FrameTooLarge {
        /// The payload's size.
        bytes: usize,
    },

    /// A write or sync failed before. The log never tries again: after a failed sync nobody knows what is on the
    /// disk. A restart reads the disk and decides.
    #[error("the log stopped for good after: {cause}. Check the disk, then restart")]
    Stopped {
        /// The first failure, with its file.
        cause: String,
    },

    /// The wanted offset lies before the first segment.
    #[error("offset {offset} is no longer in the log, it starts at {start}")]
    BeforeStart {
        /// The offset asked for.
        offset: u64,
        /// The first offset there is.
        start: u64,
    },
}

impl LogError {
    /// Names the operation and the path of an IO error.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
        let path = path.to_owned();
        move |source| LogError::Io { op, path, source }
    }

    /// No sound frame stands at that position of a segment, and that it once did is sure.
    pub(crate) fn corrupt(
        file: &Path,
        (position, offset): (u64, u64),
        fault: Option<FrameFault>,
        why_damage: &str,
    ) -> LogError {
        let what = fault.map_or_else(|| "nothing is written there".to_owned(), |fault| fault.to_string());
        LogError::Corrupt {
            file: file.to_owned(),
            position,
            offset,
            found: format!("{what}, yet {why_damage}"),
        }
    }

    /// The error and its source in one line, for [`LogError::Stopped`].
    pub(crate) fn one_line(&self) -> String {
        match self {
            LogError::Io { source, .. } => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }
}
