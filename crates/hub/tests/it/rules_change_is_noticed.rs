//! A log that other rules decided, or that somebody changed, is not replayed into another state.

use std::path::Path;
use std::sync::Arc;

use holdfast_domain::records;
use holdfast_hub::limits::HubOptions;
use holdfast_hub::{OpenError, ReplayError, log_folder};
use holdfast_log::{FrameBuf, FrameHeader, Log, SegmentLog, SimFs};

use crate::support::{LOG_ID, PAYEE, PAYER, START, TestClock, open, prepare, small_segments};

/// Writes a frame past the hub, as a program with other ideas would.
fn append(fs: &SimFs, header: impl FnOnce(u64) -> FrameHeader, payload: &[u8]) {
    let folder = log_folder(Path::new("/data"));
    let (mut log, _) = SegmentLog::open(Arc::new(fs.clone()), &folder, small_segments(), LOG_ID).unwrap();
    let mut frame = FrameBuf::new();
    frame.push(payload);
    let header = header(log.end());
    log.append(&mut frame, &header).unwrap();
}

#[test]
fn another_running_hash_stops_the_replay_with_offset_and_versions() {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
    hub.open_for_business(1_000);
    let (right, end) = (hub.core().chain(), hub.core().end());
    drop(hub);
    let mut payload = Vec::new();
    records::write(&prepare(PAYER, PAYEE, 1, 1, START + 60_000), &mut payload);
    let mut wrong = right;
    wrong[0] ^= 1;
    let header = |base_offset| FrameHeader {
        base_offset,
        count: 1,
        time_ms: START,
        options: 0,
        rules_version: 99,
        running_hash: wrong,
    };
    append(&fs, header, &payload);
    let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
    assert!(
        matches!(error, OpenError::Replay(ReplayError::ChainBroken { offset, written: 99, before: 1 }) if offset == end),
        "{error}"
    );
    assert!(error.to_string().contains("its rules 1; the frame at 5 has 99"), "{error}");
}

#[test]
fn a_record_of_another_version_names_its_place() {
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let hub = open(&fs, &clock, HubOptions::default()).unwrap();
    drop(hub);
    let header =
        |base_offset| FrameHeader { base_offset, count: 1, rules_version: 2, ..FrameHeader::default() };
    append(&fs, header, &[200; 64]);
    let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
    assert!(
        matches!(error, OpenError::Replay(ReplayError::BadRecord { offset: 0, index: 0, .. })),
        "{error}"
    );
}

#[test]
fn a_frame_with_unknown_options_or_a_wrong_count_is_not_decided() {
    let mut payload = Vec::new();
    records::write(&prepare(PAYER, PAYEE, 1, 1, START + 60_000), &mut payload);
    for (count, options, says) in [(1, 2, "options"), (2, 0, "number of records")] {
        let (fs, clock) = (SimFs::new(1), TestClock::new());
        drop(open(&fs, &clock, HubOptions::default()).unwrap());
        let header = |base_offset| FrameHeader {
            base_offset,
            count,
            options,
            rules_version: 1,
            ..FrameHeader::default()
        };
        append(&fs, header, &payload);
        let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
        assert!(matches!(error, OpenError::Replay(ReplayError::StrangeFrame { offset: 0, .. })), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_log_without_its_first_segment_is_not_replayed() {
    use holdfast_log::FileSystem;
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
    hub.open_for_business(1_000);
    let folder = log_folder(Path::new("/data"));
    let segments = || {
        let mut names = fs.list(&folder).unwrap();
        names.retain(|name| name.ends_with(".seg"));
        names.sort();
        names
    };
    let mut id = 0;
    while segments().len() < 2 {
        id += 1;
        hub.frame(&[prepare(PAYER, PAYEE, id, 1, START + 60_000)]).unwrap();
    }
    drop(hub);
    fs.remove(&folder.join(&segments()[0])).unwrap();
    let error = open(&fs, &clock, HubOptions::default()).err().expect("refused");
    assert!(matches!(error, OpenError::NothingToStartFrom { .. }), "{error}");
}

#[test]
fn other_options_in_force_do_not_change_old_frames() {
    use holdfast_domain::positions::PrepareOrder;
    let (fs, clock) = (SimFs::new(1), TestClock::new());
    let smallest = HubOptions { position_order: PrepareOrder::Smallest, ..HubOptions::default() };
    let mut hub = open(&fs, &clock, smallest).unwrap();
    hub.open_for_business(10);
    hub.frame(&[prepare(PAYER, PAYEE, 1, 9, START + 60_000), prepare(PAYER, PAYEE, 2, 5, START + 60_000)])
        .unwrap();
    let live = hub.core().chain();
    drop(hub);
    let replayed = open(&fs, &clock, HubOptions::default()).unwrap();
    assert_eq!(replayed.core().chain(), live, "the frame carries the order it was decided under");
}
