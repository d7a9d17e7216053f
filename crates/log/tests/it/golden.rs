//! The bytes on disk, committed. If one of these fails, old logs cannot be read any more: that needs a new format
//! version, not a new fixture. `HOLDFAST_BLESS=1` writes the fixture for a new version.

use std::path::PathBuf;
use std::sync::Arc;

use holdfast_log::conformance::{append, read_all};
use holdfast_log::{BLOCK, Frame, FrameHeader, LogId, SegmentLog, SegmentOptions, SimFs};

use crate::support::{dir, open, segment_path};

const GOLDEN_ID: LogId = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

fn fixture() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "v1.seg"].iter().collect()
}

fn golden_frames() -> Vec<Frame> {
    let header = FrameHeader {
        base_offset: 0,
        count: 2,
        time_ms: 1_731_657_600_123,
        options: 0x0102_0304,
        rules_version: 7,
        running_hash: std::array::from_fn(|i| u8::try_from(i).expect("small") + 0x40),
    };
    let second = FrameHeader { base_offset: 2, count: 1, time_ms: -1, running_hash: [0xff; 32], ..header };
    vec![
        Frame { header, payload: b"first record|second record|".to_vec() },
        Frame { header: second, payload: (0..=255).cycle().take(4001).collect() },
    ]
}

fn golden_segment() -> Vec<u8> {
    let fs = SimFs::new(0);
    let options = SegmentOptions { segment_bytes: 5 * BLOCK as u64, created_by: "golden 1".into() };
    let (mut log, _) = SegmentLog::open(Arc::new(fs.clone()), dir(), options, GOLDEN_ID).expect("create");
    for frame in golden_frames() {
        append(&mut log, &frame).expect("append");
    }
    fs.bytes_of(&segment_path(0)).expect("read")
}

#[test]
fn todays_code_writes_the_committed_bytes() {
    let bytes = golden_segment();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        std::fs::write(fixture(), &bytes).expect("write the fixture");
    }
    let committed = std::fs::read(fixture()).expect("the fixture");
    let differing = bytes.iter().zip(&committed).position(|(new, old)| new != old);
    assert_eq!((bytes.len(), differing), (committed.len(), None));
}

#[test]
fn todays_code_reads_the_committed_bytes() {
    let fs = SimFs::new(0);
    fs.put(&segment_path(0), &std::fs::read(fixture()).expect("the fixture"));
    let (log, report) = open(&fs).expect("open");
    assert_eq!((report.end, report.torn_tail), (3, None));
    assert_eq!(holdfast_log::Log::log_id(&log), GOLDEN_ID);
    assert_eq!(read_all(&log, 0), golden_frames());
}

/// The table of docs/log-format.md, field by field, independent of the code that writes it.
#[test]
fn the_fields_stand_where_the_document_says() {
    let bytes = std::fs::read(fixture()).expect("the fixture");
    let le =
        |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0_u64, |n, &b| n << 8 | u64::from(b));
    // Segment header.
    assert_eq!(&bytes[0..8], b"HOLDFSEG");
    assert_eq!((le(8, 2), le(10, 6)), (1, 0));
    assert_eq!(bytes[16..32], GOLDEN_ID.0);
    assert_eq!((le(32, 8), le(40, 8)), (0, 5 * 4096));
    assert_eq!(&bytes[48..57], b"golden 1\0");
    assert_eq!(le(4092, 4), u64::from(crc32c::crc32c(&bytes[..4092])));
    // First frame.
    let f = 4096;
    assert_eq!(&bytes[f..f + 4], b"HFfr");
    assert_eq!((le(f + 4, 2), le(f + 6, 2), le(f + 8, 8)), (1, 96, 0));
    assert_eq!((le(f + 16, 4), le(f + 20, 4)), (2, 27));
    assert_eq!((le(f + 24, 8), le(f + 32, 4), le(f + 36, 4)), (1_731_657_600_123, 0x0102_0304, 7));
    assert_eq!((bytes[f + 40], bytes[f + 71]), (0x40, 0x5f));
    assert!(bytes[f + 72..f + 88].iter().all(|&b| b == 0));
    let crc = |until: usize| u64::from(crc32c::crc32c(&[&GOLDEN_ID.0[..], &bytes[f..until]].concat()));
    assert_eq!(le(f + 88, 4), crc(f + 88));
    let whole = [&GOLDEN_ID.0[..], &bytes[f..f + 92], &bytes[f + 96..f + 96 + 27]].concat();
    assert_eq!(le(f + 92, 4), u64::from(crc32c::crc32c(&whole)));
    assert!(bytes[f + 96 + 27..2 * 4096].iter().all(|&b| b == 0));
    // The second frame is one byte too long for one block; the last block is free.
    assert_eq!(&bytes[2 * 4096..2 * 4096 + 4], b"HFfr");
    assert_eq!(le(2 * 4096 + 20, 4), 4001);
    assert!(bytes[4 * 4096..].iter().all(|&b| b == 0));
}
