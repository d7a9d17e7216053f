//! Old segments go while the log is written and read.

use std::sync::Arc;
use std::time::Duration;

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{Log, LogError, RealFs, SegmentLog, SegmentReader, SimFs};

use crate::support::{LOG_ID, open, options, reader, segment_path};

/// Frames that fill a segment each.
const WHOLE: (u32, usize) = (1, 28_000);
/// Long enough for any machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_reader_that_stands_in_a_removed_segment_is_told() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    // Two frames per segment, of offsets 0, 2, 4 and 6.
    let frames = append_samples(&mut log, &[(1, 12_000); 7]);
    let mut inside = log.read_from(0).expect("read_from");
    let mut ahead = log.read_from(4).expect("read_from");
    let mut not_begun = log.read_from(1).expect("read_from");
    let mut outside = reader(&fs).expect("open").frames(0).expect("frames");
    assert_eq!(inside.next_frame().expect("read").as_ref(), Some(&frames[0]));
    assert_eq!(ahead.next_frame().expect("read").as_ref(), Some(&frames[4]));
    assert_eq!(outside.next_frame().expect("read").as_ref(), Some(&frames[0]));
    assert_eq!(log.retention().remove_before(5).expect("remove"), 2);
    assert!(matches!(inside.next_frame(), Err(LogError::BeforeStart { offset: 1, start: 4 })));
    assert!(matches!(not_begun.next_frame(), Err(LogError::BeforeStart { offset: 1, start: 4 })));
    assert!(matches!(log.read_from(3), Err(LogError::BeforeStart { offset: 3, start: 4 })));
    assert_eq!(ahead.next_frame().expect("read").as_ref(), Some(&frames[5]));
    // Without the writer's index: what is open can be read to its end, the next file is gone.
    assert_eq!(outside.next_frame().expect("read").as_ref(), Some(&frames[1]));
    assert!(matches!(outside.next_frame(), Err(LogError::BeforeStart { offset: 2, start: 4 })));
    assert_eq!(read_all(&log, 4), frames[4..]);
}

#[test]
fn the_last_segment_stays_and_offsets_go_on() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[WHOLE; 3]);
    let retention = log.retention();
    assert_eq!(retention.remove_before(0).expect("remove"), 0);
    assert_eq!(retention.remove_before(u64::MAX).expect("remove"), 2);
    assert_eq!(retention.remove_before(u64::MAX).expect("remove"), 0);
    assert_eq!((log.start(), log.end()), (2, 3));
    append_samples(&mut log, &[WHOLE]);
    assert_eq!(read_all(&log, 2).len(), 2);
}

/// Whatever moment the power goes at, what is left has no gap and nothing that should stay is gone.
#[test]
fn a_crash_in_the_middle_leaves_no_gap() {
    for n in 1..=5 {
        let fs = SimFs::new(n);
        let (mut log, _) = open(&fs).expect("create");
        let frames = append_samples(&mut log, &[WHOLE; 6]);
        fs.freeze_at_sync(n);
        let removed = log.retention().remove_before(4);
        assert_eq!(removed.is_err(), n <= 4);
        for seed in 0..20 {
            let (log, report) =
                open(&fs.crash(seed)).unwrap_or_else(|e| panic!("sync {n}, seed {seed}: {e}"));
            assert!(report.start <= 4 && report.start >= n - 1, "sync {n}, seed {seed}");
            let first = usize::try_from(report.start).expect("small");
            assert_eq!(read_all(&log, report.start), frames[first..]);
        }
    }
}

#[test]
fn a_failed_removal_stops_the_log_and_itself() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[WHOLE; 4]);
    let (retention, tail) = (log.retention(), log.tail());
    fs.fail_next_sync();
    assert!(matches!(retention.remove_before(2), Err(LogError::Io { op: "sync", .. })));
    assert!(matches!(retention.remove_before(3), Err(LogError::Stopped { .. })));
    assert!(matches!(append(&mut log, &sample_frame(4, 1, 10)), Err(LogError::Stopped { .. })));
    assert!(tail.is_closed());
    let segments = fs.paths().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "seg"));
    assert_eq!(segments.count(), 3, "the second was not touched");
}

/// Another process may have the directory by then.
#[test]
fn nothing_is_removed_after_the_log_was_closed() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[WHOLE; 3]);
    let retention = log.retention();
    drop(log);
    assert!(matches!(retention.remove_before(2), Err(LogError::Stopped { .. })));
    assert!(fs.bytes_of(&segment_path(0)).is_ok());
}

#[test]
fn threads_append_remove_and_read_on_real_files() {
    let temporary = tempfile::tempdir().expect("tempdir");
    let dir = temporary.path().to_owned();
    let (mut log, _) = SegmentLog::open(Arc::new(RealFs), &dir, options(), LOG_ID).expect("create");
    let (retention, tail) = (log.retention(), log.tail());
    let removing = std::thread::spawn(move || {
        let mut end = 0;
        while let Some(moved) = tail.wait_past(end, PATIENCE) {
            end = moved;
            match retention.remove_before(end.saturating_sub(3)) {
                // Closed between the question and the call.
                Ok(_) | Err(LogError::Stopped { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    let (shared, tail) = (log.reader(), log.tail());
    let reading = std::thread::spawn(move || {
        let mut at = 0;
        while tail.wait_past(at, PATIENCE).is_some() {
            let read = shared.read_from(at).and_then(|mut frames| {
                while let Some(frame) = frames.next_frame()? {
                    assert_eq!(frame, sample_frame(frame.header.base_offset, 1, WHOLE.1));
                    assert!(frame.header.base_offset >= at);
                    at = frame.header.end_offset();
                }
                Ok(())
            });
            match read {
                Ok(()) => {}
                Err(LogError::BeforeStart { start, .. }) => at = at.max(start),
                Err(error) => panic!("{error}"),
            }
        }
    });
    append_samples(&mut log, &[WHOLE; 120]);
    log.retention().remove_before(117).expect("remove");
    drop(log);
    removing.join().expect("no panic");
    reading.join().expect("no panic");
    let report = SegmentReader::open(Arc::new(RealFs), &dir).expect("open").check().expect("sound");
    assert_eq!((report.start, report.end), (117, 120));
}
