use std::sync::Mutex;
use std::sync::mpsc;

use holdfast_disk::RealFs;

use super::*;

const RECORDS: usize = 60_000;
const FRAME: usize = 100;

#[test]
fn readers_on_other_threads_see_what_was_published() {
    let temp = tempfile::tempdir().unwrap();
    let options = Options { file_blocks: 512, chunk_blocks: 16, needed_from: 0 };
    let dir = temp.path().join("outcomes");
    let folder = BlockFolder { fs: Arc::new(RealFs), dir, log_id: LOG, kind: Kind::Outcomes };
    let open = |end| BlockFiles::create_or_open(folder.clone(), end, options).unwrap();
    let mut files = open(None);
    let reader = files.reader();
    let syncer = files.sync_handle();
    let published = Mutex::new(Vec::<u64>::new());
    let (jobs, todo) = mpsc::sync_channel::<WriteJob>(8);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (number, job) in todo.into_iter().enumerate() {
                job.run().unwrap();
                if number % 20 == 0 {
                    syncer.sync().unwrap();
                }
            }
        });
        for readers in 0..2_usize {
            let (reader, published) = (reader.clone(), &published);
            scope.spawn(move || {
                let (mut at, mut out, mut seen) = (readers, Vec::new(), 0);
                while seen < RECORDS {
                    let positions = published.lock().unwrap();
                    seen = positions.len();
                    if seen == 0 {
                        drop(positions);
                        std::thread::yield_now();
                        continue;
                    }
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    // Old ones from the disk, the newest from memory.
                    let numbers = [(at >> 33) % seen, seen - 1];
                    let positions = numbers.map(|number| positions[number]);
                    for (number, position) in numbers.into_iter().zip(positions) {
                        assert!(reader.read_into(position, &mut out).unwrap());
                        assert!(out == record(number), "record {number}");
                    }
                    if at.is_multiple_of(64) {
                        let scanned = reader.scan(positions[0], u64::MAX).take(500);
                        for (number, item) in (numbers[0]..).zip(scanned) {
                            assert!(item.unwrap().1 == record(number), "record {number}");
                        }
                    }
                }
            });
        }
        for frame in 0..RECORDS / FRAME {
            let positions = append(&mut files, frame * FRAME..(frame + 1) * FRAME);
            published.lock().unwrap().extend(positions);
            while let Some(job) = files.take_job() {
                jobs.send(job).unwrap();
            }
        }
        drop(jobs);
    });
    flush(&mut files);
    files.sync_handle().sync().unwrap();
    assert_eq!(files.reader().verify(u64::MAX).unwrap(), RECORDS as u64);

    // Opened again at an earlier place of a file, the same bytes come back.
    let (end, all) = (files.end(), published.into_inner().unwrap());
    drop(files);
    let half = all[RECORDS / 2] / 4096 * 4096;
    let mut files = open(Some(End { position: half + 16, tail: Vec::new() }));
    let first = all.iter().position(|position| *position >= half).unwrap();
    assert_eq!(append(&mut files, first..RECORDS), all[first..]);
    flush(&mut files);
    assert_eq!((files.end(), files.reader().verify(u64::MAX).unwrap()), (end, RECORDS as u64));
}
