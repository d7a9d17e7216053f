//! Invariant 6. Deciding the log again gives the same rows and the same chain: beside the running hub, after every
//! restart from a checkpoint and the rest of the log, and at a second restart right after the first. Sending an
//! earlier command again changes no row.

use holdfast_hub::{CallbackRow, Core, Progress};
use holdfast_store::{LocalStore, StoreError};

use super::expect;
use crate::diary::Named;
use crate::rows::{Rows, difference_in_memory};
use crate::witness::Witness;

/// A state to compare others with.
#[derive(Debug)]
pub struct ReplayChangesNothing {
    progress: Progress,
    rows: Rows,
    callbacks: Vec<CallbackRow>,
}

impl ReplayChangesNothing {
    /// What the log says, decided from its first frame on.
    pub fn by_the_log(witness: &Witness, named: &Named) -> ReplayChangesNothing {
        ReplayChangesNothing {
            progress: *witness.core.progress(),
            rows: Rows::of_witness(witness.core.store(), named),
            callbacks: witness.callbacks.to_vec(),
        }
    }

    /// What a hub has, in memory and on the disk.
    ///
    /// # Errors
    /// If the disk does not give what was written to it.
    pub fn by_the_hub(core: &Core<LocalStore>, named: &Named) -> Result<ReplayChangesNothing, StoreError> {
        let rows = core.store().callback_rows();
        let callbacks = rows.scan(0, rows.end()).map(|row| {
            let (at, bytes) = row?;
            CallbackRow::from_bytes(&bytes)
                .ok_or_else(|| rows.damaged(at, "no callback of that number stands there"))
        });
        Ok(ReplayChangesNothing {
            callbacks: callbacks.collect::<Result<_, StoreError>>()?,
            progress: *core.progress(),
            rows: Rows::of_hub(core.store(), named)?,
        })
    }

    /// Another way to the same offset led to the same state.
    pub fn same_state(&self, other: &ReplayChangesNothing, whose: &str) -> Result<(), String> {
        let end = self.progress.end;
        let there = other.progress.end;
        expect(end == there, || format!("{whose}: ends at {there} and not at {end}"))?;
        if let Some(difference) = self.rows.difference(&other.rows) {
            return Err(format!("{whose}, at offset {end}: {difference}"));
        }
        if self.callbacks != other.callbacks {
            let counts = (self.callbacks.len(), other.callbacks.len());
            return Err(format!("{whose}, at offset {end}: other callbacks, {counts:?}"));
        }
        same_progress(&self.progress, &other.progress).map_err(|said| format!("{whose}: {said}"))
    }

    /// Commands came a second time: the log went on and no row is another.
    pub fn same_rows(&self, later: &ReplayChangesNothing) -> Result<(), String> {
        if later.progress.end <= self.progress.end {
            return Err("the repeats were not decided at all".to_owned());
        }
        match self.rows.difference(&later.rows) {
            Some(difference) => {
                Err(format!("repeats between {} and {}: {difference}", self.progress.end, later.progress.end))
            }
            None => Ok(()),
        }
    }
}

/// What the hub has in memory is what the log says. Reads no disk, so it can be asked every turn.
pub fn same_in_memory(hub: &Core<LocalStore>, witness: &Witness) -> Result<(), String> {
    same_progress(hub.progress(), witness.core.progress())?;
    match difference_in_memory(hub.store(), witness.core.store()) {
        Some(difference) => Err(format!("in memory, at offset {}: {difference}", hub.end())),
        None => Ok(()),
    }
}

fn same_progress(ours: &Progress, theirs: &Progress) -> Result<(), String> {
    expect(ours.end == theirs.end, || format!("ends at {} and not at {}", ours.end, theirs.end))?;
    expect(ours.chain == theirs.chain, || format!("at offset {}: another chain hash", ours.end))?;
    expect(ours == theirs, || format!("other counts: {ours:?} against {theirs:?}"))
}
