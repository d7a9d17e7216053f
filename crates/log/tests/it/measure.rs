//! What an append costs on this machine's disk: time, CPU and bytes. Not a test; run it by hand:
//! `cargo test --release -p holdfast-log --test it measure -- --ignored --nocapture`.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_log::conformance::{append, sample_frame};
use holdfast_log::{Log, RealFs, SegmentLog, SegmentOptions};

use crate::support::LOG_ID;

/// Nanoseconds this thread has run, and bytes this process gave to the disk.
fn spent() -> (u64, u64) {
    let first_number = |text: &str| text.split_whitespace().find_map(|word| word.parse().ok());
    let cpu = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let io = fs::read_to_string("/proc/self/io").expect("io");
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes:")).expect("write_bytes");
    (first_number(&cpu).expect("a number"), first_number(written).expect("a number"))
}

#[test]
#[ignore = "a measurement, for --release on a real disk"]
fn appends_of_two_sizes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    for (payload, rounds) in [(3_000_usize, 3_000_u32), (256 * 1024 - 96, 1_200)] {
        let temporary = tempfile::tempdir_in(folder).expect("tempdir");
        let (mut log, _) =
            SegmentLog::open(Arc::new(RealFs), temporary.path(), SegmentOptions::default(), LOG_ID)
                .expect("create");
        let preparer = log.spare_preparer();
        let spares = std::thread::spawn(move || preparer.run());
        let mut buffer = holdfast_log::FrameBuf::with_capacity(payload);
        buffer.push(&sample_frame(0, 1, payload).payload);
        append(&mut log, &sample_frame(0, 1, payload)).expect("append");
        let mut each = Vec::new();
        let before = spent();
        for _ in 0..rounds {
            let header = sample_frame(log.end(), 1, 0).header;
            let begun = Instant::now();
            log.append(&mut buffer, &header).expect("append");
            each.push(begun.elapsed());
        }
        let after = spent();
        drop(log);
        spares.join().expect("the preparer ends with the log");
        let mean = each.iter().sum::<Duration>() / rounds;
        each.sort_unstable();
        println!(
            "{payload} byte payload: mean {mean:?}, p10 {:?}, p50 {:?}, p99 {:?}, max {:?}, CPU {} us, {} bytes to the disk",
            each[each.len() / 10],
            each[each.len() / 2],
            each[each.len() * 99 / 100],
            each[each.len() - 1],
            (after.0 - before.0) / 1_000 / u64::from(rounds),
            (after.1 - before.1) / u64::from(rounds),
        );
    }
}
