//! What every log must do, as functions over the trait. Each backend runs all of [`SUITE`].

use std::sync::mpsc;
use std::time::Duration;

use crate::{Frame, FrameBuf, FrameHeader, Log, LogError};

/// Opens one log again and again. The first call finds nothing and creates it.
pub trait Backend {
    /// Opens the log; the one opened before has been dropped.
    fn open(&self) -> Box<dyn Log>;
}

/// A promise and the function that checks it on a fresh backend.
pub type Promise = (&'static str, fn(&dyn Backend));

/// All promises.
pub const SUITE: &[Promise] = &[
    ("what is appended is read back", appended_is_read_back),
    ("reading starts at any offset", reading_starts_at_any_offset),
    ("a reader goes on after the end", reader_goes_on_after_the_end),
    ("a wrong frame is refused and changes nothing", wrong_frame_is_refused),
    ("reopening sees the same", reopening_sees_the_same),
    ("many frames of many sizes survive", many_frames_of_many_sizes),
    ("the tail wakes a follower", tail_wakes_a_follower),
    ("closing wakes a follower", closing_wakes_a_follower),
];

/// Runs the whole suite, each promise on its own backend.
pub fn run_all<B: Backend>(new_backend: impl Fn() -> B) {
    for (name, promise) in SUITE {
        eprintln!("conformance: {name}");
        promise(&new_backend());
    }
}

/// Long enough for any machine; reached only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The frame that test logs hold at `base`: everything in it follows from offset, count and size.
pub fn sample_frame(base: u64, count: u32, payload_len: usize) -> Frame {
    let mut x = base.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()[3]
    };
    let payload: Vec<u8> = (0..payload_len).map(|_| byte()).collect();
    let header = FrameHeader {
        base_offset: base,
        count,
        time_ms: 1_700_000_000_000_i64.saturating_add_unsigned(base),
        options: u32::from(byte()),
        rules_version: 1,
        running_hash: [byte(); 32],
    };
    Frame { header, payload }
}

/// Appends `frame` to `log`.
pub fn append(log: &mut dyn Log, frame: &Frame) -> Result<(), LogError> {
    let mut buf = FrameBuf::with_capacity(frame.payload.len());
    buf.push(&frame.payload);
    log.append(&mut buf, &frame.header)
}

/// Appends sample frames of these (record count, payload length), and returns them.
pub fn append_samples(log: &mut dyn Log, shapes: &[(u32, usize)]) -> Vec<Frame> {
    let one = |&(count, len): &(u32, usize)| {
        let frame = sample_frame(log.end(), count, len);
        append(log, &frame).expect("append");
        frame
    };
    shapes.iter().map(one).collect()
}

/// Everything from an offset on.
pub fn read_all(log: &dyn Log, offset: u64) -> Vec<Frame> {
    log.read_from(offset).expect("read_from").collect::<Result<_, _>>().expect("read")
}

fn appended_is_read_back(backend: &dyn Backend) {
    let mut log = backend.open();
    assert_eq!((log.start(), log.end()), (0, 0));
    assert_eq!(read_all(&*log, 0), []);
    let frames = append_samples(&mut *log, &[(1, 10), (3, 4000), (1, 0), (7, 4001), (2, 100_000)]);
    assert_eq!(log.end(), 14);
    assert_eq!(log.tail().durable_end(), 14);
    assert_eq!(read_all(&*log, 0), frames);
}

fn reading_starts_at_any_offset(backend: &dyn Backend) {
    let mut log = backend.open();
    let shapes: Vec<_> = (0..60).map(|i| (1 + i % 5, 200 + 997 * i as usize)).collect();
    let frames = append_samples(&mut *log, &shapes);
    for offset in 0..=log.end() + 2 {
        let wanted: Vec<_> = frames.iter().filter(|f| f.header.end_offset() > offset).cloned().collect();
        assert_eq!(read_all(&*log, offset), wanted, "from offset {offset}");
    }
}

fn reader_goes_on_after_the_end(backend: &dyn Backend) {
    let mut log = backend.open();
    let mut early = log.read_from(0).expect("read_from");
    let mut ahead = log.read_from(6).expect("read_from");
    assert!(early.next_frame().expect("read").is_none());
    for round in 0..40 {
        let frame = append_samples(&mut *log, &[(2, 3000 * round)]).remove(0);
        assert_eq!(early.next_frame().expect("read"), Some(frame.clone()));
        assert_eq!(early.next_frame().expect("read"), None);
        let seen = ahead.next_frame().expect("read");
        assert_eq!(seen, (frame.header.end_offset() > 6).then_some(frame));
    }
}

fn wrong_frame_is_refused(backend: &dyn Backend) {
    let mut log = backend.open();
    let frames = append_samples(&mut *log, &[(3, 50)]);
    for base in [0, 2, 4, u64::MAX] {
        let error = append(&mut *log, &sample_frame(base, 1, 10)).expect_err("wrong offset");
        assert!(matches!(error, LogError::WrongOffset { expected: 3, found } if found == base), "{error}");
    }
    let error = append(&mut *log, &sample_frame(3, 0, 10)).expect_err("no records");
    assert!(matches!(error, LogError::BadCount { .. }), "{error}");
    let error = append(&mut *log, &sample_frame(3, 1, crate::FRAME_PAYLOAD_MAX + 1)).expect_err("too large");
    assert!(matches!(error, LogError::FrameTooLarge { .. }), "{error}");
    assert_eq!(log.end(), 3);
    assert_eq!(read_all(&*log, 0), frames);
    append_samples(&mut *log, &[(1, 1)]);
    assert_eq!(log.end(), 4);
}

fn reopening_sees_the_same(backend: &dyn Backend) {
    let mut frames = Vec::new();
    let mut id = None;
    for round in 1..6 {
        let mut log = backend.open();
        assert_eq!(*id.get_or_insert_with(|| log.log_id()), log.log_id());
        assert_eq!(read_all(&*log, 0), frames);
        assert_eq!(log.tail().durable_end(), log.end());
        frames.extend(append_samples(&mut *log, &[(round, 5000), (1, 9)]));
    }
    assert_eq!(read_all(&*backend.open(), 0), frames);
}

fn many_frames_of_many_sizes(backend: &dyn Backend) {
    let shapes: Vec<_> = (0..200_u32).map(|i| (1 + i % 3, (i as usize * 7919) % 30_000)).collect();
    let mut log = backend.open();
    let frames = append_samples(&mut *log, &shapes);
    assert_eq!(read_all(&*log, 0), frames);
    drop(log);
    assert_eq!(read_all(&*backend.open(), 0), frames);
}

fn tail_wakes_a_follower(backend: &dyn Backend) {
    let mut log = backend.open();
    let (tail, reader) = (log.tail(), log.reader());
    assert_eq!(tail.wait_past(0, Duration::ZERO), None);
    let (seen, next) = mpsc::channel();
    let follower = std::thread::spawn(move || {
        let mut frames = reader.read_from(0).expect("read_from");
        let mut offset = 0;
        while tail.wait_past(offset, PATIENCE).is_some() {
            while let Some(frame) = frames.next_frame().expect("read") {
                offset = frame.header.end_offset();
                seen.send(frame).expect("send");
            }
        }
    });
    for i in 0..50 {
        let frame = append_samples(&mut *log, &[(1 + i % 2, 100)]).remove(0);
        assert_eq!(next.recv_timeout(PATIENCE).expect("the follower was not woken"), frame);
    }
    drop(log);
    follower.join().expect("the follower ends with the log");
}

fn closing_wakes_a_follower(backend: &dyn Backend) {
    let log = backend.open();
    let tail = log.tail();
    let (ready, wait) = mpsc::channel();
    let follower = std::thread::spawn(move || {
        ready.send(()).expect("send");
        // Far beyond PATIENCE: only the close can end this in time.
        tail.wait_past(1_000, PATIENCE * 60)
    });
    wait.recv().expect("the follower runs");
    drop(log);
    assert_eq!(follower.join().expect("join"), None);
}
