//! Spare segments: made ahead, taken at rotation, replaced, never in the way.

use std::sync::Arc;

use holdfast_log::conformance::{append_samples, read_all};
use holdfast_log::{FileSystem, Log, RealFs, SegmentLog, SimFs};

use crate::support::{LOG_ID, SMALL_SEGMENT, dir, open, options, segment_path};

#[test]
fn a_ready_spare_saves_the_appender_a_sync() {
    let rotation_syncs = |spare: bool| {
        let fs = SimFs::new(1);
        let (mut log, _) = open(&fs).expect("create");
        append_samples(&mut log, &[(1, 28_000)]);
        if spare {
            assert!(log.spare_preparer().prepare_if_wanted().expect("prepare"));
            assert!(!log.spare_preparer().prepare_if_wanted().expect("one is enough"));
        }
        let before = fs.counters().syncs;
        append_samples(&mut log, &[(1, 10)]);
        let syncs = fs.counters().syncs - before;
        assert_eq!(fs.bytes_of(&segment_path(1)).expect("read").len() as u64, SMALL_SEGMENT);
        assert!(log.spare_preparer().prepare_if_wanted().expect("prepare"), "another is wanted");
        syncs
    };
    // The header and the name; the end mark and its name; the frame.
    assert_eq!(rotation_syncs(true), 5);
    assert_eq!(rotation_syncs(false), 6);
}

#[test]
fn a_spare_too_small_for_a_large_frame_is_kept_for_later() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    assert!(log.spare_preparer().prepare_if_wanted().expect("prepare"));
    let frames = append_samples(&mut log, &[(1, 100_000)]);
    assert!(!log.spare_preparer().prepare_if_wanted().expect("the spare is still there"));
    let before = fs.counters().syncs;
    append_samples(&mut log, &[(1, 10)]);
    assert_eq!(fs.counters().syncs - before, 5);
    assert_eq!(read_all(&log, 0)[..1], frames);
}

#[test]
fn a_leftover_spare_is_removed_at_open() {
    let fs = SimFs::new(1);
    let (log, _) = open(&fs).expect("create");
    log.spare_preparer().prepare_if_wanted().expect("prepare");
    drop(log);
    fs.put(&dir().join("next.tmp"), b"half");
    assert_eq!(fs.list(dir()).expect("list").len(), 3);
    let (_log, report) = open(&fs).expect("open");
    assert_eq!(report.segments, 1);
    assert_eq!(fs.list(dir()).expect("list"), ["00000000000000000000.seg"]);
}

#[test]
fn a_failed_spare_does_not_stop_the_log() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    fs.fail_next_sync();
    log.spare_preparer().prepare_if_wanted().expect_err("the sync failed");
    assert!(!log.spare_preparer().prepare_if_wanted().expect("not tried again before it is needed"));
    let frames = append_samples(&mut log, &[(1, 28_000), (1, 28_000)]);
    assert!(log.spare_preparer().prepare_if_wanted().expect("the half-made one is not in the way"));
    drop(log);
    assert_eq!(read_all(&open(&fs.crash(1)).expect("open").0, 0), frames);
}

#[test]
fn the_background_thread_follows_many_rotations_and_ends_with_the_log() {
    let temporary = tempfile::tempdir().expect("tempdir");
    let open = || SegmentLog::open(Arc::new(RealFs), temporary.path(), options(), LOG_ID).expect("open");
    let (mut log, _) = open();
    let preparer = log.spare_preparer();
    let thread = std::thread::spawn(move || preparer.run());
    let frames = append_samples(&mut log, &[(1, 28_000); 30]);
    assert_eq!(read_all(&log, 0), frames);
    drop(log);
    thread.join().expect("run returns");
    let (log, report) = open();
    assert_eq!((report.segments, report.frames), (30, 30));
    assert_eq!(read_all(&log, 0), frames);
    assert_eq!(log.end(), 30);
}
