//! After a failed write or sync the log stops for good, and a restart trusts only the medium.

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{FileSystem, Log, LogError, SimFs};

use crate::support::{dir, open};

#[test]
fn every_later_append_names_the_first_cause() {
    for (fail, verb) in [(SimFs::fail_next_sync as fn(&SimFs), "sync"), (SimFs::fail_next_write, "write")] {
        let fs = SimFs::new(1);
        let (mut log, _) = open(&fs).expect("create");
        let frames = append_samples(&mut log, &[(2, 10)]);
        let tail = log.tail();
        fail(&fs);
        let error = append(&mut log, &sample_frame(2, 1, 10)).expect_err("the medium failed");
        assert!(matches!(error, LogError::Io { op, .. } if op == verb), "{error}");
        let syncs = fs.counters().syncs;
        for _ in 0..3 {
            match append(&mut log, &sample_frame(2, 1, 10)) {
                Err(LogError::Stopped { cause }) => {
                    assert!(cause.contains(verb) && cause.contains(".seg") && cause.contains("simulated"));
                }
                other => panic!("not stopped: {other:?}"),
            }
        }
        assert_eq!(fs.counters().syncs, syncs, "a sync was tried again");
        assert!(tail.is_closed());
        assert_eq!((log.end(), tail.durable_end()), (2, 2));
        assert_eq!(read_all(&log, 0), frames, "what is durable can still be read");
    }
}

/// The kernel drops the dirty pages of a failed sync but keeps showing them. A restart that believed them would
/// build on a frame the disk does not have, and lose everything after it at the next loss of power.
#[test]
fn a_restart_does_not_believe_the_cache() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    let mut frames = append_samples(&mut log, &[(1, 10)]);
    fs.fail_next_sync();
    append(&mut log, &sample_frame(1, 1, 9000)).expect_err("the sync failed");
    drop(log);
    let (mut log, report) = open(&fs).expect("restart");
    assert_eq!((report.end, report.torn_tail), (1, None));
    frames.extend(append_samples(&mut log, &[(1, 20), (1, 30)]));
    let (log, _) = open(&fs.crash(5)).expect("after the loss of power");
    assert_eq!(read_all(&log, 0), frames);
}

/// kill -9: the cache has the frame, the medium not yet. A restart may keep it, but whoever sees it must not lose
/// it again.
#[test]
fn a_frame_kept_at_restart_is_durable_before_anyone_sees_it() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    fs.freeze_at_sync(1);
    append(&mut log, &sample_frame(0, 1, 9000)).expect_err("frozen");
    drop(log);
    fs.freeze_at_sync(u64::MAX);
    let (_log, report) = open(&fs).expect("restart");
    assert_eq!(report.end, 1, "the cache had all of it");
    for seed in 0..20 {
        assert_eq!(open(&fs.crash(seed)).expect("open").1.end, 1, "seed {seed}");
    }
}

/// The same with a rotation in flight: the new segment's name must be durable before it is built upon.
#[test]
fn a_restart_makes_durable_what_it_keeps() {
    for freeze in 1..=4 {
        let fs = SimFs::new(1);
        let (mut log, _) = open(&fs).expect("create");
        append_samples(&mut log, &[(1, 20_000)]);
        // The process dies while the next append, which rotates, is at one of its syncs.
        fs.freeze_at_sync(freeze);
        append(&mut log, &sample_frame(1, 1, 20_000)).expect_err("frozen");
        drop(log);
        fs.freeze_at_sync(u64::MAX);
        let (mut log, report) = open(&fs).expect("restart");
        assert!(report.end == 1 || report.end == 2);
        append_samples(&mut log, &[(1, 30)]);
        let frames = read_all(&log, 0);
        for seed in 0..20 {
            let survivor = fs.crash(seed);
            let (log, _) = open(&survivor).expect("after the loss of power");
            assert_eq!(read_all(&log, 0), frames, "freeze {freeze}, seed {seed}");
        }
    }
}

#[test]
fn a_failure_during_rotation_stops_too() {
    for nth in 1..=3 {
        let fs = SimFs::new(1);
        let (mut log, _) = open(&fs).expect("create");
        let frames = append_samples(&mut log, &[(1, 28_000)]);
        // Zeros, header, directory: the nth sync fails.
        fs.freeze_at_sync(nth);
        append(&mut log, &sample_frame(1, 1, 10)).expect_err("frozen");
        assert!(matches!(append(&mut log, &sample_frame(1, 1, 10)), Err(LogError::Stopped { .. })));
        drop(log);
        for seed in 0..10 {
            let survivor = fs.crash(seed);
            let (log, report) = open(&survivor).expect("open");
            assert_eq!((report.end, report.torn_tail), (1, None));
            assert_eq!(read_all(&log, 0), frames);
            let names = survivor.list(dir()).expect("list");
            assert!(names.iter().all(|name| name.ends_with(".seg")), "leftovers: {names:?}");
        }
    }
}

#[test]
fn a_failed_sync_at_open_refuses_to_open() {
    let (fs, _) = crate::support::written(&[(1, 10)]);
    fs.fail_next_sync();
    assert!(matches!(open(&fs), Err(LogError::Io { op: "sync", .. })));
}
