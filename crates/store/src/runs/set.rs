//! The runs that are valid together. A value: changing it gives another one.

use std::sync::Arc;

use super::bloom::{Filter, Probe};
use super::format::Header;
use super::{Run, RunName};
use crate::StoreError;

/// Ids that are tested together: one bit each.
const PROBES_TOGETHER: usize = 64;

/// How many runs of a class become one.
const FAN_IN: usize = 8;

/// Runs with fewer ids are all of the smallest class.
const SMALL: u64 = 64 * 1024;

/// Runs of which no two hold the same id. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RunSet {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By name.
    runs: Vec<Arc<Run>>,
    /// One per run, in the same order: all that a miss looks at, side by side.
    doors: Vec<Door>,
    ids: u64,
}

/// What a question meets before it comes to a run.
struct Door {
    smallest: u128,
    largest: u128,
    filter: Filter,
}

impl Door {
    #[inline]
    const fn is_for(&self, id: u128) -> bool {
        (id >= self.smallest) & (id <= self.largest)
    }
}

impl RunSet {
    /// A set of these runs.
    pub(crate) fn of(mut runs: Vec<Arc<Run>>) -> RunSet {
        runs.sort_unstable_by_key(|run| run.name());
        assert!(runs.windows(2).all(|pair| pair[0].name() < pair[1].name()), "a run is in the set twice");
        let doors = runs.iter().map(|run| {
            let Header { smallest, largest, .. } = run.header;
            Door { smallest, largest, filter: run.filter.clone() }
        });
        let doors = doors.collect();
        let ids = runs.iter().map(|run| run.len()).sum();
        RunSet { inner: Arc::new(Inner { runs, doors, ids }) }
    }

    /// The place of an id; `hash` is its [`hash_id`](super::hash_id).
    #[inline]
    pub(crate) fn get(&self, hash: u64, id: u128) -> Result<Option<u64>, StoreError> {
        debug_assert!(self.inner.runs.first().is_none_or(|run| run.hashes_to(hash, id)), "another id's hash");
        let probe = Probe::of(hash);
        for (at, door) in self.inner.doors.iter().enumerate() {
            if door.is_for(id) && door.filter.may_hold(&probe) {
                let place = self.inner.runs[at].look_up(id)?;
                if place.is_some() {
                    return Ok(place);
                }
            }
        }
        Ok(None)
    }

    /// Those of the ids that may be in a run, given with their hashes; nearly all others are left out. Run by run and not
    /// id by id, so that the processor fetches many lines of a filter at a time.
    pub(crate) fn suspects(&self, ids: &[(u64, u128)]) -> Vec<(u64, u128)> {
        let mut suspects = Vec::new();
        for ids in ids.chunks(PROBES_TOGETHER) {
            let probes: Vec<Probe> = ids.iter().map(|(hash, _)| Probe::of(*hash)).collect();
            let mut may_hold = 0_u64;
            for door in &self.inner.doors {
                // Ids that rise with time are outside of every run and touch no filter at all.
                if !ids.iter().any(|(_, id)| door.is_for(*id)) {
                    continue;
                }
                door.filter.fetch(&probes);
                for (at, (probe, (_, id))) in probes.iter().zip(ids).enumerate() {
                    may_hold |= u64::from(door.is_for(*id) & door.filter.may_hold(probe)) << at;
                }
            }
            while may_hold != 0 {
                suspects.push(ids[may_hold.trailing_zeros() as usize]);
                may_hold &= may_hold - 1;
            }
        }
        suspects
    }

    /// This set and one run more.
    pub(crate) fn with(&self, run: Arc<Run>) -> RunSet {
        let mut runs = self.inner.runs.clone();
        runs.push(run);
        RunSet::of(runs)
    }

    /// This set with `merged` in place of the runs that were merged into it.
    pub(crate) fn replace(&self, inputs: &[Arc<Run>], merged: Arc<Run>) -> RunSet {
        let mut runs = self.inner.runs.clone();
        runs.retain(|run| inputs.iter().all(|input| input.name() != run.name()));
        assert_eq!(runs.len() + inputs.len(), self.len(), "what was merged is not in the set");
        runs.push(merged);
        let set = RunSet::of(runs);
        assert_eq!(set.ids(), self.ids(), "a merge neither adds nor loses an id");
        set
    }

    /// The names of its runs, rising.
    pub(crate) fn names(&self) -> Vec<RunName> {
        self.inner.runs.iter().map(|run| run.name()).collect()
    }

    /// Its runs by name.
    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.inner.runs
    }

    /// How many runs.
    pub(crate) fn len(&self) -> usize {
        self.inner.runs.len()
    }

    /// Whether there is no run.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.runs.is_empty()
    }

    /// How many ids in all of them.
    pub(crate) fn ids(&self) -> u64 {
        self.inner.ids
    }

    /// The runs to be merged next: the eight oldest of the smallest class that has so many.
    pub(crate) fn due_merge(&self) -> Option<Vec<Arc<Run>>> {
        let counts: Vec<u64> = self.inner.runs.iter().map(|run| run.len()).collect();
        Some(due(&counts)?.into_iter().map(|at| self.inner.runs[at].clone()).collect())
    }
}

/// Which of the runs with these counts are to be merged.
fn due(counts: &[u64]) -> Option<Vec<usize>> {
    let mut classes: std::collections::BTreeMap<u32, Vec<usize>> = std::collections::BTreeMap::new();
    for (at, &count) in counts.iter().enumerate() {
        classes.entry(class(count)).or_default().push(at);
    }
    let mut members = classes.into_values().find(|members| members.len() >= FAN_IN)?;
    members.truncate(FAN_IN);
    Some(members)
}

/// Classes are powers of eight; eight runs of one make a run of the next, but for the smallest.
fn class(count: u64) -> u32 {
    (count / SMALL).checked_ilog2().map_or(0, |log| log / 3 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_eight() {
        let counts = [1, SMALL - 1, SMALL, 8 * SMALL - 1, 8 * SMALL, 64 * SMALL - 1, 64 * SMALL, 512 * SMALL];
        assert_eq!(counts.map(class), [0, 0, 1, 1, 2, 2, 3, 4]);
        for n in 1..10 {
            let least = SMALL << (3 * (n - 1));
            assert_eq!(class(8 * least), class(least) + 1);
            assert_eq!(class(8 * (8 * least - 1)), class(8 * least - 1) + 1);
        }
    }

    #[test]
    fn eight_of_a_class_are_due_the_oldest_first_and_the_smallest_class_first() {
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[350_000; 7]), None);
        assert_eq!(due(&[350_000; 10]), Some((0..8).collect()));
        let mixed = [[3_000_000, 350_000]; 7].concat();
        assert_eq!(due(&mixed), None);
        let mixed = [mixed, vec![3_000_000, 350_000]].concat();
        assert_eq!(due(&mixed), Some((0..8).map(|n| 2 * n + 1).collect()));
    }

    #[test]
    fn a_thousand_checkpoints_leave_few_runs() {
        let mut counts = Vec::new();
        for _ in 0..1_000 {
            counts.push(350_000_u64);
            while let Some(members) = due(&counts) {
                let merged = members.iter().map(|&at| counts[at]).sum();
                counts = (0..counts.len()).filter(|at| !members.contains(at)).map(|at| counts[at]).collect();
                counts.push(merged);
            }
            assert!(counts.len() <= 4 * (FAN_IN - 1));
        }
        assert_eq!(counts.iter().sum::<u64>(), 350_000_000);
    }
}
