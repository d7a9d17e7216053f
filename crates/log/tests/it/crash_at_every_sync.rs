//! Power is lost at every single sync of a workload, with many fates for what was in flight. What was
//! acknowledged is there; at most the one frame in flight comes on top; the log goes on; and all of that holds
//! when power is lost a second time while recovering or going on.

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{Frame, Log, SimFs};

use crate::support::open;

const SHAPES: &[(u32, usize)] =
    &[(1, 10), (3, 9000), (1, 12_000), (2, 28_000), (1, 1), (5, 70_000), (1, 20_000), (1, 4000), (1, 4001)];
const SEEDS: u64 = 12;

/// What a run promised before the power went.
struct Outcome {
    acknowledged: Vec<Frame>,
    in_flight: Option<Frame>,
}

/// Runs the workload until it is done or the power goes. With `spares`, the preparer runs between appends.
fn run(fs: &SimFs, spares: bool) -> Outcome {
    let mut outcome = Outcome { acknowledged: Vec::new(), in_flight: None };
    let Ok((mut log, _)) = open(fs) else { return outcome };
    for &(count, len) in SHAPES {
        if spares {
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

fn crash_everywhere(spares: bool) {
    let whole = SimFs::new(0);
    assert_eq!(run(&whole, spares).acknowledged.len(), SHAPES.len());
    let syncs = whole.counters().syncs;
    assert!(syncs > 20, "the workload must rotate, it has {syncs} syncs");
    let (mut kept_in_flight, mut torn) = (0, 0);
    for n in 1..=syncs {
        let fs = SimFs::new(n);
        fs.freeze_at_sync(n);
        let outcome = run(&fs, spares);
        assert!(fs.is_frozen());
        for seed in 0..SEEDS {
            let when = format!("sync {n}, seed {seed}");
            let survivor = fs.crash(seed);
            second_crash(&survivor, &outcome, seed, &when);
            let (mut log, report) = open(&survivor).unwrap_or_else(|e| panic!("{when}: {e}"));
            let mut found = read_all(&log, 0);
            assert_kept(&found, &outcome, &when);
            kept_in_flight += found.len() - outcome.acknowledged.len();
            torn += usize::from(report.torn_tail.is_some());
            // On it goes, and a second loss of power takes nothing.
            found.extend(append_samples(&mut log, &[(1, 30_000), (2, 10)]));
            assert_eq!(read_all(&log, 0), found, "{when}");
            let (log, report) = open(&survivor.crash(seed)).unwrap_or_else(|e| panic!("{when}, second: {e}"));
            assert_eq!(read_all(&log, 0), found, "{when}, second crash");
            assert_eq!(report.torn_tail, None, "{when}, second crash");
        }
    }
    // The model must reach the interesting cases, or this test proves nothing.
    assert!(kept_in_flight > 5, "no unacknowledged frame survived: {kept_in_flight}");
    assert!(torn > 20, "hardly a torn tail: {torn}");
}

/// The power goes again at each sync of the recovery itself and of the first append after it.
fn second_crash(survivor: &SimFs, outcome: &Outcome, seed: u64, when: &str) {
    for n in 1.. {
        let fs = survivor.crash(seed);
        fs.freeze_at_sync(n);
        let mut wanted =
            Outcome { acknowledged: outcome.acknowledged.clone(), in_flight: outcome.in_flight.clone() };
        if let Ok((mut log, _)) = open(&fs) {
            wanted.acknowledged = read_all_frozen(&log).unwrap_or_else(|| wanted.acknowledged.clone());
            assert_kept(&wanted.acknowledged, outcome, when);
            let frame = sample_frame(log.end(), 1, 30_000);
            let done = append(&mut log, &frame).is_ok();
            wanted.in_flight = None;
            if done { wanted.acknowledged.push(frame) } else { wanted.in_flight = Some(frame) }
        }
        let frozen = fs.is_frozen();
        let (log, _) = open(&fs.crash(seed + n)).unwrap_or_else(|e| panic!("{when}, then sync {n}: {e}"));
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
    crash_everywhere(false);
}

#[test]
fn with_spares() {
    crash_everywhere(true);
}

/// The same run and the same seeds give the same bytes.
#[test]
fn the_simulation_is_deterministic() {
    let bytes = || {
        let fs = SimFs::new(7);
        fs.freeze_at_sync(17);
        run(&fs, true);
        crate::support::snapshot(&fs.crash(3))
    };
    let first = bytes();
    assert!(!first.is_empty());
    assert_eq!(first, bytes());
}
