//! Power is lost at every single sync of a workload, with many fates for what was in flight. What was
//! acknowledged is there; at most the one frame in flight comes on top; the log goes on; and all of that holds
//! when power is lost a second time while recovering or going on.

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{Frame, Log, LogError, OpenReport, SegmentLog, SegmentOptions, SimFs};

use crate::support::{LOG_ID, SMALL_SEGMENT, dir, open_sized, options};

/// What is appended, and to segments of which size.
#[derive(Clone, Copy)]
struct Workload {
    shapes: &'static [(u32, usize)],
    segment_bytes: u64,
    /// The preparer runs between appends.
    spares: bool,
    /// Fates per moment.
    seeds: u64,
}

/// Small segments: a rotation every few frames.
const ROTATING: Workload = Workload {
    shapes: &[
        (1, 10),
        (3, 9000),
        (1, 12_000),
        (2, 28_000),
        (1, 1),
        (5, 70_000),
        (1, 20_000),
        (1, 4000),
        (1, 4001),
    ],
    segment_bytes: SMALL_SEGMENT,
    spares: false,
    seeds: 12,
};

/// Small frames, which write zeros ahead, and large ones, which do not, in turns.
const MIXED: Workload = Workload {
    shapes: &[
        (1, 10),
        (2, 300_000),
        (1, 60_000),
        (1, 65_440),
        (1, 65_441),
        (3, 600_000),
        (1, 10),
        (1, 100_000),
        (1, 10),
        (1, 400_000),
        (1, 5_000),
    ],
    segment_bytes: 1024 * 1024,
    spares: false,
    seeds: 8,
};

impl Workload {
    fn open(&self, fs: &SimFs) -> Result<(SegmentLog, OpenReport), LogError> {
        open_sized(fs, self.segment_bytes)
    }

    fn open_from(&self, fs: &SimFs, from: u64) -> Result<(SegmentLog, OpenReport), LogError> {
        let options = SegmentOptions { segment_bytes: self.segment_bytes, ..options() };
        SegmentLog::open_from(fs.shared(), dir(), options, LOG_ID, Some(from))
    }
}

/// What a run promised before the power went.
struct Outcome {
    acknowledged: Vec<Frame>,
    in_flight: Option<Frame>,
}

/// Runs the workload until it is done or the power goes.
fn run(fs: &SimFs, work: &Workload) -> Outcome {
    let mut outcome = Outcome { acknowledged: Vec::new(), in_flight: None };
    let Ok((mut log, _)) = work.open(fs) else { return outcome };
    for &(count, len) in work.shapes {
        if work.spares {
            // A failed spare must not matter.
            let _ = log.spare_preparer().prepare_if_wanted();
        }
        let frame = sample_frame(log.end(), count, len);
        match append(&mut log, &frame) {
            Ok(()) => outcome.acknowledged.push(frame),
            Err(_) => {
                outcome.in_flight = Some(frame);
                break;
            }
        }
    }
    outcome
}

/// Everything acknowledged, byte for byte, and at most the frame in flight after it.
fn assert_kept(found: &[Frame], outcome: &Outcome, when: &str) {
    let (kept, more) = found.split_at_checked(outcome.acknowledged.len()).unwrap_or((found, &[]));
    assert_eq!(kept, outcome.acknowledged, "acknowledged frames are lost: {when}");
    assert!(more.is_empty() || more == outcome.in_flight.as_slice(), "{when}: a frame nobody wrote");
}

fn crash_everywhere(work: &Workload) {
    let whole = SimFs::new(0);
    assert_eq!(run(&whole, work).acknowledged.len(), work.shapes.len());
    let syncs = whole.counters().syncs;
    assert!(syncs > 20, "the workload must rotate, it has {syncs} syncs");
    let (mut kept_in_flight, mut torn) = (0, 0);
    for n in 1..=syncs {
        let fs = SimFs::new(n);
        fs.freeze_at_sync(n);
        let outcome = run(&fs, work);
        assert!(fs.is_frozen());
        for seed in 0..work.seeds {
            let when = format!("sync {n}, seed {seed}");
            let survivor = fs.crash(seed);
            second_crash(work, &survivor, &outcome, seed, &when);
            let reached = outcome.acknowledged.last().map_or(0, |frame| frame.header.end_offset());
            let (log, report) =
                work.open_from(&survivor.crash(seed), reached).unwrap_or_else(|e| panic!("{when}: {e}"));
            assert_kept(&read_all(&log, 0), &outcome, &when);
            assert!(report.end >= reached, "{when}");
            let (mut log, report) = work.open(&survivor).unwrap_or_else(|e| panic!("{when}: {e}"));
            let mut found = read_all(&log, 0);
            assert_kept(&found, &outcome, &when);
            kept_in_flight += found.len() - outcome.acknowledged.len();
            torn += usize::from(report.torn_tail.is_some());
            // On it goes, and a second loss of power takes nothing.
            found.extend(append_samples(&mut log, &[(1, 30_000), (2, 10)]));
            assert_eq!(read_all(&log, 0), found, "{when}");
            let (log, report) =
                work.open(&survivor.crash(seed)).unwrap_or_else(|e| panic!("{when}, second: {e}"));
            assert_eq!(read_all(&log, 0), found, "{when}, second crash");
            assert_eq!(report.torn_tail, None, "{when}, second crash");
        }
    }
    // The model must reach the interesting cases, or this test proves nothing.
    assert!(kept_in_flight > 5, "no unacknowledged frame survived: {kept_in_flight}");
    assert!(torn > 20, "hardly a torn tail: {torn}");
}

/// The power goes again at each sync of the recovery itself and of the first append after it.
fn second_crash(work: &Workload, survivor: &SimFs, outcome: &Outcome, seed: u64, when: &str) {
    for n in 1.. {
        let fs = survivor.crash(seed);
        fs.freeze_at_sync(n);
        let mut wanted =
            Outcome { acknowledged: outcome.acknowledged.clone(), in_flight: outcome.in_flight.clone() };
        if let Ok((mut log, _)) = work.open(&fs) {
            wanted.acknowledged = read_all_frozen(&log).unwrap_or_else(|| wanted.acknowledged.clone());
            assert_kept(&wanted.acknowledged, outcome, when);
            let frame = sample_frame(log.end(), 1, 30_000);
            let done = append(&mut log, &frame).is_ok();
            wanted.in_flight = None;
            if done { wanted.acknowledged.push(frame) } else { wanted.in_flight = Some(frame) }
        }
        let frozen = fs.is_frozen();
        let (log, _) =
            work.open(&fs.crash(seed + n)).unwrap_or_else(|e| panic!("{when}, then sync {n}: {e}"));
        assert_kept(&read_all(&log, 0), &wanted, &format!("{when}, then sync {n}"));
        if !frozen {
            return;
        }
    }
}

fn read_all_frozen(log: &dyn Log) -> Option<Vec<Frame>> {
    log.read_from(0).ok()?.collect::<Result<_, _>>().ok()
}

#[test]
fn without_spares() {
    crash_everywhere(&ROTATING);
}

#[test]
fn with_spares() {
    crash_everywhere(&Workload { spares: true, ..ROTATING });
}

#[test]
fn with_small_and_large_frames_mixed() {
    crash_everywhere(&MIXED);
}

/// The same run and the same seeds give the same bytes.
#[test]
fn the_simulation_is_deterministic() {
    let bytes = || {
        let fs = SimFs::new(7);
        fs.freeze_at_sync(17);
        run(&fs, &Workload { spares: true, ..ROTATING });
        crate::support::snapshot(&fs.crash(3))
    };
    let first = bytes();
    assert!(!first.is_empty());
    assert_eq!(first, bytes());
}
