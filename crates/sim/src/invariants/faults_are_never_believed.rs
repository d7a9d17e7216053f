//! A fault of the medium has no effect, or it stops the hub with a reason, or the hub refuses to start and names the
//! file. It never leads to another state, a wrong answer, or the loss of what was acknowledged. The file that is named
//! is one that was harmed: whoever reads it must not look in the wrong place.
//!
//! One case is beyond proof, as `docs/log-format.md` says under *Limits*: what a lie takes from the very end of the log
//! looks like a write that was never finished, unless a mark or a checkpoint knows better. What may be missing then is
//! written down here as exactly as it is known: after rot or a lost write the last frame and no other; after a write
//! that landed elsewhere a tail of frames, if none was acknowledged after that write.

use std::path::Path;

use holdfast_hub::{OpenError, ReplayError};
use holdfast_log::{FileSystem, LogError, SimFs};
use holdfast_store::StoreError;

use super::expect;
use crate::medium::{LogHarm, LogLie};
use crate::process::{LOG, STORE};

/// What a refusal to start is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The system refused an operation: somebody looks at the disk, and it is tried again.
    System,
    /// Something that is derived from the log: it is moved away and derived again.
    Store,
    /// The log: a backup is needed.
    Log,
}

/// What the error says is wrong.
pub const fn blame(error: &OpenError) -> Blame {
    match error {
        OpenError::Log(LogError::Io { .. })
        | OpenError::Store(StoreError::Io { .. })
        | OpenError::Replay(
            ReplayError::Log(LogError::Io { .. }) | ReplayError::Store(StoreError::Io { .. }),
        )
        | OpenError::Data { .. }
        | OpenError::InUse { .. }
        | OpenError::NotEmpty { .. }
        | OpenError::Thread(_) => Blame::System,
        OpenError::Store(_)
        | OpenError::Replay(ReplayError::Store(_))
        | OpenError::ForeignCheckpoint { .. }
        | OpenError::OtherPast { .. }
        | OpenError::StrangeCheckpoint { .. }
        | OpenError::Tokens(_) => Blame::Store,
        OpenError::Log(_) | OpenError::Replay(_) | OpenError::NothingToStartFrom { .. } => Blame::Log,
    }
}

/// A reason that an operator is given names a file or folder of the data directory.
pub fn names_a_file(reason: &str) -> Result<(), String> {
    let named = [LOG, STORE, "'log'", "'store'", "the log has no frame at offset"];
    if named.iter().any(|name| reason.contains(name)) {
        return Ok(());
    }
    Err(format!("a refusal that names no file: {reason}"))
}

/// Whether a reason speaks of what was read, and not of an operation that failed.
pub fn tells_damage(reason: &str) -> bool {
    ["is damaged", "belongs to log", "has format version"].iter().any(|words| reason.contains(words))
}

/// The frames that are known to be durable: where each ended, and the chain after it.
#[derive(Debug, Default)]
pub struct FaultsAreNeverBelieved {
    frames: Vec<(u64, [u8; 32])>,
}

impl FaultsAreNeverBelieved {
    /// A frame became durable, or was found so.
    pub fn durable(&mut self, end: u64, chain: [u8; 32]) {
        if self.frames.last().is_none_or(|(last, _)| *last < end) {
            self.frames.push((end, chain));
        }
    }

    /// How many frames are known to be durable.
    pub const fn frames(&self) -> usize {
        self.frames.len()
    }

    /// A hub came back at `end`. `Ok(false)`: a tail of the log is lost, and nothing could have told.
    pub fn came_back(
        &self,
        (end, chain): (u64, [u8; 32]),
        harm: Option<LogHarm>,
        mark: Option<u64>,
    ) -> Result<bool, String> {
        let lost = self.frames.iter().filter(|(of, _)| *of > end).count();
        let known = self.frames.iter().find(|(of, _)| *of == end);
        if known.is_some_and(|(_, known)| *known != chain) {
            return Err(format!("the hub came back at {end} with another chain"));
        }
        if lost == 0 {
            return Ok(true);
        }
        let last = self.frames.last().map_or(0, |(end, _)| *end);
        let Some(LogHarm { lie, frames }) = harm else {
            return Err(format!("the log ends at {end}; frames were durable up to {last}"));
        };
        expect(known.is_some() || end == 0, || format!("the log ends at {end}, inside of a frame"))?;
        if mark.is_some_and(|mark| mark > end) {
            return Err(format!("the log ends at {end}, before its mark {mark:?}, and is not refused"));
        }
        let beyond_proof = match lie {
            LogLie::Rot | LogLie::Lost => lost == 1,
            LogLie::Astray => frames + 1 >= self.frames.len(),
        };
        if beyond_proof {
            Ok(false)
        } else {
            Err(format!("{lost} durable frames are lost after {harm:?} and nobody says so: {end} for {last}"))
        }
    }
}

/// How far the log says it has come, by the bytes of its mark.
pub fn marked_end(fs: &SimFs) -> Option<u64> {
    let path = Path::new(LOG).join("end.mark");
    fs.exists(&path).ok().filter(|there| *there)?;
    let bytes = fs.bytes_of(&path).ok()?;
    let end = bytes.get(24..32)?.first_chunk()?;
    bytes.starts_with(b"HFend").then(|| u64::from_le_bytes(*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_frames() -> FaultsAreNeverBelieved {
        let mut known = FaultsAreNeverBelieved::default();
        [10, 20, 30].iter().zip(1..).for_each(|(end, chain)| known.durable(*end, [chain; 32]));
        known
    }

    fn harm(lie: LogLie, frames: usize) -> Option<LogHarm> {
        Some(LogHarm { lie, frames })
    }

    #[test]
    fn a_whole_log_is_fine_and_may_have_grown() {
        assert_eq!(three_frames().came_back((30, [3; 32]), None, Some(30)), Ok(true));
        assert_eq!(three_frames().came_back((40, [4; 32]), None, Some(20)), Ok(true));
        assert!(three_frames().came_back((30, [9; 32]), None, None).is_err(), "another chain");
    }

    #[test]
    fn nothing_durable_is_missing_without_a_lie() {
        assert!(three_frames().came_back((20, [2; 32]), None, None).is_err());
    }

    #[test]
    fn rot_and_lost_writes_may_take_the_last_frame_alone() {
        for lie in [LogLie::Rot, LogLie::Lost] {
            assert_eq!(three_frames().came_back((20, [2; 32]), harm(lie, 2), Some(20)), Ok(false));
            assert!(three_frames().came_back((10, [1; 32]), harm(lie, 2), None).is_err(), "two frames");
            assert!(three_frames().came_back((20, [2; 32]), harm(lie, 2), Some(21)).is_err(), "the mark");
            assert!(three_frames().came_back((20, [3; 32]), harm(lie, 2), None).is_err(), "another chain");
            assert!(three_frames().came_back((25, [2; 32]), harm(lie, 2), None).is_err(), "half a frame");
        }
    }

    #[test]
    fn a_stray_write_may_take_a_tail_if_it_was_the_last() {
        assert_eq!(three_frames().came_back((10, [1; 32]), harm(LogLie::Astray, 2), None), Ok(false));
        assert!(three_frames().came_back((10, [1; 32]), harm(LogLie::Astray, 1), None).is_err());
    }

    #[test]
    fn a_refusal_names_a_file() {
        assert!(names_a_file("cannot read /data/log/000.seg").is_ok());
        assert!(names_a_file("something went wrong").is_err());
    }
}
