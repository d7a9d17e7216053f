use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Publish,
    Run(usize),
    Checkpoint,
    Reopen(usize),
    RemoveBefore(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => prop_oneof![4 => 0_usize..300, 2 => 0_usize..=RECORD_MAX, 1 => RECORD_MAX - 4..=RECORD_MAX]
            .prop_map(Step::Append),
        4 => Just(Step::Publish),
        3 => (0_usize..4).prop_map(Step::Run),
        2 => Just(Step::Checkpoint),
        1 => any::<usize>().prop_map(Step::Reopen),
        1 => any::<usize>().prop_map(Step::RemoveBefore),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Default)]
struct Model {
    /// Every record ever, with its position.
    records: Vec<(u64, Vec<u8>)>,
    published: usize,
    /// Ends that a checkpoint took, with the number of records before them.
    ends: Vec<(End, usize)>,
    /// Positions before this may be gone.
    removed: u64,
}

impl Model {
    fn append(&mut self, files: &mut BlockFiles, length: usize) {
        let number = self.records.len();
        let contents: Vec<u8> =
            (0..length).map(|at| u8::try_from((number * 31 + at * 7) % 251).unwrap()).collect();
        let position = files.append(&contents);
        let after = self.records.last().map_or(0, |(last, _)| *last);
        assert!(position > after, "positions rise");
        self.records.push((position, contents));
    }

    fn check(&self, files: &BlockFiles) {
        let (reader, mut out) = (files.reader(), Vec::new());
        let start = files.reader().start();
        assert!(start / 4096 <= self.removed / 4096, "nothing is removed that was not asked for");
        for (number, (position, record)) in self.records.iter().enumerate() {
            let there = *position >= start;
            assert_eq!(files.read_into(*position, &mut out).unwrap(), there);
            assert!(!there || out == *record);
            if number < self.published {
                assert_eq!(reader.read(*position).unwrap(), there.then(|| record.clone()));
            } else if there {
                assert!(reader.read(*position).is_err(), "not published");
            }
            let between = *position + 1;
            if there && self.records.get(number + 1).is_none_or(|(next, _)| *next != between) {
                assert!(files.read_into(between, &mut out).is_err() && reader.read(between).is_err());
            }
        }
        let published = &self.records[..self.published];
        let from = published.len() / 2;
        let expected = |from: usize| published[from..].iter().filter(|(at, _)| *at >= start).cloned();
        for (from, position) in [(0, 0), (from, published.get(from).map_or(0, |(at, _)| *at))] {
            let scanned: Vec<_> = reader.scan(position, u64::MAX).map(Result::unwrap).collect();
            assert_eq!(scanned, expected(from).collect::<Vec<_>>());
            let to = published.last().map_or(0, |(at, _)| *at);
            let scanned = reader.scan(position, to).count();
            assert_eq!(scanned, expected(from).count().saturating_sub(1));
        }
        assert_eq!(files.reader().verify(u64::MAX).unwrap(), expected(0).count() as u64);
        for (end, before) in &self.ends {
            if end.position >= start && *before <= self.published {
                let scanned: Vec<_> = reader.scan(end.position, u64::MAX).map(Result::unwrap).collect();
                assert_eq!(scanned, &published[*before..], "an end is a place to scan from");
            }
        }
    }

    fn reopen(&mut self, fs: &SimFs, which: usize) -> BlockFiles {
        let (end, before) = match self.ends.len() {
            0 => (None, 0),
            n => (Some(self.ends[which % n].0.clone()), self.ends[which % n].1),
        };
        self.ends.retain(|(kept, _)| end.as_ref().is_some_and(|end| kept.position <= end.position));
        let mut files = open_with(fs, end.clone(), Options { needed_from: self.removed, ..SMALL }).unwrap();
        assert_eq!(files.end(), end.unwrap_or(End { position: 16, tail: Vec::new() }));
        let again = self.records.split_off(before);
        self.published = before;
        self.check(&files);
        for (position, contents) in again {
            assert_eq!(files.append(&contents), position, "the same records get the same positions");
            self.records.push((position, contents));
        }
        files
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_files_are_a_list_of_records(steps in steps()) {
        let fs = SimFs::new(1);
        let (mut files, mut model) = (open(&fs, None), Model::default());
        for step in steps {
            match step {
                Step::Append(length) => model.append(&mut files, length),
                Step::Publish => {
                    files.publish();
                    model.published = model.records.len();
                }
                Step::Run(jobs) => (0..jobs).map_while(|_| files.take_job()).for_each(|job| job.run().unwrap()),
                Step::Checkpoint => {
                    model.ends.push((files.end(), model.records.len()));
                    flush(&mut files);
                    files.sync_handle().sync().unwrap();
                    prop_assert_eq!(files.pending_chunks(), 0);
                }
                Step::Reopen(which) => files = model.reopen(&fs, which),
                Step::RemoveBefore(which) => {
                    // As an owner must: only what the last checkpoint does not need.
                    let Some((end, _)) = model.ends.last().cloned() else { continue };
                    let position = which as u64 % (end.position + 1);
                    model.ends.retain(|(kept, _)| kept.position >= position);
                    model.removed = model.removed.max(position);
                    files.remove_before(position).into_iter().for_each(|job| job.run().unwrap());
                }
            }
            model.check(&files);
        }
    }
}

#[test]
fn the_golden_file_is_read_and_written_byte_for_byte() {
    const GOLDEN: &[u8] = include_bytes!("../../../tests/fixtures/v1.blk");
    let options = Options { file_blocks: 64, ..SMALL };
    let fs = SimFs::new(1);
    let mut files = open_with(&fs, None, options).unwrap();
    let positions = append(&mut files, 0..40);
    flush(&mut files);
    assert_eq!(fs.bytes_of(&file(0)).unwrap(), GOLDEN);

    let end = files.end();
    let fixture = SimFs::new(2);
    fixture.put(&file(0), GOLDEN);
    let files = open_with(&fixture, Some(end), options).unwrap();
    for (number, position) in positions.into_iter().enumerate() {
        assert_eq!(files.reader().read(position).unwrap(), Some(record(number)));
    }
    assert_eq!(files.reader().verify(u64::MAX).unwrap(), 40);
}

#[test]
fn a_block_is_filled_to_its_last_byte() {
    let fs = SimFs::new(1);
    let mut files = open(&fs, None);
    assert_eq!((files.append(&[1; RECORD_MAX]), files.append(&[])), (16, 4096 + 16));
    // 4 bytes left, then an empty record in the last two of them.
    assert_eq!(files.append(&[2; RECORD_MAX - 6]), 4096 + 18);
    assert_eq!((files.append(&[]), files.append(&[])), (2 * 4096 - 4, 2 * 4096 - 2));
    assert_eq!(files.end(), End { position: 2 * 4096 + 16, tail: Vec::new() });
    // One byte left is no room for anything.
    files.append(&[3; RECORD_MAX - 1]);
    assert_eq!(files.end().position, 3 * 4096 + 16);
    files.publish();
    flush(&mut files);
    assert_eq!(
        (files.reader().verify(u64::MAX).unwrap(), fs.bytes_of(&file(0)).unwrap().len()),
        (6, 3 * 4096)
    );
}

#[test]
#[should_panic(expected = "does not fit a block")]
fn a_record_longer_than_a_block_is_refused() {
    open(&SimFs::new(1), None).append(&[0; RECORD_MAX + 1]);
}

#[test]
fn pending_chunks_are_counted_until_they_are_written() {
    let mut files = open(&SimFs::new(1), None);
    let positions: Vec<u64> = (0..10).map(|_| files.append(&[1; RECORD_MAX])).collect();
    assert_eq!(positions[9], 9 * 4096 + 16);
    // Ten full blocks: two chunks of the first file, two of the second, one of the third.
    assert_eq!(files.pending_chunks(), 5);
    let jobs: Vec<_> = std::iter::from_fn(|| files.take_job()).collect();
    assert_eq!((jobs.len(), files.pending_chunks()), (5, 5));
    jobs.into_iter().for_each(|job| job.run().unwrap());
    assert_eq!(files.pending_chunks(), 0);
}

#[test]
fn removed_files_are_gone_and_the_rest_stays() {
    let fs = SimFs::new(1);
    let mut files = open(&fs, None);
    let positions = append(&mut files, 0..150);
    flush(&mut files);
    assert_eq!(names(&fs).len(), 4);
    let reader = files.reader();
    assert_eq!(reader.read(positions[0]).unwrap(), Some(Vec::new()));
    let scan = reader.scan(0, u64::MAX);
    let second = 4 * 4096 + 16;
    files.remove_before(8 * 4096 - 1).unwrap().run().unwrap();
    assert!(files.remove_before(second).is_none(), "done");
    assert_eq!((files.reader().start(), reader.start(), names(&fs).len()), (second, second, 3));
    assert_eq!(reader.read(positions[0]).unwrap(), None);
    let kept = positions.iter().filter(|at| **at >= second);
    assert!(scan.map(|item| item.unwrap().0).eq(kept.copied()), "the scan leaves out what went");

    files.sync_handle().sync().unwrap();
    let end = files.end();
    assert!(is_damaged(&open_with(&fs, Some(end.clone()), SMALL), &file(0)), "all of it was needed");
    let files = open_with(&fs, Some(end.clone()), Options { needed_from: second, ..SMALL }).unwrap();
    assert_eq!(files.reader().start(), second);
    // A crash may bring a removed file back before one that stays removed.
    fs.put(&file(0), &[0; 4 * 4096]);
    fs.remove(&file(4)).unwrap();
    let files = open_with(&fs, Some(end), Options { needed_from: 8 * 4096, ..SMALL }).unwrap();
    assert_eq!((files.reader().start(), names(&fs).len()), (8 * 4096 + 16, 2));
}

#[test]
fn more_files_than_handles_can_be_read() {
    let fs = SimFs::new(1);
    let mut files = open(&fs, None);
    let positions = append(&mut files, 0..1000);
    flush(&mut files);
    assert!(names(&fs).len() > 20);
    for at in (0..1000).chain((0..1000).rev()).chain((0..1000).map(|n| n * 619 % 1000)) {
        assert_eq!(files.reader().read(positions[at]).unwrap(), Some(record(at)));
    }
}
