//! An unfinished write at the end was never acknowledged: it is cut, zeroed and reported.

use holdfast_log::conformance::{append, append_samples, read_all, sample_frame};
use holdfast_log::{BLOCK, FileSystem, Frame, FrameBuf, Log, LogId, SimFs};

use crate::support::{LOG_ID, open, read_only, reader, sealed, segment_path, snapshot, written};

/// Three blocks of frame after one block of frame, where some sectors of the second never arrived.
fn torn(missing_sectors: &[u64]) -> SimFs {
    let (fs, frames) = written(&[(2, 100), (1, 10_000)]);
    assert_eq!(frames.len(), 2);
    let file = fs.open(&segment_path(0)).expect("open");
    for sector in missing_sectors {
        file.write_at(&[0; 512], 2 * BLOCK as u64 + sector * 512).expect("write");
    }
    file.sync_data().expect("sync");
    fs
}

#[test]
fn every_single_missing_sector_is_found_and_the_rest_zeroed() {
    for sector in 0..20 {
        let fs = torn(&[sector]);
        let (log, report) = open(&fs).expect("open");
        let torn = report.torn_tail.expect("a torn tail");
        assert_eq!((report.frames, report.end, log.end()), (1, 2, 2), "sector {sector}");
        assert_eq!((torn.file, torn.position, torn.offset), (segment_path(0), 2 * BLOCK as u64, 2));
        assert_eq!(torn.bytes, 3 * BLOCK as u64);
        let bytes = fs.bytes_of(&segment_path(0)).expect("read");
        assert!(bytes[2 * BLOCK..].iter().all(|&byte| byte == 0), "sector {sector} came back");
        drop(log);
        assert_eq!(open(&fs.crash(1)).expect("again").1.torn_tail, None);
    }
}

#[test]
fn the_log_goes_on_where_it_was_cut() {
    let fs = torn(&[3, 7]);
    let (mut log, _) = open(&fs).expect("open");
    let mut frames = read_all(&log, 0);
    frames.extend(append_samples(&mut log, &[(1, 5), (4, 9000)]));
    drop(log);
    let survivor = fs.crash(2);
    let (log, report) = open(&survivor).expect("open");
    assert_eq!(report.torn_tail, None);
    assert_eq!(read_all(&log, 0), frames);
}

#[test]
fn a_frame_without_its_first_block_is_a_torn_tail_not_a_clean_end() {
    let fs = torn(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let report = open(&fs).expect("open").1;
    let torn = report.torn_tail.expect("a torn tail");
    assert_eq!((torn.offset, torn.bytes), (2, 3 * BLOCK as u64));
    assert!(torn.reason.contains("not written"), "{}", torn.reason);
}

#[test]
fn zeros_are_a_clean_end() {
    let (fs, _) = written(&[(1, 10)]);
    assert_eq!(open(&fs).expect("open").1.torn_tail, None);
}

#[test]
fn padding_does_not_matter() {
    let (fs, frames) = written(&[(1, 10), (1, 10)]);
    fs.flip_byte(&segment_path(0), 2 * BLOCK as u64 - 1, 0xff);
    fs.flip_byte(&segment_path(0), 3 * BLOCK as u64 - 1, 0xff);
    let (log, report) = open(&fs).expect("open");
    assert_eq!((report.frames, report.torn_tail), (2, None));
    assert_eq!(read_all(&log, 0), frames);
}

#[test]
fn a_read_only_look_reports_it_and_changes_nothing() {
    let fs = torn(&[4]);
    let before = snapshot(&fs);
    let report = reader(&fs).expect("open").check().expect("check");
    assert_eq!((report.frames, report.end), (1, 2));
    assert_eq!(report.torn_tail.expect("a torn tail").position, 2 * BLOCK as u64);
    assert_eq!(read_only(&fs).expect("read").len(), 1);
    assert_eq!(snapshot(&fs), before);
}

/// A client who knows the format, but not the log id, sends bytes that would be a later frame. Were they taken
/// for one, a torn tail would look like damage and the server would not start.
#[test]
fn frames_forged_by_a_client_are_not_taken_for_frames() {
    let forged = |offset, log_id| {
        let mut buf = FrameBuf::new();
        buf.push(b"forged");
        buf.seal(&sample_frame(offset, 1, 0).header, &log_id);
        // So that the forgery falls on the start of a block.
        let mut payload = vec![1; BLOCK - 96];
        payload.extend_from_slice(buf.bytes());
        payload.resize(3 * BLOCK, 1);
        let (fs, _) = written(&[(1, 10)]);
        let (mut log, _) = open(&fs).expect("open");
        append(&mut log, &Frame { payload, ..sample_frame(1, 1, 0) }).expect("append");
        drop(log);
        fs.flip_byte(&segment_path(0), 2 * BLOCK as u64 + 100, 1);
        fs
    };
    let report = open(&forged(9, LogId([0; 16]))).expect("open").1;
    assert_eq!(report.torn_tail.expect("a torn tail").offset, 1);
    // The forgery is good enough to work if the id were known...
    assert!(open(&forged(9, LOG_ID)).is_err());
    // ...but not as a copy of what the log already holds.
    assert_eq!(open(&forged(0, LOG_ID)).expect("open").1.end, 1);
}

/// Right checksums do not make a frame of fields that no release writes.
#[test]
fn a_header_that_says_what_no_release_writes_is_not_a_frame() {
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = sealed(&Frame { payload: b"payload".to_vec(), ..sample_frame(0, 1, 0) });
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c::crc32c(&[&LOG_ID.0[..], &frame[..88]].concat());
        frame[88..92].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&[&LOG_ID.0[..], &frame[..92], &frame[96..]].concat());
        frame[92..96].copy_from_slice(&crc.to_le_bytes());
        let (fs, _) = written(&[]);
        let file = fs.open(&segment_path(0)).expect("open");
        file.write_at(&frame, BLOCK as u64).expect("write");
        open(&fs).expect("open").1
    };
    assert_eq!(with(24, &[9]).frames, 1, "another time is fine: the checksums are right");
    let past_end = 28_672_u32.to_le_bytes();
    let cases: [(usize, &[u8]); 8] = [
        (4, &[2, 0]),
        (6, &[95, 0]),
        (16, &[0; 4]),
        (8, &[0xff; 8]),
        (20, &[0xff; 4]),
        (20, &past_end),
        (72, &[1]),
        (87, &[1]),
    ];
    for (at, bytes) in cases {
        let report = with(at, bytes);
        assert_eq!((report.frames, report.end), (0, 0), "byte {at}");
        assert!(report.torn_tail.is_some());
    }
}
