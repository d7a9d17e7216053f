//! Damage that something sound follows had been acknowledged: the log is refused, untouched.

use std::sync::Arc;

use holdfast_log::{BLOCK, FileSystem, LogError, LogId, SegmentLog, SimFs};

use crate::support::{SMALL_SEGMENT, dir, open, options, read_only, segment_path, snapshot, written};

/// Two segments: frames of 2, 2 and 3 blocks; then of 1 and 1.
fn two_segments() -> SimFs {
    let (fs, _) = written(&[(1, 5000), (1, 5000), (1, 12_000), (1, 10), (1, 10)]);
    assert!(fs.exists(&segment_path(3)).expect("exists"));
    fs
}

/// Opening refuses with this position and offset, for the writer and for the reader, and nothing changes.
fn assert_corrupt(fs: &SimFs, base: u64, at: u64, expected_offset: u64) {
    let before = snapshot(fs);
    for error in [open(fs).err(), read_only(fs).err()] {
        match error {
            Some(LogError::Corrupt { file, position, offset, .. }) => {
                assert_eq!((file, position, offset), (segment_path(base), at, expected_offset));
            }
            other => panic!("not refused as corrupt: {other:?}"),
        }
    }
    assert_eq!(snapshot(fs), before);
}

#[test]
fn any_flipped_byte_of_an_early_frame_is_refused() {
    let block = BLOCK as u64;
    for within in (0..96).chain([96, 2000, 4999 + 96]) {
        let fs = two_segments();
        fs.flip_byte(&segment_path(0), block + within, 0x10);
        assert_corrupt(&fs, 0, block, 0);
        let fs = two_segments();
        fs.flip_byte(&segment_path(0), 3 * block + within, 0x10);
        assert_corrupt(&fs, 0, 3 * block, 1);
    }
}

#[test]
fn the_last_frame_of_a_segment_is_refused_when_another_segment_follows() {
    let fs = two_segments();
    fs.flip_byte(&segment_path(0), 5 * BLOCK as u64 + 200, 1);
    assert_corrupt(&fs, 0, 5 * BLOCK as u64, 2);
}

#[test]
fn an_empty_later_segment_is_proof_enough() {
    let fs = two_segments();
    let file = fs.open(&segment_path(3)).expect("open");
    file.write_at(&vec![0; 7 * BLOCK], BLOCK as u64).expect("write");
    file.sync_data().expect("sync");
    assert_eq!(open(&fs).expect("an empty last segment is fine").1.end, 3);
    fs.flip_byte(&segment_path(0), 5 * BLOCK as u64 + 200, 1);
    assert_corrupt(&fs, 0, 5 * BLOCK as u64, 2);
}

#[test]
fn a_frame_that_was_zeroed_is_refused() {
    let fs = two_segments();
    let file = fs.open(&segment_path(0)).expect("open");
    file.write_at(&vec![0; 2 * BLOCK], 3 * BLOCK as u64).expect("write");
    assert_corrupt(&fs, 0, 3 * BLOCK as u64, 1);
}

/// The last frame is torn and the one before it has rotted: the torn frame's header proves that the other one
/// had been acknowledged.
#[test]
fn a_torn_frame_after_damage_is_still_proof() {
    let (fs, _) = written(&[(1, 10), (1, 10), (1, 9000)]);
    fs.flip_byte(&segment_path(0), 3 * BLOCK as u64 + 5000, 1);
    assert_eq!(open(&fs.crash(0)).expect("only torn").1.end, 2);
    fs.flip_byte(&segment_path(0), 2 * BLOCK as u64 + 100, 1);
    assert_corrupt(&fs, 0, 2 * BLOCK as u64, 1);
}

#[test]
fn bytes_behind_the_last_frame_of_a_full_segment_are_refused() {
    let (fs, _) = written(&[(1, 5000), (1, 25_000)]);
    fs.flip_byte(&segment_path(0), SMALL_SEGMENT - 1, 1);
    assert_corrupt(&fs, 0, 3 * BLOCK as u64, 1);
}

#[test]
fn a_frame_in_the_wrong_place_is_refused() {
    let (fs, _) = written(&[(1, 10), (1, 20)]);
    let bytes = fs.bytes_of(&segment_path(0)).expect("read");
    let file = fs.open(&segment_path(0)).expect("open");
    // The first frame once more, where the second was.
    file.write_at(&bytes[BLOCK..2 * BLOCK], 2 * BLOCK as u64).expect("write");
    assert_corrupt(&fs, 0, 2 * BLOCK as u64, 1);
}

#[test]
fn a_damaged_segment_header_is_refused() {
    for position in [0, 8, 16, 32, 40, 48, 2000, BLOCK as u64 - 1] {
        let fs = two_segments();
        fs.flip_byte(&segment_path(3), position, 1);
        assert_corrupt(&fs, 3, 0, 3);
    }
}

#[test]
fn a_shortened_file_is_refused() {
    for (base, len) in [(0, SMALL_SEGMENT - 1), (3, 3 * BLOCK as u64), (3, 100), (3, 0)] {
        let fs = two_segments();
        fs.open(&segment_path(base)).expect("open").set_len(len).expect("set_len");
        assert_corrupt(&fs, base, 0, base);
    }
}

#[test]
fn a_missing_segment_in_the_middle_is_refused() {
    let (fs, _) = written(&[(1, 28_000), (1, 28_000), (1, 28_000)]);
    fs.remove(&segment_path(1)).expect("remove");
    let before = snapshot(&fs);
    for error in [open(&fs).err(), read_only(&fs).err()] {
        match error {
            Some(LogError::Gap { offset: 1, next, .. }) => assert_eq!(next, segment_path(2)),
            other => panic!("not refused: {other:?}"),
        }
    }
    assert_eq!(snapshot(&fs), before);
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let (fs, _) = written(&[(1, 28_000), (1, 28_000)]);
    let stranger = SimFs::new(2);
    let (mut log, _) =
        SegmentLog::open(Arc::new(stranger.clone()), dir(), options(), LogId([9; 16])).expect("create");
    holdfast_log::conformance::append_samples(&mut log, &[(1, 28_000), (1, 28_000)]);
    fs.put(&segment_path(1), &stranger.bytes_of(&segment_path(1)).expect("read"));
    assert!(matches!(open(&fs), Err(LogError::ForeignSegment { .. })));
    assert!(matches!(read_only(&fs), Err(LogError::ForeignSegment { .. })));
}

#[test]
fn a_renamed_segment_is_refused() {
    let fs = two_segments();
    fs.rename(&segment_path(3), &segment_path(4)).expect("rename");
    assert!(matches!(open(&fs), Err(LogError::Gap { offset: 3, .. })));
    fs.remove(&segment_path(0)).expect("remove");
    assert_corrupt(&fs, 4, 0, 4);
}

#[test]
fn a_later_format_is_refused_by_name() {
    let (fs, _) = written(&[(1, 10)]);
    let mut bytes = fs.bytes_of(&segment_path(0)).expect("read");
    bytes[8] = 2;
    let crc = crc32c::crc32c(&bytes[..BLOCK - 4]);
    bytes[BLOCK - 4..BLOCK].copy_from_slice(&crc.to_le_bytes());
    fs.put(&segment_path(0), &bytes);
    assert!(matches!(open(&fs), Err(LogError::UnsupportedVersion { found: 2, known: 1, .. })));
}

#[test]
fn rot_under_a_running_reader_is_an_error_not_an_end() {
    let fs = SimFs::new(1);
    let (mut log, _) = open(&fs).expect("create");
    holdfast_log::conformance::append_samples(&mut log, &[(1, 10), (1, 10)]);
    fs.flip_byte(&segment_path(0), 2 * BLOCK as u64 + 100, 1);
    let mut frames = holdfast_log::Log::read_from(&log, 0).expect("read_from");
    assert!(frames.next_frame().expect("the first is sound").is_some());
    assert!(matches!(frames.next_frame(), Err(LogError::Corrupt { offset: 1, .. })));
}
