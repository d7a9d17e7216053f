//! What the tests share.

use std::path::{Path, PathBuf};

use holdfast_log::conformance::{append_samples, read_all};
use holdfast_log::{
    BLOCK, FRAME_HEADER, FileSystem, Frame, FrameBuf, LogError, LogId, OpenReport, SegmentLog,
    SegmentOptions, SegmentReader, SimFs,
};

pub const DIR: &str = "/data/log";
pub const LOG_ID: LogId = LogId(*b"test log id 0001");
/// Header and 7 blocks.
pub const SMALL_SEGMENT: u64 = 32 * 1024;

pub fn dir() -> &'static Path {
    Path::new(DIR)
}

pub fn segment_path(base: u64) -> PathBuf {
    dir().join(format!("{base:020}.seg"))
}

/// A payload that fills `blocks` blocks with its header.
pub const fn filling(blocks: usize) -> usize {
    blocks * BLOCK - FRAME_HEADER
}

pub fn options() -> SegmentOptions {
    SegmentOptions { segment_bytes: SMALL_SEGMENT, created_by: "test".into() }
}

pub fn open(fs: &SimFs) -> Result<(SegmentLog, OpenReport), LogError> {
    open_sized(fs, SMALL_SEGMENT)
}

/// As [`open`], from a checkpoint.
pub fn open_from(fs: &SimFs, from: u64) -> Result<(SegmentLog, OpenReport), LogError> {
    SegmentLog::open_from(fs.shared(), dir(), options(), LOG_ID, Some(from))
}

/// As [`open`], with segments of this size.
pub fn open_sized(fs: &SimFs, segment_bytes: u64) -> Result<(SegmentLog, OpenReport), LogError> {
    let options = SegmentOptions { segment_bytes, ..options() };
    SegmentLog::open(fs.shared(), dir(), options, LOG_ID)
}

pub fn reader(fs: &SimFs) -> Result<SegmentReader, LogError> {
    SegmentReader::open(fs.shared(), dir())
}

/// Every frame a reader sees without changing anything.
pub fn read_only(fs: &SimFs) -> Result<Vec<Frame>, LogError> {
    reader(fs)?.frames(0)?.collect()
}

/// A closed log with these frames.
pub fn written(shapes: &[(u32, usize)]) -> (SimFs, Vec<Frame>) {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    let frames = append_samples(&mut log, shapes);
    assert_eq!(read_all(&log, 0), frames);
    (fs, frames)
}

/// The bytes of a frame as they lie on the disk, without padding.
pub fn sealed(frame: &Frame) -> Vec<u8> {
    let mut buf = FrameBuf::new();
    buf.push(&frame.payload);
    buf.seal(&frame.header, &LOG_ID);
    buf.bytes().to_vec()
}

/// All files of the log and their bytes.
pub fn snapshot(fs: &SimFs) -> Vec<(String, Vec<u8>)> {
    let names = fs.list(dir()).expect("list");
    names.into_iter().map(|name| (name.clone(), fs.bytes_of(&dir().join(&name)).expect("read"))).collect()
}
