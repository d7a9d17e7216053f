use std::hint::black_box;
use std::time::Instant;

use holdfast_disk::RealFs;

use super::*;

/// `cargo test --release -p holdfast-store measure -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, for a release build and a real disk"]
fn measure_appends_and_reads() {
    const RECORDS: usize = 2_000_000;
    let temp = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut files = BlockFiles::create_or_open(
        Arc::new(RealFs),
        temp.path(),
        LOG,
        Kind::Outcomes,
        None,
        Options::default(),
    )
    .unwrap();
    let each = |begun: Instant, count: usize| begun.elapsed().as_nanos() / count as u128;
    let record = [7; 120];
    let (jobs, todo) = std::sync::mpsc::sync_channel::<WriteJob>(64);
    let writer = std::thread::spawn(move || todo.into_iter().try_for_each(WriteJob::run));
    let mut positions = Vec::with_capacity(RECORDS);
    let (mut appending, mut slowest) = (0, 0);
    for _ in 0..RECORDS / 1000 {
        let begun = Instant::now();
        for _ in 0..1000 {
            positions.push(files.append(&record));
        }
        files.publish();
        let took = begun.elapsed().as_nanos();
        (appending, slowest) = (appending + took, slowest.max(took));
        while let Some(job) = files.take_job() {
            jobs.send(job).unwrap();
        }
    }
    println!("append, published per 1000: {} ns each", appending / RECORDS as u128);
    println!("slowest frame of 1000: {} us", slowest / 1000);
    let (reader, mut out) = (files.reader(), Vec::new());
    let newest = &positions[RECORDS - 1000..];
    let begun = Instant::now();
    newest.iter().for_each(|at| assert!(reader.read_into(*at, &mut out).unwrap()));
    println!("read from memory: {} ns each", each(begun, newest.len()));
    flush_to(&mut files, &jobs);
    drop(jobs);
    writer.join().unwrap().unwrap();
    let begun = Instant::now();
    files.sync_handle().sync().unwrap();
    println!("sync: {} us", begun.elapsed().as_micros());

    let mut at = 1_usize;
    for round in ["first (cold)", "second", "third"] {
        const READS: usize = 50_000;
        let begun = Instant::now();
        for _ in 0..READS {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert!(reader.read_into(positions[(at >> 33) % RECORDS], &mut out).unwrap());
        }
        println!("random reads, {round} round: {} ns each", each(begun, READS));
    }
    let begun = Instant::now();
    println!(
        "scan: {} records, {} ns each",
        black_box(reader.scan(0, u64::MAX).count()),
        each(begun, RECORDS)
    );
    let begun = Instant::now();
    println!("verify: {} records, {} ns each", files.verify(u64::MAX).unwrap(), each(begun, RECORDS));
}

fn flush_to(files: &mut BlockFiles, jobs: &std::sync::mpsc::SyncSender<WriteJob>) {
    while let Some(job) = files.flush_job() {
        jobs.send(job).unwrap();
    }
}
