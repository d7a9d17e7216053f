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
