use super::*;

const RECORDS: usize = 240;

/// Appends records with a checkpoint every so often. Returns the last end that a checkpoint made durable, with
/// the number of records before it, and whether the power held.
fn run(
    fs: &SimFs,
    from: Option<(End, usize)>,
    to: usize,
) -> (Option<(End, usize)>, Result<BlockFiles, StoreError>) {
    let mut durable = from.clone();
    let mut go = || {
        let mut files = open_with(fs, from.as_ref().map(|(end, _)| end.clone()), SMALL)?;
        for number in from.as_ref().map_or(0, |(_, before)| *before)..to {
            files.append(&record(number));
            if number % 7 == 0 {
                files.publish();
                files.take_job().map_or(Ok(()), WriteJob::run)?;
            }
            if number % 31 == 30 {
                let end = files.end();
                while let Some(job) = files.flush_job() {
                    job.run()?;
                }
                files.sync_handle().sync()?;
                durable = Some((end, number + 1));
            }
        }
        files.publish();
        Ok(files)
    };
    let result = go();
    (durable, result)
}

/// Every file's bytes.
fn contents(fs: &SimFs) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| (name.clone(), fs.bytes_of(&dir().join(name)).unwrap());
    names(fs).into_iter().map(read).collect()
}

#[test]
fn a_crash_at_any_sync_keeps_what_the_checkpoint_remembers_and_nothing_else() {
    let whole = SimFs::new(9);
    let mut reference = run(&whole, None, RECORDS).1.unwrap();
    flush(&mut reference);
    let syncs = whole.counters().syncs;
    assert!(syncs > 12);
    for sync in 1..=syncs {
        for seed in 0..12 {
            let fs = SimFs::new(seed);
            fs.freeze_at_sync(sync);
            let (durable, result) = run(&fs, None, RECORDS);
            assert!(result.is_err());
            let after = fs.crash(seed * 31 + sync);

            let files = open(&after, durable.as_ref().map(|(end, _)| end.clone()));
            let before = durable.as_ref().map_or(0, |(_, before)| *before);
            let found: Vec<_> = files.reader().scan(0, u64::MAX).map(|item| item.unwrap().1).collect();
            assert_eq!(found, (0..before).map(record).collect::<Vec<_>>());
            // Nothing after the end is on the disk, not even after another crash.
            let blocks = durable.as_ref().map_or(0, |(end, _)| end.position / 4096);
            for state in [&after, &after.crash(seed)] {
                let bytes: usize = contents(state).iter().map(|(_, bytes)| bytes.len()).sum();
                assert_eq!(bytes as u64, blocks * 4096);
            }

            // A second loss of power on the way back, then on to the end: as if nothing had happened.
            let (durable, _) = run(&after, durable, (before + 40).min(RECORDS));
            let last = after.crash(seed + 5);
            let (_, result) = run(&last, durable, RECORDS);
            let mut files = result.unwrap();
            flush(&mut files);
            assert_eq!((files.end(), contents(&last)), (reference.end(), contents(&whole)));
        }
    }
}

#[test]
fn a_crash_while_opening_is_harmless() {
    for seed in 0..30 {
        for sync in 1..=2 {
            let fs = SimFs::new(seed);
            let (durable, files) = run(&fs, None, RECORDS);
            flush(&mut files.unwrap());
            let (end, before) = durable.unwrap();
            fs.freeze_at_sync(sync);
            assert!(open_with(&fs, Some(end.clone()), SMALL).is_err());
            let after = fs.crash(seed);
            assert_eq!(open(&after, Some(end)).reader().verify(u64::MAX).unwrap(), before as u64);
        }
    }
}

#[test]
fn a_failed_write_or_sync_is_for_good() {
    let fs = SimFs::new(1);
    let mut files = open(&fs, None);
    let positions = append(&mut files, 0..100);
    fs.fail_next_write();
    assert!(files.take_job().unwrap().run().is_err());
    let failed =
        |result: Result<(), StoreError>| matches!(result, Err(StoreError::Io { op: "go on in", .. }));
    assert!(failed(files.take_job().unwrap().run()) && failed(files.sync_handle().sync()));
    for (number, position) in positions.iter().enumerate() {
        assert_eq!(files.reader().read(*position).unwrap(), Some(record(number)), "still in memory");
    }

    let mut files = open(&fs, None);
    append(&mut files, 0..100);
    flush(&mut files);
    fs.fail_next_sync();
    assert!(files.sync_handle().sync().is_err());
    assert!(failed(files.sync_handle().sync()));
    append(&mut files, 100..200);
    assert!(failed(files.take_job().unwrap().run()));
}

#[test]
#[should_panic(expected = "write jobs run in order")]
fn jobs_out_of_order_are_refused() {
    let mut files = open(&SimFs::new(1), None);
    append(&mut files, 0..100);
    let _first = files.take_job().unwrap();
    drop(files.take_job().unwrap().run());
}
