//! Several runs into one.
//!
//! Memory beside the new run's own filter and fences: a piece of 256 KiB per input and one for the output.

use std::path::Path;
use std::sync::Arc;

use holdfast_disk::{FileSystem, LogId};

use super::format::Header;
use super::run::Iter;
use super::write::write_run;
use super::{Entry, Run, RunName};
use crate::StoreError;

/// Writes a run of all entries of `inputs`, which stay as they are. Durable when it returns. `pause` is called
/// after every piece written: whoever is more urgent may run then.
pub(crate) fn merge(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    name: RunName,
    log_id: LogId,
    key: u64,
    inputs: &[Arc<Run>],
    pause: &mut dyn FnMut(),
) -> Result<Run, StoreError> {
    assert!(inputs.iter().all(|run| run.log_id() == log_id && run.name() < name), "not runs of this log");
    let count = inputs.iter().map(|run| run.len()).sum();
    let smallest = inputs.iter().map(|run| run.ends().0).min().unwrap_or(0);
    let largest = inputs.iter().map(|run| run.ends().1).max().unwrap_or(0);
    let header = Header::new(name, log_id, key, count, (smallest, largest));
    write_run(fs, dir, header, key, pause, |writer, pause| {
        let mut sources = Vec::with_capacity(inputs.len());
        for run in inputs {
            let mut rest = run.iter();
            if let Some(head) = rest.next().transpose()? {
                sources.push(Source { head, rest });
            }
        }
        let mut last = None;
        // So few sources that looking at all of them beats a heap.
        while let Some(least) = least(&sources) {
            let Source { head, rest } = &mut sources[least];
            if last == Some(head.id) {
                let found = format!("id {:032x} is in another run as well", head.id);
                return Err(StoreError::damaged(rest.run().path(), rest.block_position(), found));
            }
            last = Some(head.id);
            writer.push(*head, pause)?;
            match rest.next().transpose()? {
                Some(next) => *head = next,
                None => drop(sources.swap_remove(least)),
            }
        }
        Ok(())
    })
}

/// An input: its smallest entry that is not written yet, and what follows.
struct Source<'a> {
    head: Entry,
    rest: Iter<'a>,
}

fn least(sources: &[Source<'_>]) -> Option<usize> {
    (0..sources.len()).min_by_key(|&at| sources[at].head.id)
}
