//! Arbitrary bytes as a segment: what the fuzz target and a plain test both call.

use std::path::Path;
use std::sync::Arc;

use crate::segment::{SegmentHeader, file_name};
use crate::{
    BLOCK, Frame, FrameBuf, FrameHeader, Log, LogError, LogId, SegmentLog, SegmentOptions, SegmentReader,
    SimFs,
};
use holdfast_disk::FileSystem;

const DIR: &str = "/log";
/// The log id under which the bytes are read.
pub const FUZZ_LOG_ID: LogId = LogId([7; 16]);

/// Reads `bytes` as a whole segment file, and again as what follows a sound segment header. Panics if the reader
/// or the writer breaks a promise: they agree on what is there, offsets join, opening cuts at most once, the log
/// goes on.
pub fn fuzz_read_segment(bytes: &[u8]) {
    read_file(bytes);
    let mut file = bytes.to_vec();
    file.resize(file.len().next_multiple_of(BLOCK), 0);
    let length = (BLOCK + file.len()) as u64;
    let header = SegmentHeader { log_id: FUZZ_LOG_ID, base_offset: 0, length, created_by: "fuzz".into() };
    read_file(&[&header.encode()[..], &file].concat());
}

fn read_file(bytes: &[u8]) {
    let sim = SimFs::new(0);
    let dir = Path::new(DIR);
    sim.put(&dir.join(file_name(0)), bytes);
    let fs: Arc<dyn FileSystem> = Arc::new(sim);
    let Ok(seen) = read_only(&fs, dir) else {
        assert!(open(&fs, dir).is_err(), "the writer opened what the reader refuses");
        return;
    };
    let (mut log, report) = open(&fs, dir).expect("the writer refused what the reader accepts");
    assert_eq!(report.frames, seen.len() as u64);
    let mut offset = 0;
    for frame in &seen {
        assert_eq!(frame.header.base_offset, offset);
        offset = frame.header.end_offset();
    }
    assert_eq!(report.end, offset);
    if offset < u64::MAX {
        let mut buf = FrameBuf::new();
        buf.push(b"after");
        let header = FrameHeader { base_offset: offset, count: 1, ..FrameHeader::default() };
        log.append(&mut buf, &header).expect("the log goes on");
        offset += 1;
    }
    drop(log);
    let (_, again) = open(&fs, dir).expect("the second open");
    assert_eq!((again.end, again.torn_tail), (offset, None));
}

fn read_only(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Vec<Frame>, LogError> {
    let reader = SegmentReader::open(Arc::clone(fs), dir)?;
    let report = reader.check()?;
    let frames: Vec<Frame> = reader.frames(0)?.collect::<Result<_, _>>()?;
    assert_eq!(report.frames, frames.len() as u64);
    Ok(frames)
}

fn open(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<(SegmentLog, crate::OpenReport), LogError> {
    let options = SegmentOptions { segment_bytes: 64 * 1024, ..SegmentOptions::default() };
    SegmentLog::open(Arc::clone(fs), dir, options, FUZZ_LOG_ID)
}
