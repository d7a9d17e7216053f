//! The ids of some runs held against those of others that are known to be right. Reads only, in bounded memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::run::Iter;
use super::{Entry, Run};
use crate::StoreError;

/// What is wrong with an id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WrongId {
    /// It is in no run.
    Missing { id: u128 },
    /// It is there, and should not be, or is there twice.
    Extra { run: PathBuf, id: u128 },
    /// It leads to another place than it should.
    Misplaced { run: PathBuf, id: u128, place: u64, right: u64 },
}

/// Compares what `ours` list with what `right` list.
pub(crate) fn compare(
    ours: &[Arc<Run>],
    right: &[Arc<Run>],
    show: &mut dyn FnMut(WrongId),
) -> Result<(), StoreError> {
    let (mut ours, mut right) = (Merged::of(ours)?, Merged::of(right)?);
    let (mut own, mut other) = (ours.next()?, right.next()?);
    loop {
        match (&own, &other) {
            (None, None) => return Ok(()),
            (Some((entry, run)), sound) if sound.as_ref().is_none_or(|(sound, _)| entry.id < sound.id) => {
                show(WrongId::Extra { run: run.to_path_buf(), id: entry.id });
                own = ours.next()?;
            }
            (Some((entry, run)), Some((sound, _))) if entry.id == sound.id => {
                if entry.place != sound.place {
                    let (id, place, right) = (entry.id, entry.place, sound.place);
                    show(WrongId::Misplaced { run: run.to_path_buf(), id, place, right });
                }
                own = ours.next()?;
                other = right.next()?;
            }
            (_, Some((sound, _))) => {
                show(WrongId::Missing { id: sound.id });
                other = right.next()?;
            }
            (Some(_), None) => unreachable!("taken by the second arm"),
        }
    }
}

/// The entries of several runs by id.
struct Merged<'a> {
    sources: Vec<(Entry, &'a Run, Iter<'a>)>,
}

impl<'a> Merged<'a> {
    fn of(runs: &'a [Arc<Run>]) -> Result<Merged<'a>, StoreError> {
        let mut sources = Vec::with_capacity(runs.len());
        for run in runs {
            let mut rest = run.iter();
            if let Some(head) = rest.next().transpose()? {
                sources.push((head, &**run, rest));
            }
        }
        Ok(Merged { sources })
    }

    fn next(&mut self) -> Result<Option<(Entry, &'a Path)>, StoreError> {
        let Some(least) = (0..self.sources.len()).min_by_key(|at| self.sources[*at].0.id) else {
            return Ok(None);
        };
        let (head, run, rest) = &mut self.sources[least];
        let entry = (*head, run.path());
        match rest.next().transpose()? {
            Some(next) => *head = next,
            None => drop(self.sources.swap_remove(least)),
        }
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use holdfast_disk::{FileSystem, LogId, SimFs};
    use proptest::prelude::*;

    use super::super::{RunName, seal};
    use super::*;

    /// Runs of these entries; an empty list makes none.
    fn sealed(lists: &[Vec<Entry>]) -> Vec<Arc<Run>> {
        let fs: Arc<dyn FileSystem> = Arc::new(SimFs::new(1));
        fs.create_dir_all(Path::new("/ids")).unwrap();
        let run = |(entries, number): (&Vec<Entry>, u64)| {
            let made =
                seal(&fs, Path::new("/ids"), RunName(number), LogId([1; 16]), 7, entries.clone(), &mut || {})
                    .unwrap();
            Arc::new(made)
        };
        lists.iter().zip(1..).filter(|(entries, _)| !entries.is_empty()).map(run).collect()
    }

    fn dealt(ids: &[u128], hands: usize) -> Vec<Vec<Entry>> {
        let mut lists = vec![Vec::new(); hands];
        ids.iter().enumerate().for_each(|(at, id)| {
            lists[at % hands].push(Entry { id: *id, place: u64::try_from(*id).unwrap() * 10 });
        });
        lists
    }

    fn wrong(ours: &[Arc<Run>], right: &[Arc<Run>]) -> Vec<WrongId> {
        let mut wrong = Vec::new();
        compare(ours, right, &mut |found| wrong.push(found)).unwrap();
        wrong
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        /// However ids are dealt to runs, what differs is what the sets of ids differ in.
        #[test]
        fn finds_what_the_sets_differ_in(
            both in prop::collection::btree_set(0_u128..2_000, 1..600),
            lost in prop::collection::btree_set(0_u128..2_000, 0..4),
            hands in (1_usize..5, 1_usize..5),
        ) {
            let all: Vec<u128> = both.iter().copied().collect();
            let left: Vec<u128> = both.difference(&lost).copied().collect();
            let missing: Vec<u128> = both.intersection(&lost).copied().collect();
            let (right, ours) = (sealed(&dealt(&all, hands.0)), sealed(&dealt(&left, hands.1)));
            let expected: Vec<WrongId> = missing.iter().map(|id| WrongId::Missing { id: *id }).collect();
            prop_assert_eq!(wrong(&ours, &right), expected);
            let extra: Vec<u128> = wrong(&right, &ours)
                .iter()
                .map(|found| match found {
                    WrongId::Extra { id, .. } => *id,
                    other => panic!("{other:?}"),
                })
                .collect();
            prop_assert_eq!(extra, missing);
        }
    }

    #[test]
    fn an_id_in_two_runs_or_with_another_place_is_found() {
        let entry = |id, place| Entry { id, place };
        let right = sealed(&[vec![entry(1, 10), entry(2, 20)]]);
        let twice = sealed(&[vec![entry(1, 10), entry(2, 20)], vec![entry(2, 20)]]);
        assert!(matches!(wrong(&twice, &right)[..], [WrongId::Extra { id: 2, .. }]));
        let moved = sealed(&[vec![entry(1, 10), entry(2, 30)]]);
        assert!(matches!(
            wrong(&moved, &right)[..],
            [WrongId::Misplaced { id: 2, place: 30, right: 20, .. }]
        ));
    }
}
