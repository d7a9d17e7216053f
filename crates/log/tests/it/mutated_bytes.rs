//! Valid segments, mutated at random: never a panic, never a frame nobody wrote, never a frame silently dropped
//! that a sound one follows.

use holdfast_log::conformance::read_all;
use holdfast_log::{BLOCK, Frame, Log, SimFs, fuzz_read_segment};
use proptest::prelude::*;

use crate::support::{open, open_from, read_only, segment_path, snapshot, written};

#[derive(Clone, Debug)]
enum Mutation {
    Flip { at: usize, mask: u8 },
    Zero { at: usize, len: usize },
    Noise { at: usize, bytes: Vec<u8> },
    CopyBlock { from: usize, to: usize },
    Cut { len: usize },
}

const FILE: usize = 8 * BLOCK;
const BLOCKS: usize = FILE / BLOCK;

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (0..FILE, 1..=255_u8).prop_map(|(at, mask)| Mutation::Flip { at, mask }),
        2 => (0..BLOCKS, 0..128_usize).prop_map(|(b, at)| Mutation::Flip { at: b * BLOCK + at, mask: 1 }),
        2 => (0..FILE, 1..9000_usize).prop_map(|(at, len)| Mutation::Zero { at, len }),
        2 => (0..BLOCKS, 1..4_usize).prop_map(|(b, n)| Mutation::Zero { at: b * BLOCK, len: n * BLOCK }),
        1 => (0..FILE, prop::collection::vec(any::<u8>(), 1..600)).prop_map(|(at, bytes)| Mutation::Noise { at, bytes }),
        2 => (0..BLOCKS, 0..BLOCKS).prop_map(|(from, to)| Mutation::CopyBlock { from, to }),
        1 => (0..FILE).prop_map(|len| Mutation::Cut { len }),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let size = bytes.len();
    match mutation {
        Mutation::Flip { at, mask } if *at < size => bytes[*at] ^= mask,
        Mutation::Zero { at, len } if *at < size => bytes[*at..(at + len).min(size)].fill(0),
        Mutation::Noise { at, bytes: noise } if at + noise.len() <= size => {
            bytes[*at..at + noise.len()].copy_from_slice(noise);
        }
        Mutation::CopyBlock { from, to } if (from.max(to) + 1) * BLOCK <= size => {
            bytes.copy_within(from * BLOCK..(from + 1) * BLOCK, to * BLOCK);
        }
        Mutation::Cut { len } => bytes.truncate(*len),
        _ => {}
    }
}

/// How many blocks a frame takes.
fn blocks(frame: &Frame) -> usize {
    (96 + frame.payload.len()).div_ceil(BLOCK)
}

/// Which of the frames written are untouched in the mutated files. Padding does not count.
fn intact(frames: &[Frame], before: &[(String, Vec<u8>)], after: &SimFs) -> Vec<bool> {
    let (mut segment, mut block, mut room) = (0, 1, BLOCKS);
    let mut each = Vec::new();
    for frame in frames {
        if block + blocks(frame) > room {
            (segment, block) = (segment + 1, 1);
            room = before[segment].1.len() / BLOCK;
        }
        let range = block * BLOCK..block * BLOCK + 96 + frame.payload.len();
        let path = crate::support::dir().join(&before[segment].0);
        let now = after.bytes_of(&path).expect("read");
        each.push(now.get(range.clone()) == before[segment].1.get(range));
        block += blocks(frame);
    }
    each
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn open_tells_the_truth(
        sizes in prop::collection::vec((1..4_u32, 0..14_000_usize), 1..7),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), mutation()), 1..4),
        checkpoint in any::<prop::sample::Index>(),
    ) {
        let (fs, frames) = written(&sizes);
        let before = snapshot(&fs);
        for (which, mutation) in &mutations {
            let path = crate::support::dir().join(&before[which.index(before.len())].0);
            let mut bytes = fs.bytes_of(&path).expect("read");
            apply(&mut bytes, mutation);
            fs.put(&path, &bytes);
        }
        let intact = intact(&frames, &before, &fs);
        let from = checkpoint.get(&frames).header.base_offset;
        let partly = open_from(&fs.crash(0), from);
        let seen = read_only(&fs).ok();
        let opened = open(&fs).ok();
        prop_assert_eq!(seen.is_some(), opened.is_some(), "reader and writer disagree");
        if let Ok((log, _)) = &partly {
            let mut found: Vec<Frame> = Vec::new();
            let mut refused = false;
            for frame in log.read_from(0).expect("no segment is gone") {
                match frame {
                    Ok(frame) => found.push(frame),
                    Err(_) => {
                        refused = true;
                        break;
                    }
                }
            }
            prop_assert!(frames.starts_with(&found), "opened from {from}: a frame that was not written there");
            let end = found.last().map_or(0, |frame| frame.header.end_offset());
            prop_assert!(refused || end == log.end(), "opened from {from}: the reading ended at {end}");
            if let Some((whole, _)) = &opened {
                prop_assert!(!refused && end == whole.end(), "opened from {from}: not what a whole open finds");
            }
        } else if let Some((_, report)) = &opened {
            prop_assert!(report.end < from, "refused only from {}, the log is sound up to {}", from, report.end);
        }
        if let (Some(seen), Some((log, report))) = (seen, opened) {
            let found = read_all(&log, 0);
            prop_assert_eq!(&found, &seen);
            prop_assert_eq!(found.len() as u64, report.frames);
            prop_assert!(frames.starts_with(&found), "a frame that was not written there");
            prop_assert!(
                !intact[found.len()..].contains(&true),
                "{} of {} frames returned, but a sound one was dropped: {:?}", found.len(), frames.len(), intact
            );
        }
    }

    #[test]
    fn arbitrary_bytes_never_break_the_reader(
        mut bytes in prop::collection::vec(any::<u8>(), 0..10_000),
        headers in prop::collection::vec(0..3_usize, 0..3),
    ) {
        // Here and there what looks like the beginning of a frame.
        for block in headers {
            if let Some(start) = bytes.get_mut(block * BLOCK..block * BLOCK + 8) {
                start.copy_from_slice(b"HFfr\x01\x00\x60\x00");
            }
        }
        fuzz_read_segment(&bytes);
    }
}

/// The harness must also see frames, or it tests the first check only.
#[test]
fn the_fuzz_harness_reads_real_frames() {
    use holdfast_log::fuzzing::FUZZ_LOG_ID;
    let mut buf = holdfast_log::FrameBuf::new();
    let frame = holdfast_log::conformance::sample_frame(0, 2, 500);
    buf.push(&frame.payload);
    buf.seal(&frame.header, &FUZZ_LOG_ID);
    fuzz_read_segment(buf.bytes());
    let mut torn = buf.bytes().to_vec();
    torn[300] ^= 1;
    fuzz_read_segment(&torn);
    let (fs, _) = written(&[(1, 10), (1, 9000)]);
    fuzz_read_segment(&fs.bytes_of(&segment_path(0)).expect("read"));
}
