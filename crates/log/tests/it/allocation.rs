//! Segments are allocated, not filled: what is written besides the frames, and what happens where a file system
//! cannot allocate.

use std::sync::Arc;

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{BLOCK, FileSystem, Log, LogError, RealFs, SegmentLog, SegmentOptions, SimFs};

use crate::support::{LOG_ID, filling, open_sized, segment_path};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What one append of `blocks` blocks gives to the medium: writes, bytes, syncs.
fn cost(fs: &SimFs, log: &mut SegmentLog, blocks: usize) -> (u64, u64, u64) {
    let before = fs.counters();
    append_samples(log, &[(1, filling(blocks))]);
    let after = fs.counters();
    (
        after.writes - before.writes,
        (after.bytes_written - before.bytes_written) / KIB,
        after.syncs - before.syncs,
    )
}

#[test]
fn a_new_segment_costs_its_header() {
    let fs = SimFs::new(1);
    open_sized(&fs, 64 * MIB).expect("create");
    assert_eq!(fs.counters().bytes_written, BLOCK as u64);
    assert_eq!(fs.open(&segment_path(0)).expect("open").len().expect("len"), 64 * MIB);
}

#[test]
fn small_frames_take_zeros_along_and_large_ones_do_not() {
    let fs = SimFs::new(1);
    let (mut log, _) = open_sized(&fs, 4 * MIB).expect("create");
    // Frame and zeros make 512 KiB; then the next 508 KiB are there.
    assert_eq!(cost(&fs, &mut log, 1), (2, 512, 1));
    for _ in 0..31 {
        assert_eq!(cost(&fs, &mut log, 4), (1, 16, 1));
    }
    assert_eq!(cost(&fs, &mut log, 3), (1, 12, 1), "to the last written block");
    assert_eq!(cost(&fs, &mut log, 16), (2, 512, 1), "64 KiB is small");
    assert_eq!(cost(&fs, &mut log, 17), (1, 68, 1), "more is not");
    assert_eq!(cost(&fs, &mut log, 256), (1, 1024, 1), "past the zeros");
    assert_eq!(cost(&fs, &mut log, 1), (2, 512, 1), "nothing is known to be written behind a large frame");
    drop(log);
    let (mut log, _) = open_sized(&fs, 4 * MIB).expect("open");
    assert_eq!(cost(&fs, &mut log, 1), (2, 512, 1), "nor after a restart");
}

#[test]
fn zeros_end_where_the_segment_ends() {
    let fs = SimFs::new(1);
    let (mut log, _) = open_sized(&fs, 40 * KIB).expect("create");
    assert_eq!(cost(&fs, &mut log, 2), (2, 36, 1));
    assert_eq!(cost(&fs, &mut log, 7), (1, 28, 1));
    assert_eq!(fs.bytes_of(&segment_path(0)).expect("read").len() as u64, 40 * KIB);
    drop(log);
    let (fs, reopened) = (fs.clone(), open_sized(&fs, 40 * KIB));
    let (mut log, _) = reopened.expect("open");
    // One block in a segment of its own: no zeros behind the last block.
    append_samples(&mut log, &[(1, filling(8))]);
    assert_eq!(cost(&fs, &mut log, 1), (1, 4, 1));
}

/// A segment has its room before it has its name: a full disk stops the log between segments, never in one.
#[test]
fn a_full_disk_is_met_when_a_segment_is_made() {
    let fs = SimFs::new(1);
    let (mut log, _) = open_sized(&fs, 40 * KIB).expect("create");
    fs.set_capacity(Some(40 * KIB));
    let frames = append_samples(&mut log, &[(1, filling(2)), (1, filling(3)), (1, filling(4))]);
    let error = append(&mut log, &sample_frame(3, 1, 10)).expect_err("there is no room for another segment");
    assert!(matches!(error, LogError::Io { .. }), "{error}");
    assert!(matches!(append(&mut log, &sample_frame(3, 1, 10)), Err(LogError::Stopped { .. })));
    drop(log);
    fs.set_capacity(None);
    assert_eq!(read_all(&open_sized(&fs, 40 * KIB).expect("open").0, 0), frames);
}

#[test]
fn where_nothing_can_be_allocated_zeros_are_written() {
    let fs = SimFs::new(1);
    fs.refuse_allocations();
    let open = || open_sized(&fs, 10 * MIB).expect("open");
    let (mut log, _) = open();
    assert_eq!(fs.counters().bytes_written, 10 * MIB + BLOCK as u64);
    let mut frames = append_samples(&mut log, &[(1, filling(2_000)); 2]);
    // The second segment was filled by this process: it knows.
    assert_eq!(cost(&fs, &mut log, 1), (1, 4, 1));
    frames = [frames, vec![sample_frame(2, 1, filling(1))]].concat();
    assert!(log.spare_preparer().prepare_if_wanted().expect("a spare likewise"));
    drop(log);
    let (log, report) = open();
    assert_eq!((report.segments, report.torn_tail), (2, None));
    assert_eq!(read_all(&log, 0), frames);
}

/// Frames of a size that is no multiple of anything, past the cache, from a buffer that grew and was used before.
#[test]
fn real_files_take_frames_past_the_cache() {
    let temporary = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("tempdir");
    let options = SegmentOptions { segment_bytes: MIB, created_by: "test".into() };
    let open =
        || SegmentLog::open(Arc::new(RealFs), temporary.path(), options.clone(), LOG_ID).expect("open");
    let (mut log, _) = open();
    let reader = log.reader();
    let mut follower = reader.read_from(0).expect("read_from");
    let mut buf = holdfast_log::FrameBuf::new();
    let mut frames = Vec::new();
    for payload in (0..60).map(|i| (i * i * 977) % 300_000) {
        let frame = sample_frame(log.end(), 1, payload);
        buf.clear();
        frame.payload.chunks(1_000).for_each(|piece| buf.push(piece));
        log.append(&mut buf, &frame.header).expect("append");
        assert_eq!(follower.next_frame().expect("read"), Some(frame.clone()));
        frames.push(frame);
    }
    append(&mut log, &sample_frame(60, 1, 10)).expect("append");
    drop(log);
    let (log, report) = open();
    assert_eq!((report.frames, report.torn_tail), (61, None));
    assert_eq!(read_all(&log, 0)[..60], frames);
}
