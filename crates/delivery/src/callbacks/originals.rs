//! The commands that caused callbacks, read from the log by offset: what is forwarded is what was sent.
//!
//! Callbacks come in the order of the log, so the thread that takes them up reads along and keeps the last frames; a
//! callback that waited longer has its frame read again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_domain::command::Command;
use holdfast_domain::records::{self, UNIT};
use holdfast_log::{Frame, Frames, LogError, Reader};

use crate::options::{FRAMES_KEPT_BYTES_MAX, FRAMES_SKIPPED_RECORDS_MAX};

/// Why a command cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginalError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the log ends before offset {0}")]
    NotThere(u64),
    #[error("the record at offset {offset} cannot be read: {error}")]
    Bad { offset: u64, error: records::RecordError },
}

/// A frame and where its records begin.
struct Indexed {
    frame: Frame,
    starts: Vec<u32>,
}

impl Indexed {
    fn new(frame: Frame) -> Indexed {
        let mut starts = Vec::with_capacity(frame.header.count as usize);
        let mut at = 0;
        // The length of a record stands in its bytes 2..4, in units.
        while let Some([_, _, low, high]) = frame.payload.get(at..).and_then(|rest| rest.first_chunk()) {
            starts.push(u32::try_from(at).expect("a frame's payload is bounded"));
            at += usize::from(u16::from_le_bytes([*low, *high])).max(1) * UNIT;
        }
        Indexed { frame, starts }
    }

    fn holds(&self, offset: u64) -> bool {
        (self.frame.header.base_offset..self.frame.header.end_offset()).contains(&offset)
    }

    fn command(&self, offset: u64) -> Result<Command, OriginalError> {
        let index = usize::try_from(offset - self.frame.header.base_offset).ok();
        let start = index.and_then(|index| self.starts.get(index)).ok_or(OriginalError::NotThere(offset))?;
        let read = records::read(&self.frame.payload[*start as usize..]);
        read.map(|(command, _)| command).map_err(|error| OriginalError::Bad { offset, error })
    }
}

#[derive(Default)]
struct Kept {
    frames: BTreeMap<u64, Arc<Indexed>>,
    /// Base offsets in the order in which they were read.
    order: VecDeque<u64>,
    bytes: usize,
}

impl Kept {
    fn find(&self, offset: u64) -> Option<Arc<Indexed>> {
        let (_, frame) = self.frames.range(..=offset).next_back()?;
        frame.holds(offset).then(|| Arc::clone(frame))
    }

    fn keep(&mut self, frame: &Arc<Indexed>) {
        let base = frame.frame.header.base_offset;
        if self.frames.insert(base, Arc::clone(frame)).is_some() {
            return;
        }
        self.order.push_back(base);
        self.bytes += frame.frame.payload.len();
        while self.bytes > FRAMES_KEPT_BYTES_MAX && self.order.len() > 1 {
            let oldest = self.order.pop_front().and_then(|base| self.frames.remove(&base));
            self.bytes -= oldest.map_or(0, |frame| frame.frame.payload.len());
        }
    }
}

/// Reads commands by offset.
pub(super) struct Originals {
    log: Reader,
    kept: Mutex<Kept>,
}

impl Originals {
    pub(super) fn new(log: Reader) -> Originals {
        Originals { log, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command at the offset, if its frame is at hand.
    pub(super) fn at_hand(&self, offset: u64) -> Option<Result<Command, OriginalError>> {
        let found = self.kept().find(offset);
        found.map(|frame| frame.command(offset))
    }

    /// The command at the offset. Reads the disk where needed.
    pub(super) fn read(&self, offset: u64) -> Result<Command, OriginalError> {
        match self.at_hand(offset) {
            Some(command) => command,
            None => Follower::default().read(self, offset)?.command(offset),
        }
    }
}

/// Reads along with the callbacks.
#[derive(Default)]
pub(super) struct Follower {
    cursor: Option<Frames>,
    /// The cursor's next frame begins here.
    next: u64,
}

impl Follower {
    /// Sees to it that the frame of that offset is at hand.
    pub(super) fn read_ahead(&mut self, originals: &Originals, offset: u64) -> Result<(), OriginalError> {
        if originals.kept().find(offset).is_some() {
            return Ok(());
        }
        let read = self.read(originals, offset);
        if read.is_err() {
            self.cursor = None;
        }
        read.map(|_| ())
    }

    fn read(&mut self, originals: &Originals, offset: u64) -> Result<Arc<Indexed>, OriginalError> {
        let near = self.next <= offset && offset - self.next <= FRAMES_SKIPPED_RECORDS_MAX;
        let mut cursor = match self.cursor.take().filter(|_| near) {
            Some(cursor) => cursor,
            None => originals.log.read_from(offset)?,
        };
        loop {
            let frame = cursor.next_frame()?.ok_or(OriginalError::NotThere(offset))?;
            self.next = frame.header.end_offset();
            if self.next > offset {
                self.cursor = Some(cursor);
                let frame = Arc::new(Indexed::new(frame));
                if !frame.holds(offset) {
                    return Err(OriginalError::NotThere(offset));
                }
                originals.kept().keep(&frame);
                return Ok(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use holdfast_domain::command::Lookup;
    use holdfast_domain::ids::{ParticipantId, TransferId};
    use holdfast_log::{FrameBuf, FrameHeader, Log, LogId, SegmentLog, SegmentOptions, SimFs};

    use super::*;

    fn lookup(number: u64) -> Command {
        Command::Lookup(Lookup { source: ParticipantId(1), id: TransferId(u128::from(number)) })
    }

    /// A log of frames with 1, 2, 3, … records, in which record n looks up transfer n.
    fn log(frames: u32) -> SegmentLog {
        let fs = Arc::new(SimFs::new(1));
        let (mut log, _) =
            SegmentLog::open(fs, Path::new("/log"), SegmentOptions::default(), LogId([7; 16])).unwrap();
        for count in 1..=frames {
            let base_offset = log.end();
            let mut bytes = Vec::new();
            (0..u64::from(count)).for_each(|at| records::write(&lookup(base_offset + at), &mut bytes));
            let mut frame = FrameBuf::with_capacity(bytes.len());
            frame.push(&bytes);
            let header = FrameHeader { base_offset, count, ..FrameHeader::default() };
            log.append(&mut frame, &header).unwrap();
        }
        log
    }

    #[test]
    fn every_record_is_found_in_any_order() {
        let log = log(20);
        let originals = Originals::new(log.reader());
        for offset in (0..log.end()).rev() {
            assert_eq!(originals.read(offset).unwrap(), lookup(offset));
        }
        assert!(matches!(originals.read(log.end()), Err(OriginalError::NotThere(_))));
    }

    #[test]
    fn reading_along_leaves_frames_at_hand() {
        let log = log(20);
        let originals = Originals::new(log.reader());
        let mut follower = Follower::default();
        for offset in [0, 1, 2, 50, 51, 3, 209] {
            assert!(follower.read_ahead(&originals, offset).is_ok());
            assert_eq!(originals.at_hand(offset).unwrap().unwrap(), lookup(offset));
        }
        assert!(follower.read_ahead(&originals, 5_000).is_err());
        assert!(follower.read_ahead(&originals, 100).is_ok());
    }
}
