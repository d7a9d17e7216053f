//! The newest part of a log that is gone is missed: the end mark is a second witness.

use holdfast_log::{FileSystem, Log, LogError, SegmentReader};
use std::sync::Arc;

use holdfast_log::conformance::append_samples;

use crate::support::{dir, open, segment_path, written};

#[test]
fn a_missing_last_segment_is_refused() {
    let (fs, _) = written(&[(1, 12_000), (1, 12_000), (1, 12_000)]);
    let names = fs.list(dir()).expect("list");
    assert!(names.len() > 2, "several segments: {names:?}");
    let last = names.iter().filter(|name| name.ends_with(".seg")).max().expect("a segment");
    // A segment that was only just begun holds nothing that was acknowledged: take the one before it, too.
    fs.remove(&dir().join(last)).expect("remove");
    let before =
        names.iter().filter(|name| name.ends_with(".seg") && *name != last).max().expect("a segment");
    fs.remove(&dir().join(before)).expect("remove");
    let error = open(&fs).err().expect("refused");
    assert!(matches!(error, LogError::Shortened { .. }), "{error}");
    let reader = SegmentReader::open(Arc::new(fs), dir()).expect("open");
    assert!(matches!(reader.check(), Err(LogError::Shortened { .. })));
}

#[test]
fn rot_in_the_last_frame_after_a_clean_end_is_refused() {
    let fs = holdfast_log::SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[(1, 500), (1, 500)]);
    log.mark_end().expect("mark");
    drop(log);
    fs.flip_byte(&segment_path(0), 2 * 4096 + 200, 1);
    let error = open(&fs).err().expect("refused");
    assert!(matches!(error, LogError::Shortened { end: 1, reached: 2, .. }), "{error}");
}

#[test]
fn without_a_clean_end_the_same_rot_is_a_torn_tail() {
    let fs = holdfast_log::SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[(1, 500), (1, 500)]);
    drop(log);
    fs.flip_byte(&segment_path(0), 2 * 4096 + 200, 1);
    let (_, report) = open(&fs).expect("nobody can tell");
    assert!(report.torn_tail.is_some());
}

#[test]
fn a_mark_that_cannot_be_read_says_nothing() {
    let fs = holdfast_log::SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    append_samples(&mut log, &[(1, 500)]);
    log.mark_end().expect("mark");
    drop(log);
    fs.flip_byte(&dir().join("end.mark"), 25, 0xff);
    open(&fs).expect("the segments are the log");
}
