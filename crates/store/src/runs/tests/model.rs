//! Whatever is sealed, merged and opened again: the answers are those of an ordered map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Finish that many ids and seal them.
    Seal(usize),
    /// Merge the runs from there on, at most that many.
    Merge(usize, usize),
    /// Open every run again.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![1..5_usize, 160..180_usize, 1..600_usize].prop_map(Step::Seal),
        2 => (0..6_usize, 1..9_usize).prop_map(|(from, count)| Step::Merge(from, count)),
        1 => Just(Step::Reopen),
    ]
}

/// How clients choose their ids.
#[derive(Clone, Copy, Debug)]
enum Ids {
    Random,
    Rising,
    Falling,
    /// All upper halves equal, and equal to the constant that the hash function's source shows.
    OneUpperHalf,
    /// All lower halves equal.
    OneLowerHalf,
}

impl Ids {
    fn nth(self, n: u64) -> u128 {
        let n = u128::from(n);
        match self {
            Ids::Random => (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
            Ids::Rising => 0x0190_0000_0000_7000_8000_0000_0000_0000 + (n << 70),
            Ids::Falling => u128::MAX - n,
            Ids::OneUpperHalf => u128::from(PUBLIC_SEED) << 64 | n,
            Ids::OneLowerHalf => n << 64,
        }
    }
}

fn reopened(fs: &SimFs, set: &RunSet) -> RunSet {
    RunSet::of(set.names().iter().map(|name| Arc::new(open_in(fs, name.0).expect("open"))).collect())
}

fn agrees(set: &RunSet, model: &BTreeMap<u128, u64>) -> Result<(), TestCaseError> {
    prop_assert_eq!(set.ids(), model.len() as u64);
    for (&id, &place) in model {
        prop_assert_eq!(set.get(hash_id(KEY, id), id).expect("get"), Some(place));
        for near in [id.wrapping_sub(1), id.wrapping_add(1), id ^ 1 << 64, id.reverse_bits()] {
            let expected = model.get(&near).copied();
            prop_assert_eq!(set.get(hash_id(KEY, near), near).expect("get"), expected);
        }
    }
    let mut walked = Vec::new();
    for run in set.runs() {
        prop_assert_eq!(run.verify().expect("verify"), run.len());
        let run = all(run);
        prop_assert!(run.windows(2).all(|pair| pair[0].id < pair[1].id));
        walked.extend(run);
    }
    walked.sort_unstable();
    prop_assert!(walked.iter().map(|entry| (&entry.id, &entry.place)).eq(model));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn runs_answer_as_a_map_does(
        ids in prop_oneof![
            Just(Ids::Random), Just(Ids::Rising), Just(Ids::Falling), Just(Ids::OneUpperHalf), Just(Ids::OneLowerHalf)
        ],
        steps in prop::collection::vec(step(), 1..14),
    ) {
        let fs = new_fs();
        let mut set = RunSet::default();
        let mut model = BTreeMap::new();
        let (mut names, mut finished) = (0, 0_u64);
        for step in steps {
            match step {
                Step::Seal(count) => {
                    let batch: Vec<Entry> = (finished..finished + count as u64)
                        .map(|n| Entry { id: ids.nth(n), place: n.wrapping_mul(3) })
                        .collect();
                    finished += count as u64;
                    model.extend(batch.iter().map(|entry| (entry.id, entry.place)));
                    names += 1;
                    set = set.with(Arc::new(seal_in(&fs, names, batch).expect("seal")));
                }
                Step::Merge(from, count) => {
                    let inputs: Vec<Arc<Run>> = set.runs().iter().skip(from).take(count).cloned().collect();
                    if !inputs.is_empty() {
                        names += 1;
                        let merged = merge_in(&fs, names, &inputs).expect("merge");
                        set = set.replace(&inputs, Arc::new(merged));
                    }
                }
                Step::Reopen => set = reopened(&fs, &set),
            }
        }
        agrees(&set, &model)?;
        agrees(&reopened(&fs, &set), &model)?;
    }
}

#[test]
fn a_set_is_a_value() {
    let fs = new_fs();
    let runs: Vec<Arc<Run>> =
        (1..=8).map(|n| Arc::new(seal_in(&fs, n, entries(n, 100)).expect("seal"))).collect();
    let seven = RunSet::of(runs[..7].to_vec());
    assert!(seven.due_merge().is_none());
    let eight = seven.with(runs[7].clone());
    let due = eight.due_merge().expect("eight small runs");
    assert_eq!(due.iter().map(|run| run.name()).collect::<Vec<_>>(), eight.names());
    let merged = eight.replace(&due, Arc::new(merge_in(&fs, 9, &due).expect("merge")));
    assert_eq!((seven.len(), eight.len(), merged.len()), (7, 8, 1));
    assert_eq!((seven.ids(), eight.ids(), merged.ids()), (700, 800, 800));
    assert_eq!(merged.names(), [RunName(9)]);
    let entry = entries(8, 100)[50];
    let hash = hash_id(KEY, entry.id);
    let answers = [&seven, &eight, &merged].map(|set| set.get(hash, entry.id).expect("get"));
    assert_eq!(answers, [None, Some(entry.place), Some(entry.place)]);
    assert!(RunSet::default().is_empty() && RunSet::default().get(hash, entry.id).expect("get").is_none());
}

#[test]
fn the_smallest_and_the_largest_id_of_all_are_ids_like_others() {
    let fs = new_fs();
    let ends = [Entry { id: u128::MAX, place: u64::MAX }, Entry { id: 0, place: 0 }];
    let run = Arc::new(seal_in(&fs, 1, ends.to_vec()).expect("seal"));
    let other = Arc::new(seal_in(&fs, 2, vec![Entry { id: 1, place: 9 }]).expect("seal"));
    let merged = merge_in(&fs, 3, &[run, other]).expect("merge");
    let found = [0, 1, 2, u128::MAX - 1, u128::MAX].map(|id| get(&merged, id).expect("get"));
    assert_eq!(found, [Some(0), Some(9), None, None, Some(u64::MAX)]);
}

#[test]
fn memory_and_file_are_as_large_as_said() {
    let fs = new_fs();
    let run = seal_in(&fs, 1, entries(1, 100_000)).expect("seal");
    assert_eq!(run.file_bytes(), fs.bytes_of(&path(1)).expect("read").len() as u64);
    let per_id = run.memory_bytes() as f64 / run.len() as f64;
    assert!((3.2..3.4).contains(&per_id), "{per_id} bytes of memory per id");
}

#[test]
fn a_merge_pauses_between_pieces() {
    let fs = new_fs();
    let inputs = [1, 2].map(|n| Arc::new(seal_in(&fs, n, entries(n, 30_000)).expect("seal")));
    let mut pauses = 0;
    let merged = merge(&folder(&fs), RunName(3), &inputs, &mut || pauses += 1).expect("merge");
    assert_eq!(pauses, merged.file_bytes() / (256 * 1024));
}

#[test]
#[should_panic(expected = "does not follow the one before it")]
fn an_id_twice_in_one_run_is_a_bug() {
    let twice = [entries(1, 10), entries(1, 1)].concat();
    let _ = seal_in(&new_fs(), 1, twice);
}

#[test]
fn an_id_in_two_runs_is_damage() {
    let fs = new_fs();
    let common = entries(1, 1);
    let inputs = [
        Arc::new(seal_in(&fs, 1, entries(1, 500)).expect("seal")),
        Arc::new(seal_in(&fs, 2, [entries(2, 500), common].concat()).expect("seal")),
    ];
    let error = merge_in(&fs, 3, &inputs).expect_err("an id finished twice");
    assert!(matches!(&error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(fs.list(dir()).expect("list").len(), 2, "nothing of the merge is left");
}

#[test]
fn a_name_in_use_is_not_used_again() {
    let fs = new_fs();
    seal_in(&fs, 1, entries(1, 10)).expect("seal");
    let error = seal_in(&fs, 1, entries(2, 10)).expect_err("the name is taken");
    assert!(matches!(&error, StoreError::Io { .. }), "{error}");
    assert_eq!(all(&open_in(&fs, 1).expect("open")), sorted(entries(1, 10)));
}

/// The operating system's files, with direct IO where the file system of the temporary directory has it.
#[test]
fn real_files_hold_what_was_sealed() {
    let temporary = tempfile::tempdir().expect("a directory");
    let fs = Arc::new(holdfast_disk::RealFs);
    let folder = RunFolder { fs, dir: temporary.path().to_owned(), log_id: LOG, key: KEY };
    let seal = |n| seal(&folder, RunName(n), entries(n, 30_000), &mut || {}).expect("seal");
    let inputs = [1, 2, 3].map(|n| Arc::new(seal(n)));
    let merged = merge(&folder, RunName(4), &inputs, &mut || {}).expect("merge");
    let reopened = Run::open(&folder, RunName(4)).expect("open");
    let expected = sorted((1..=3).flat_map(|n| entries(n, 30_000)).collect());
    assert!(all(&merged) == expected && all(&reopened) == expected);
    assert_eq!(reopened.verify().expect("verify"), 90_000);
    for entry in expected.iter().step_by(97) {
        assert_eq!(get(&reopened, entry.id).expect("get"), Some(entry.place));
    }
}
