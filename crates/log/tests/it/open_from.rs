//! Opening from a checkpoint: the history is not read, the rest is as ever, and what was not read is checked when
//! somebody reads it.

use std::sync::Arc;

use holdfast_log::conformance::{append_samples, read_all};
use holdfast_log::{BLOCK, FileSystem, Frame, Log, LogError, OpenReport, SegmentLog, SegmentOptions, SimFs};

use crate::support::{LOG_ID, dir, open, open_from, options, segment_path, snapshot, written};

/// Segments of offset 0 (two frames), 5, 7 (three frames), 13 and 14.
fn five_segments() -> (SimFs, Vec<Frame>) {
    let shapes =
        [(3, 10_000), (2, 15_000), (2, 25_000), (1, 5), (1, 9_000), (4, 5_000), (1, 28_000), (2, 4_000)];
    let (fs, frames) = written(&shapes);
    let names = fs.list(dir()).expect("list");
    let segments = ["0", "5", "7", "13", "14"].map(|base| format!("{base:0>20}.seg"));
    assert_eq!(names[..5], segments);
    (fs, frames)
}

fn read(log: &SegmentLog, offset: u64) -> Result<Vec<Frame>, LogError> {
    log.read_from(offset)?.collect()
}

#[test]
fn every_offset_gives_what_a_whole_open_gives() {
    let (fs, frames) = five_segments();
    let bases = [0, 5, 7, 13, 14];
    let whole = open(&fs).expect("open").1;
    assert_eq!((whole.walked_from, whole.frames, whole.end), (0, 8, 16));
    for from in 0..=16 {
        let (log, report) = open_from(&fs.crash(from), from).expect("open");
        let walked_from = *bases.iter().rfind(|&&base| base <= from).expect("a segment");
        assert_eq!(report.walked_from, walked_from);
        let walked = frames.iter().filter(|frame| frame.header.base_offset >= walked_from).count() as u64;
        assert_eq!(report, OpenReport { walked_from, frames: walked, ..whole.clone() });
        assert_eq!((log.start(), log.end(), log.log_id()), (0, 16, LOG_ID));
        for offset in 0..=17 {
            let tail: Vec<_> = frames.iter().filter(|f| f.header.end_offset() > offset).cloned().collect();
            assert_eq!(read_all(&log, offset), tail, "opened from {from}, read from {offset}");
        }
    }
}

#[test]
fn the_log_goes_on_from_a_checkpoint() {
    let (fs, mut frames) = five_segments();
    let (mut log, _) = open_from(&fs, 14).expect("open");
    let mut follower = log.read_from(0).expect("read_from");
    frames.extend(append_samples(&mut log, &[(1, 10), (2, 28_000), (1, 10)]));
    for frame in &frames {
        assert_eq!(follower.next_frame().expect("read").as_ref(), Some(frame));
    }
    drop(log);
    assert_eq!(read_all(&open(&fs.crash(1)).expect("open").0, 0), frames);
}

/// Only the headers and frames from the checkpoint on are read: whatever stands before does not matter yet.
#[test]
fn damage_before_the_checkpoint_is_refused_when_it_is_read() {
    let block = BLOCK as u64;
    // Segment header, first frame, its last byte, second frame.
    let flips = [(5, 20), (0, 100), (0, block), (0, block + 5_000), (0, 4 * block), (7, block + 97)];
    for (base, position) in flips {
        let (fs, frames) = five_segments();
        fs.flip_byte(&segment_path(base), position, 4);
        let (log, _) = open_from(&fs, 14).expect("the damage is out of sight");
        match read(&log, 0) {
            Err(LogError::Corrupt { file, .. }) => assert_eq!(file, segment_path(base)),
            other => panic!("segment {base}, byte {position}: {other:?}"),
        }
        assert_eq!(read_all(&log, 13), frames[6..], "what stands after the damage can be read");
        drop(log);
        assert!(matches!(open(&fs), Err(LogError::Corrupt { .. })));
    }
}

#[test]
fn damage_after_the_checkpoint_is_refused_at_open() {
    let block = BLOCK as u64;
    for (base, position) in [(7, 20), (7, block), (7, 2 * block + 200), (13, block + 27_000), (14, 9)] {
        let (fs, _) = five_segments();
        fs.flip_byte(&segment_path(base), position, 4);
        let before = snapshot(&fs);
        for from in [7, 8, 12] {
            match open_from(&fs, from).err() {
                Some(LogError::Corrupt { file, .. }) => assert_eq!(file, segment_path(base)),
                other => panic!("segment {base}, byte {position}, from {from}: {other:?}"),
            }
        }
        assert_eq!(snapshot(&fs), before);
    }
}

#[test]
fn a_frame_that_was_zeroed_before_the_checkpoint_is_refused_when_it_is_read() {
    let (fs, _) = five_segments();
    let file = fs.open(&segment_path(7)).expect("open");
    file.write_at(&vec![0; 3 * BLOCK], 2 * BLOCK as u64).expect("write");
    let (log, _) = open_from(&fs, 14).expect("open");
    assert!(matches!(read(&log, 7), Err(LogError::Corrupt { offset: 8, .. })));
}

#[test]
fn a_gap_before_the_checkpoint_is_refused_when_it_is_read() {
    let (fs, frames) = five_segments();
    fs.remove(&segment_path(7)).expect("remove");
    let (log, report) = open_from(&fs, 14).expect("open");
    assert_eq!((report.start, report.segments), (0, 4));
    for offset in 5..13 {
        match read(&log, offset) {
            Err(LogError::Gap { offset: 7, next, .. }) => assert_eq!(next, segment_path(13)),
            other => panic!("from {offset}: {other:?}"),
        }
    }
    assert_eq!(read_all(&log, 13), frames[6..]);
    drop(log);
    // The checkpoint itself lies in the gap: the walk begins before it.
    assert!(matches!(open_from(&fs, 9), Err(LogError::Gap { offset: 7, .. })));
}

/// A segment that was copied from elsewhere, and one whose frames reach into the next.
#[test]
fn a_segment_that_does_not_belong_is_refused_when_it_is_read() {
    let (fs, _) = five_segments();
    let stranger = SimFs::new(2);
    let other_id = holdfast_log::LogId([9; 16]);
    let (mut log, _) =
        SegmentLog::open(Arc::new(stranger.clone()), dir(), options(), other_id).expect("create");
    append_samples(&mut log, &[(5, 28_000), (2, 10)]);
    drop(log);
    fs.put(&segment_path(5), &stranger.bytes_of(&segment_path(5)).expect("read"));
    let (log, _) = open_from(&fs, 14).expect("open");
    assert!(matches!(read(&log, 5), Err(LogError::ForeignSegment { .. })));
    drop(log);

    let (fs, _) = five_segments();
    let (longer, _) = written(&[(5, 28_000), (4, 28_000), (1, 10)]);
    fs.put(&segment_path(5), &longer.bytes_of(&segment_path(5)).expect("read"));
    let (log, _) = open_from(&fs, 14).expect("open");
    assert!(matches!(read(&log, 5), Err(LogError::Corrupt { offset: 5, .. })));
}

#[test]
fn a_log_that_ends_before_the_checkpoint_is_refused() {
    let (fs, _) = five_segments();
    let before = snapshot(&fs);
    for from in [17, 20, u64::MAX] {
        let error = open_from(&fs, from).err().expect("refused");
        assert!(matches!(error, LogError::Shortened { end: 16, reached, .. } if reached == from), "{error}");
    }
    assert_eq!(snapshot(&fs), before);
    open_from(&fs, 16).expect("the very end is fine");
    // The last frame rots: without the checkpoint that would be a torn tail.
    fs.flip_byte(&segment_path(14), BLOCK as u64 + 100, 1);
    let before = snapshot(&fs);
    assert!(matches!(open_from(&fs, 16), Err(LogError::Shortened { end: 14, reached: 16, .. })));
    assert_eq!(snapshot(&fs), before, "nothing was cut");
    assert!(open_from(&fs, 14).expect("open").1.torn_tail.is_some());
}

#[test]
fn an_empty_directory_is_a_new_log_only_for_a_checkpoint_at_its_beginning() {
    let fs = SimFs::new(1);
    assert!(matches!(open_from(&fs, 1), Err(LogError::Shortened { end: 0, reached: 1, .. })));
    assert_eq!(fs.list(dir()).expect("list"), Vec::<String>::new());
    assert_eq!(open_from(&fs, 0).expect("create").1.segments, 1);
}

#[test]
fn a_log_that_begins_after_the_checkpoint_is_refused() {
    let (fs, _) = five_segments();
    let (log, _) = open_from(&fs, 14).expect("open");
    assert_eq!(log.retention().remove_before(8).expect("segments nobody has read can go"), 2);
    drop(log);
    assert!(matches!(open_from(&fs, 6), Err(LogError::BeforeStart { offset: 6, start: 7 })));
    let (log, report) = open_from(&fs, 14).expect("open");
    assert_eq!((log.start(), report.start, report.walked_from), (7, 7, 14));
}

/// A large segment that nobody has walked: the first reader goes through it, the next start near their offset.
#[test]
fn a_reader_leaves_marks_for_the_next() {
    let fs = SimFs::new(1);
    let large = SegmentOptions { segment_bytes: 8 * 1024 * 1024, ..options() };
    let open =
        |from| SegmentLog::open_from(Arc::new(fs.clone()), dir(), large.clone(), LOG_ID, from).expect("open");
    let (mut log, _) = open(None);
    let frames = append_samples(&mut log, &[(1, 100_000); 90]);
    drop(log);
    let (log, report) = open(Some(90));
    assert_eq!((report.segments, report.walked_from), (2, 81));
    for round in 0..2 {
        for offset in [80, 0, 40, 79, 81] {
            let tail = usize::try_from(offset).expect("small");
            assert_eq!(read_all(&log, offset), frames[tail..], "round {round}");
        }
    }
    // Rot at the beginning, after everything was read once: whoever starts at a mark does not pass it again.
    fs.flip_byte(&segment_path(0), BLOCK as u64 + 200, 1);
    assert_eq!(read_all(&log, 78), frames[78..]);
    assert!(matches!(read(&log, 0), Err(LogError::Corrupt { offset: 0, .. })));
}
