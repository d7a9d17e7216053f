//! The ids of some runs held against those of others that are known to be right. Reads only, in bounded memory.

use std::path::PathBuf;
use std::sync::Arc;

use super::Run;
use super::merge::{Found, Merged};
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
    let mut other = right.next()?;
    while let Some(Found { entry: own, run, .. }) = ours.next()? {
        while let Some(sound) = &other
            && sound.entry.id < own.id
        {
            show(WrongId::Missing { id: sound.entry.id });
            other = right.next()?;
        }
        match &other {
            Some(Found { entry: sound, .. }) if sound.id == own.id => {
                if sound.place != own.place {
                    let (id, place, right) = (own.id, own.place, sound.place);
                    show(WrongId::Misplaced { run: run.path.clone(), id, place, right });
                }
                other = right.next()?;
            }
            _ => show(WrongId::Extra { run: run.path.clone(), id: own.id }),
        }
    }
    while let Some(sound) = other {
        show(WrongId::Missing { id: sound.entry.id });
        other = right.next()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Entry;
    use super::super::tests::{new_fs, seal_in};
    use super::*;

    /// Runs of these entries; an empty list makes none.
    fn sealed(lists: &[Vec<Entry>]) -> Vec<Arc<Run>> {
        let fs = new_fs();
        let run =
            |(entries, number): (&Vec<Entry>, u64)| Arc::new(seal_in(&fs, number, entries.clone()).unwrap());
        lists.iter().zip(1..).filter(|(entries, _)| !entries.is_empty()).map(run).collect()
    }

    fn dealt(ids: &[u128], runs: usize) -> Vec<Vec<Entry>> {
        let mut lists = vec![Vec::new(); runs];
        ids.iter().enumerate().for_each(|(at, id)| {
            lists[at % runs].push(Entry { id: *id, place: u64::try_from(*id).unwrap() * 10 });
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
            runs in (1_usize..5, 1_usize..5),
        ) {
            let all: Vec<u128> = both.iter().copied().collect();
            let left: Vec<u128> = both.difference(&lost).copied().collect();
            let missing: Vec<u128> = both.intersection(&lost).copied().collect();
            let (right, ours) = (sealed(&dealt(&all, runs.0)), sealed(&dealt(&left, runs.1)));
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
