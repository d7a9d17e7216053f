//! A log that other rules decided, or that somebody changed, is not replayed into another state.

use std::path::Path;
use std::sync::Arc;

use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::{RULES_VERSION, records};
use holdfast_hub::limits::HubOptions;
use holdfast_hub::verify::VerifyError;
use holdfast_hub::{OpenError, ReplayError, log_folder};
use holdfast_log::{FileSystem, FrameBuf, FrameHeader, Log, SegmentLog, SimFs};

use crate::checkpoint_file::{PROGRESS, reseal, rewrite};
use crate::history::{check, checkpoint, files, lived_in, sound};
use crate::support::{
    DATA, LOG_ID, PAYEE, PAYER, START, TestClock, in_business, open, pay, prepare, reopen, small_segments,
};

/// Writes a frame past the hub, as a program with other ideas would.
fn append(fs: &SimFs, header: impl FnOnce(u64) -> FrameHeader, payload: &[u8]) {
    let folder = log_folder(Path::new(DATA));
    let (mut log, _) = SegmentLog::open(Arc::new(fs.clone()), &folder, small_segments(), LOG_ID).unwrap();
    let mut frame = FrameBuf::new();
    frame.push(payload);
    let header = header(log.end());
    log.append(&mut frame, &header).unwrap();
}

/// A frame of one record, of our rules.
fn of_our_rules(base_offset: u64) -> FrameHeader {
    FrameHeader { base_offset, count: 1, rules_version: RULES_VERSION, ..FrameHeader::default() }
}

#[track_caller]
fn refused(fs: &SimFs) -> OpenError {
    open(fs, &TestClock::new(), HubOptions::default()).err().expect("refused")
}

#[test]
fn another_running_hash_stops_the_replay_with_offset_and_versions() {
    let (fs, _, hub) = in_business(1_000);
    let (mut wrong, end) = (hub.core().chain(), hub.core().end());
    drop(hub);
    wrong[0] ^= 1;
    let header = |at| FrameHeader { time_ms: START, running_hash: wrong, ..of_our_rules(at) };
    append(&fs, header, &a_prepare(1));
    let error = refused(&fs);
    let OpenError::Replay(ReplayError::ChainBroken { offset, written, before }) = error else {
        panic!("{error}")
    };
    assert_eq!((offset, written, before), (end, RULES_VERSION, RULES_VERSION));
}

#[test]
fn a_record_that_cannot_be_read_names_its_place() {
    let fs = SimFs::new(1);
    drop(reopen(&fs));
    append(&fs, of_our_rules, &[200; 64]);
    let error = refused(&fs);
    assert!(
        matches!(error, OpenError::Replay(ReplayError::BadRecord { offset: 0, index: 0, .. })),
        "{error}"
    );
}

#[test]
fn a_frame_with_unknown_options_or_a_wrong_count_is_not_decided() {
    for (count, options, says) in [(1, 2, "options"), (2, 0, "number of records")] {
        let fs = SimFs::new(1);
        drop(reopen(&fs));
        append(&fs, |at| FrameHeader { count, options, ..of_our_rules(at) }, &a_prepare(1));
        let error = refused(&fs);
        assert!(matches!(error, OpenError::Replay(ReplayError::StrangeFrame { offset: 0, .. })), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_log_without_its_first_segment_is_not_replayed() {
    let (fs, _, mut hub) = in_business(1_000);
    let folder = log_folder(Path::new(DATA));
    let segments = || {
        let mut names = fs.list(&folder).unwrap();
        names.retain(|name| name.ends_with(".seg"));
        names.sort();
        names
    };
    let mut id = 0;
    while segments().len() < 2 {
        id += 1;
        hub.frame(&[pay(id)]).unwrap();
    }
    drop(hub);
    fs.remove(&folder.join(&segments()[0])).unwrap();
    let error = refused(&fs);
    assert!(matches!(error, OpenError::NothingToStartFrom { .. }), "{error}");
}

#[test]
fn other_options_in_force_do_not_change_old_frames() {
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

/// Where the chain and the rules stand in the progress of a checkpoint, behind its length.
const CHAIN: usize = 4 + 12;
const RULES: usize = 4 + 52;

fn of_other_rules(base_offset: u64, running_hash: [u8; 32]) -> FrameHeader {
    FrameHeader { base_offset, count: 1, time_ms: START, options: 0, rules_version: 99, running_hash }
}

fn a_prepare(id: u128) -> Vec<u8> {
    let mut payload = Vec::new();
    records::write(&pay(id), &mut payload);
    payload
}

/// A directory whose history was decided under rules 99 and ended with a clean stop.
fn stopped_under_other_rules() -> SimFs {
    let fs = SimFs::new(1);
    let mut hub = lived_in(&fs);
    checkpoint(&mut hub);
    drop(hub);
    let newest = files(&fs, "store/checkpoints", ".ckp").pop().unwrap();
    rewrite(&fs, &newest, PROGRESS, |payload| {
        // Another history leads to another hash.
        payload[CHAIN] ^= 1;
        payload[RULES..RULES + 4].copy_from_slice(&99_u32.to_le_bytes());
    });
    fs
}

#[test]
fn after_a_clean_stop_other_rules_take_over_without_a_replay() {
    let (fs, clock) = (stopped_under_other_rules(), TestClock::new());
    for id in [70_000, 70_001] {
        let mut hub = open(&fs, &clock, HubOptions::default()).unwrap();
        hub.frame(&[pay(id)]).unwrap();
        assert!(hub.row(1_005).is_some() && hub.row(id).is_some());
        // A kill: what was decided since is replayed, under the rules that decided it.
        drop(hub);
    }
}

#[test]
fn after_a_kill_other_rules_refuse_and_name_both_versions() {
    let fs = stopped_under_other_rules();
    let hub = reopen(&fs);
    let (chain, end) = (hub.core().chain(), hub.core().end());
    drop(hub);
    // One frame more of the other program. What it decided would show only in the next one's hash.
    append(&fs, |base_offset| of_other_rules(base_offset, chain), &a_prepare(80_000));
    let error = refused(&fs);
    assert!(
        matches!(error, OpenError::Replay(ReplayError::OtherRules { offset, written: 99 }) if offset == end),
        "{error}"
    );
    let said = error.to_string();
    assert!(
        said.contains("under rules 99") && said.contains(&format!("has rules {RULES_VERSION}")),
        "{said}"
    );
    // Nothing was made of it: the same again.
    refused(&fs);
}

/// The chain agrees as far as it goes, and what other rules decided last would show only in the next frame's hash.
#[test]
fn verify_refuses_what_other_rules_decided_after_the_last_checkpoint() {
    let fs = SimFs::new(1);
    let hub = lived_in(&fs);
    let (chain, end) = (hub.core().chain(), hub.core().end());
    drop(hub);
    append(&fs, |base_offset| of_other_rules(base_offset, chain), &a_prepare(60_000));
    let error = check(&fs).err().expect("refused");
    assert!(
        matches!(&error, VerifyError::Replay(ReplayError::OtherRules { offset, written: 99 }) if *offset == end),
        "{error}"
    );
}

#[test]
fn verify_begins_with_the_checkpoint_of_the_upgrade() {
    use holdfast_hub::verify::Beginning;
    let fs = SimFs::new(1);
    drop(lived_in(&fs));
    // The last frame of the beginning says that rules 99 decided it, and was decided by them.
    let mut hub = reopen(&fs);
    let mut other = hub.core().chain();
    hub.frame(&[pay(60_000)]).unwrap();
    let end = hub.core().end();
    drop(hub);
    other[0] ^= 1;
    append(&fs, |base_offset| of_other_rules(base_offset, other), &a_prepare(60_001));
    assert!(check(&fs).err().is_some_and(|error| error.to_string().contains("does not lead to a state")));
    // Its checkpoint at the very end is where this release would begin.
    let older = files(&fs, "store/checkpoints", ".ckp");
    let mut bytes = fs.bytes_of(older.last().unwrap()).unwrap();
    bytes[32..40].copy_from_slice(&(end + 1).to_le_bytes());
    reseal(&mut bytes);
    let file = older[0].with_file_name(format!("{:020}.ckp", end + 1));
    fs.put(&file, &bytes);
    rewrite(&fs, &file, PROGRESS, |payload| payload[8..16].copy_from_slice(&(end + 1).to_le_bytes()));
    let verified = sound(&fs);
    assert_eq!((verified.beginning, verified.began_at), (Beginning::OtherRules(99), end + 1));
}
