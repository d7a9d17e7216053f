//! Segments: when they begin, how large they are, and that there is one writer.

use std::sync::Arc;

use holdfast_log::conformance::{append_samples, read_all};
use holdfast_log::{BLOCK, FileSystem, Log, LogError, RealFs, SegmentLog, SimFs};

use crate::support::{
    LOG_ID, SMALL_SEGMENT, dir, filling, open, open_sized, options, segment_path, snapshot, written,
};

#[test]
fn a_segment_is_filled_to_its_last_block_before_the_next_begins() {
    let (fs, _) = written(&[(1, filling(3)), (1, filling(4))]);
    assert_eq!(fs.list(dir()).expect("list"), ["00000000000000000000.seg"]);
    let (fs, frames) = written(&[(1, filling(3)), (5, filling(4)), (1, 1)]);
    assert_eq!(
        fs.list(dir()).expect("list"),
        ["00000000000000000000.seg", "00000000000000000006.seg", "end.mark"]
    );
    let (log, report) = open(&fs).expect("open");
    assert_eq!((report.segments, report.frames, report.end), (2, 3, 7));
    assert_eq!(read_all(&log, 0), frames);
}

#[test]
fn a_frame_that_does_not_fit_the_rest_goes_whole_into_the_next_segment() {
    let (fs, frames) = written(&[(1, filling(6)), (1, filling(1) + 1)]);
    assert!(fs.exists(&segment_path(1)).expect("exists"));
    assert_eq!(read_all(&open(&fs).expect("open").0, 0), frames);
}

#[test]
fn a_frame_larger_than_a_segment_gets_a_segment_of_its_own_size() {
    let large = 40 * BLOCK;
    let (fs, mut frames) = written(&[(1, 10), (1, large), (1, 10), (1, holdfast_log::FRAME_PAYLOAD_MAX)]);
    let size = fs.bytes_of(&segment_path(1)).expect("the large segment").len();
    assert_eq!(size, BLOCK + (large + 96).next_multiple_of(BLOCK));
    assert_eq!(fs.bytes_of(&segment_path(2)).expect("back to normal").len() as u64, SMALL_SEGMENT);
    let (mut log, report) = open(&fs).expect("open");
    assert_eq!((report.segments, report.torn_tail), (4, None));
    frames.extend(append_samples(&mut log, &[(1, 10)]));
    assert_eq!(read_all(&log, 0), frames);
}

#[test]
fn segments_keep_their_size_when_the_option_changes() {
    let (fs, mut frames) = written(&[(1, 10)]);
    let (mut log, _) = open_sized(&fs, 4 * SMALL_SEGMENT + 1).expect("open");
    frames.extend(append_samples(&mut log, &[(1, filling(6)), (1, filling(30))]));
    assert_eq!(fs.bytes_of(&segment_path(0)).expect("old").len() as u64, SMALL_SEGMENT);
    assert_eq!(fs.bytes_of(&segment_path(2)).expect("new").len() as u64, 4 * SMALL_SEGMENT + 4096);
    assert_eq!(read_all(&log, 0), frames);
}

#[test]
fn an_append_writes_once_and_syncs_once() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[(1, 10)]);
    let before = fs.counters();
    append_samples(&mut log, &[(1, 100), (1, 5000)]);
    let after = fs.counters();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 2));
    assert_eq!(after.bytes_written - before.bytes_written, 3 * BLOCK as u64);
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let temporary = tempfile::tempdir().expect("tempdir");
    let open = || SegmentLog::open(Arc::new(RealFs), temporary.path(), options(), LOG_ID);
    let first = open().expect("first");
    assert!(matches!(open(), Err(LogError::Locked { .. })));
    drop(first);
    open().expect("after the first is gone");
}

#[test]
fn old_segments_can_be_removed_and_the_rest_stays() {
    let (fs, frames) = written(&[(2, filling(7)), (2, filling(7)), (2, filling(7)), (2, 5)]);
    let (log, _) = open(&fs).expect("open");
    assert_eq!(log.retention().remove_before(3).expect("remove"), 1);
    assert_eq!(log.start(), 2);
    assert!(matches!(log.read_from(1), Err(LogError::BeforeStart { offset: 1, start: 2 })));
    assert_eq!(read_all(&log, 2), frames[1..]);
    assert_eq!(log.retention().remove_before(u64::MAX).expect("remove"), 2);
    drop(log);
    let survivor = fs.crash(3);
    let (log, report) = open(&survivor).expect("open");
    assert_eq!((report.start, report.end, report.segments), (6, 8, 1));
    assert_eq!(read_all(&log, 6), frames[3..]);
    assert_eq!(snapshot(&survivor).len(), 2, "one segment and the end mark");
}
