//! Several runs into one.
//!
//! Memory beside the new run's own filter and fences: a piece of 256 KiB per input and one for the output.

use std::sync::Arc;

use super::format::Header;
use super::run::Iter;
use super::write::write_run;
use super::{Entry, Run, RunFolder, RunName};
use crate::StoreError;

/// Writes a run of all entries of `inputs`, which stay as they are. Durable when it returns. `pause` is called
/// after every piece written: whoever is more urgent may run then.
pub(crate) fn merge(
    folder: &RunFolder,
    name: RunName,
    inputs: &[Arc<Run>],
    pause: &mut dyn FnMut(),
) -> Result<Run, StoreError> {
    let are_ours = inputs.iter().all(|run| run.header.log_id == folder.log_id && run.name() < name);
    assert!(are_ours, "not runs of this log");
    let count = inputs.iter().map(|run| run.len()).sum();
    let smallest = inputs.iter().map(|run| run.header.smallest).min().unwrap_or(0);
    let largest = inputs.iter().map(|run| run.header.largest).max().unwrap_or(0);
    let header = Header::new(folder, name, count, (smallest, largest));
    write_run(folder, header, pause, |writer, pause| {
        let mut entries = Merged::of(inputs)?;
        let mut last = None;
        while let Some(Found { entry, run, block }) = entries.next()? {
            if last == Some(entry.id) {
                let found = format!("id {:032x} is in another run as well", entry.id);
                return Err(StoreError::damaged(&run.path, block, found));
            }
            last = Some(entry.id);
            writer.push(entry, pause)?;
        }
        Ok(())
    })
}

/// The entries of several runs by id.
pub(super) struct Merged<'a> {
    /// The smallest entry of each run that was not shown yet, and what follows it.
    sources: Vec<(Entry, Iter<'a>)>,
}

/// An entry, its run, and where its block begins there.
pub(super) struct Found<'a> {
    pub entry: Entry,
    pub run: &'a Run,
    pub block: u64,
}

impl<'a> Merged<'a> {
    pub(super) fn of(runs: &'a [Arc<Run>]) -> Result<Merged<'a>, StoreError> {
        let mut sources = Vec::with_capacity(runs.len());
        for run in runs {
            let mut rest = run.iter();
            sources.extend(rest.next().transpose()?.map(|head| (head, rest)));
        }
        Ok(Merged { sources })
    }

    pub(super) fn next(&mut self) -> Result<Option<Found<'a>>, StoreError> {
        // So few sources that looking at all of them beats a heap.
        let Some(least) = (0..self.sources.len()).min_by_key(|at| self.sources[*at].0.id) else {
            return Ok(None);
        };
        let (head, rest) = &mut self.sources[least];
        let found = Found { entry: *head, run: rest.run(), block: rest.block_position() };
        match rest.next().transpose()? {
            Some(next) => *head = next,
            None => drop(self.sources.swap_remove(least)),
        }
        Ok(Some(found))
    }
}
