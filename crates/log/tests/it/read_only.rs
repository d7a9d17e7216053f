//! Reading a directory that another process writes: never a change, never an error, every durable frame.

use std::sync::Arc;

use holdfast_log::conformance::{append_samples, sample_frame};
use holdfast_log::{BLOCK, FileSystem, Log, LogError, RealFs, SegmentLog, SegmentReader, SimFs};

use crate::support::{
    LOG_ID, dir, open, open_sized, options, read_only, reader, sealed, segment_path, snapshot, written,
};

#[test]
fn there_must_be_a_log() {
    let fs = SimFs::new(1);
    fs.create_dir_all(dir()).expect("create");
    assert!(matches!(reader(&fs), Err(LogError::NoLog { .. })));
    assert_eq!(fs.list(dir()).expect("list"), Vec::<String>::new());
}

#[test]
fn it_reads_from_every_offset_and_writes_nothing() {
    let (fs, frames) = written(&[(2, 28_000), (3, 10), (1, 9000), (2, 28_000)]);
    let (before, counters) = (snapshot(&fs), fs.counters());
    let reader = reader(&fs).expect("open");
    assert_eq!(reader.log_id(), LOG_ID);
    for offset in 0..10 {
        let found: Vec<_> = reader.frames(offset).expect("frames").collect::<Result<_, _>>().expect("read");
        let wanted: Vec<_> = frames.iter().filter(|f| f.header.end_offset() > offset).cloned().collect();
        assert_eq!(found, wanted, "from {offset}");
    }
    assert_eq!(reader.check().expect("check").frames, 4);
    assert_eq!((snapshot(&fs), fs.counters()), (before, counters));
}

#[test]
fn it_follows_a_running_writer_across_segments() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    let mut follower = reader(&fs).expect("open beside the writer").frames(0).expect("frames");
    for i in 0..40 {
        assert_eq!(follower.next_frame().expect("read"), None);
        let shapes = [(1 + i % 3, 700 * i as usize), (1, 10)];
        for frame in append_samples(&mut log, &shapes[..1 + (i % 2) as usize]) {
            assert_eq!(follower.next_frame().expect("read"), Some(frame));
        }
    }
}

/// The frame in the writing is the end; once it is whole it is read.
#[test]
fn a_half_written_frame_is_the_end_for_now() {
    let (fs, _) = written(&[(1, 10)]);
    let frame = sample_frame(1, 2, 9000);
    let bytes = sealed(&frame);
    let file = fs.open(&segment_path(0)).expect("open");
    let mut follower = reader(&fs).expect("open").frames(1).expect("frames");
    for written in [0, 50, 96, 4096, 9000] {
        file.write_at(&bytes[..written], 2 * BLOCK as u64).expect("write");
        assert_eq!(follower.next_frame().expect("not an error"), None);
        assert_eq!(read_only(&fs).expect("not an error").len(), 1);
    }
    file.write_at(&bytes, 2 * BLOCK as u64).expect("write");
    assert_eq!(follower.next_frame().expect("read"), Some(frame));
}

#[test]
fn a_thread_reads_along_on_real_files() {
    let temporary = tempfile::tempdir().expect("tempdir");
    let dir = temporary.path().to_owned();
    let (mut log, _) = SegmentLog::open(Arc::new(RealFs), &dir, options(), LOG_ID).expect("create");
    let tail = log.tail();
    let reading = std::thread::spawn(move || {
        let reader = SegmentReader::open(Arc::new(RealFs), &dir).expect("open");
        let mut last = 0;
        while !tail.is_closed() {
            let least = tail.durable_end();
            let report = reader.check().expect("a running log is never corrupt");
            assert!(report.end >= least.max(last));
            last = report.end;
        }
        last
    });
    let shapes: Vec<_> = (0..150_usize).map(|i| (1, (i * 7919) % 28_000)).collect();
    append_samples(&mut log, &shapes);
    drop(log);
    assert!(reading.join().expect("no panic") <= 150);
}

/// The reader has read half of a frame in the writing; before its next read the writer finishes that frame and
/// writes another. The half it holds now looks like damage that a sound frame follows.
#[test]
fn a_writer_that_goes_on_in_the_middle_of_a_read_is_not_damage() {
    let (first, second) = (sample_frame(0, 1, 80_000), sample_frame(1, 1, 100));
    for reads in 1..4 {
        let fs = SimFs::new(1);
        drop(open_sized(&fs, 256 * 1024).expect("create"));
        let file = fs.open(&segment_path(0)).expect("open");
        file.write_at(&sealed(&first)[..30_000], BLOCK as u64).expect("write");
        let (before, names) = (fs.counters(), fs.paths());
        let mut frames = reader(&fs).expect("open").frames(0).expect("frames");
        let (whole, next) = (sealed(&first), sealed(&second));
        fs.act_before_read(reads, move || {
            file.write_at(&whole, BLOCK as u64).expect("the first frame is finished");
            file.write_at(&next, 21 * BLOCK as u64).expect("the second follows");
        });
        let found: Vec<_> = (0..3).filter_map(|_| frames.next_frame().expect("not damage")).collect();
        assert_eq!(found, [first.clone(), second.clone()], "the writer acts before read {reads}");
        let after = fs.counters();
        assert_eq!((after.writes, after.syncs), (before.writes + 2, before.syncs), "a reader writes");
        assert_eq!(fs.paths(), names, "a reader changes names");
    }
}
