//! Records that ended: append-only blocks, found by ids of 128 bits.
//!
//! A record is appended and each of its ids is kept among the recent ones; a checkpoint seals those as a run, and runs are
//! merged in the background. So memory follows what was added since the last checkpoint, plus a filter per run. There are
//! two archives, alike in all but their folders and what their records say:
//!
//! | archive | folders | records | ids |
//! | --- | --- | --- | --- |
//! | ended | `outcomes`, `ids` | transfers that ended | the transfer's |
//! | spent | `spends`, `spent-ids` | spends, consumed tokens and paid orders | keyed hashes of spenders, token ids and order ids |
//!
//! An id is never added twice: two runs with the same id are damage.

mod recent;
mod sought;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::LogId;
use holdfast_domain::planted::{self, Bug};

use crate::StoreError;
use crate::blocks::{BlockFiles, BlockFolder, End, Kind, Options, Syncer};
use crate::folder::StoreFolder;
use crate::runs::{Entry, Run, RunFolder, RunName, RunSet, hash_id, merge, seal};
use recent::RecentIds;
pub use sought::Sought;

/// Which of the two archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Transfers.
    Ended,
    /// Spends, consumed tokens and paid orders.
    Spent,
}

impl Which {
    pub(crate) const ALL: [Which; 2] = [Which::Ended, Which::Spent];

    /// The folder of its records.
    pub(crate) fn records(self, place: &StoreFolder) -> BlockFolder {
        match self {
            Which::Ended => place.blocks("outcomes", Kind::Outcomes),
            Which::Spent => place.blocks("spends", Kind::Spends),
        }
    }

    /// A record is not the one that should stand at that place.
    pub(crate) fn damaged(self, place: &StoreFolder, at: u64, found: &str) -> StoreError {
        StoreError::damaged(&self.records(place).dir, at, found)
    }

    /// The folder of its runs.
    pub(crate) fn ids(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Which::Ended => "ids",
            Which::Spent => "spent-ids",
        })
    }

    /// The folder of its runs, and the id that they carry: runs of both archives have the same names, and one that a disk
    /// wrote astray into the other's file must not pass for it.
    pub(crate) fn runs(self, place: &StoreFolder) -> RunFolder {
        let log_id = match self {
            Which::Ended => place.log_id,
            Which::Spent => LogId(place.log_id.0.map(|byte| !byte)),
        };
        RunFolder { fs: Arc::clone(&place.fs), dir: self.ids(&place.dir), log_id, key: place.key() }
    }
}

/// One archive, as the deciding thread has it.
pub(crate) struct Archive {
    pub(crate) place: StoreFolder,
    which: Which,
    key: u64,
    /// Adding one makes it be found by no id yet.
    pub(crate) records: BlockFiles,
    /// Ids that were added since the last checkpoint.
    recent: RecentIds,
    /// Ids that a checkpoint in the making seals.
    sealing: Option<Arc<RecentIds>>,
    pub(crate) runs: RunSet,
    next_run: RunName,
    /// The run that a merge is making.
    merging: Option<RunName>,
}

/// What a checkpoint remembers of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Where the records end; `None`: there was none yet.
    pub(crate) end: Option<End>,
    pub(crate) runs: Vec<RunName>,
    pub(crate) next_run: RunName,
}

impl Remembered {
    /// Of an archive that has nothing.
    pub(crate) const fn nothing() -> Remembered {
        Remembered { end: None, runs: Vec::new(), next_run: RunName(1) }
    }
}

impl Archive {
    /// The archive as a checkpoint remembers it. What its records have after that is cut away.
    pub(crate) fn open(place: &StoreFolder, which: Which, past: Remembered) -> Result<Archive, StoreError> {
        let folder = which.runs(place);
        let open = |name: &RunName| Run::open(&folder, *name).map(Arc::new);
        let runs = past.runs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let records = BlockFiles::create_or_open(which.records(place), past.end, Options::default())?;
        let key = folder.key;
        Ok(Archive {
            place: place.clone(),
            which,
            key,
            records,
            recent: RecentIds::new(key),
            sealing: None,
            runs: RunSet::of(runs),
            next_run: past.next_run,
            merging: None,
        })
    }

    /// From now on that id leads to that place. It must not lead anywhere yet.
    pub(crate) fn index(&mut self, id: u128, place: u64) {
        let hash = hash_id(self.key, id);
        debug_assert!(self.unsealed(hash, id).is_none(), "an id leads to one place");
        // The planted fault is for the simulator to find, as it would without assertions.
        debug_assert!(
            planted::has(Bug::RowAheadOfCheckpoint) || !matches!(self.runs.get(hash, id), Ok(Some(_))),
            "an id leads to one place"
        );
        self.recent.insert(hash, Entry { id, place });
    }

    /// The hash of an id under which it is looked for.
    pub(crate) fn hash(&self, id: u128) -> u64 {
        hash_id(self.key, id)
    }

    /// The place of an id that was added since the last checkpoint; `hash` is its [`Archive::hash`].
    pub(crate) fn unsealed(&self, hash: u64, id: u128) -> Option<u64> {
        let sealing = || self.sealing.as_ref().and_then(|sealing| sealing.get(hash, id));
        self.recent.get(hash, id).or_else(sealing)
    }

    /// Those of the ids that are in runs, with their places. The ids are given with their hashes.
    pub(crate) fn sealed(&self, ids: &[(u64, u128)]) -> Result<Vec<(u128, u64)>, StoreError> {
        let mut found = Vec::new();
        for (hash, id) in self.runs.suspects(ids) {
            found.extend(self.runs.get(hash, id)?.map(|place| (id, place)));
        }
        Ok(found)
    }

    fn name_run(&mut self) -> RunName {
        let name = self.next_run;
        self.next_run = RunName(name.0 + 1);
        name
    }

    /// What a checkpoint needs of the archive as it stands. The blocks were flushed.
    pub(crate) fn freeze(&mut self) -> Frozen {
        let mut runs = self.runs.names();
        let sealing = (self.recent.len() > 0).then(|| {
            let recent = Arc::new(std::mem::replace(&mut self.recent, RecentIds::new(self.key)));
            self.sealing = Some(Arc::clone(&recent));
            let name = self.name_run();
            runs.push(name);
            (recent, name)
        });
        let (end, next_run) = (Some(self.records.end()), self.next_run);
        Frozen {
            which: self.which,
            past: Remembered { end, runs, next_run },
            syncer: self.records.sync_handle(),
            sealing,
            merging: self.merging,
        }
    }

    /// The checkpoint is durable, and with it the run that it made.
    pub(crate) fn thawed(&mut self, run: Option<Arc<Run>>) {
        self.sealing = None;
        if let Some(run) = run {
            self.runs = self.runs.with(run);
        }
    }

    /// The merge to be made now, if one is due and none is being made.
    pub(crate) fn due_merge(&mut self) -> Option<MergeJob> {
        if self.merging.is_some() {
            return None;
        }
        let inputs = self.runs.due_merge()?;
        let name = self.name_run();
        self.merging = Some(name);
        Some(MergeJob { folder: self.which.runs(&self.place), which: self.which, name, inputs })
    }

    /// Takes the merged run in place of those that it was made of.
    pub(crate) fn merged(&mut self, merged: Merged) {
        self.merging = None;
        let Merged { inputs, run, .. } = merged;
        self.runs = if planted::has(Bug::LostRunInMerge) {
            let is_input = |run: &Arc<Run>| inputs.iter().any(|input| input.name() == run.name());
            let left = self.runs.runs().iter().filter(|run| !is_input(run));
            RunSet::of(left.cloned().chain([run]).collect())
        } else {
            self.runs.replace(&inputs, run)
        };
    }
}

/// An archive as it stood when a checkpoint was begun.
pub(crate) struct Frozen {
    pub(crate) which: Which,
    pub(crate) past: Remembered,
    pub(crate) syncer: Syncer,
    /// The ids to seal, and the name of their run.
    sealing: Option<(Arc<RecentIds>, RunName)>,
    /// A run that is being made and listed nowhere.
    pub(crate) merging: Option<RunName>,
}

impl Frozen {
    /// Whether nothing was ever added.
    pub(crate) fn is_new(&self) -> bool {
        let begins = self.past.end.as_ref().is_none_or(End::is_begin);
        begins && self.past.next_run == Remembered::nothing().next_run
    }

    /// Seals the recent ids as a run. Durable when it returns.
    pub(crate) fn seal(
        &self,
        place: &StoreFolder,
        pause: &mut dyn FnMut(),
    ) -> Result<Option<Arc<Run>>, StoreError> {
        let Some((recent, name)) = &self.sealing else { return Ok(None) };
        let entries = recent.all(pause);
        seal(&self.which.runs(place), *name, entries, pause).map(|run| Some(Arc::new(run)))
    }
}

/// Makes one run of several.
pub(crate) struct MergeJob {
    folder: RunFolder,
    which: Which,
    name: RunName,
    inputs: Vec<Arc<Run>>,
}

/// A run and those that it was made of.
pub(crate) struct Merged {
    pub(crate) which: Which,
    inputs: Vec<Arc<Run>>,
    run: Arc<Run>,
}

impl MergeJob {
    pub(crate) fn run(self, pause: &mut dyn FnMut()) -> Result<Merged, StoreError> {
        let MergeJob { folder, which, name, inputs } = self;
        let lost = usize::from(planted::has(Bug::LostRunInMerge));
        let run = merge(&folder, name, &inputs[lost..], pause)?;
        Ok(Merged { which, inputs, run: Arc::new(run) })
    }
}
