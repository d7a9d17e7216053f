//! Work that the deciding thread hands away: writing blocks, checkpoints, merges.
//!
//! A job owns all that it needs, so it can run on any thread, or inline where a simulator wants it. Write jobs and
//! the checkpoint run in the order in which they are taken; a merge may run beside them. What a job has done is
//! told to the store with [`Store::absorb`](crate::Store::absorb), and counts from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_domain::ids::TransferNo;
use holdfast_domain::planted;

use super::holds::{Held, Holds};
use super::recent::RecentIds;
use super::slab::SlabSnapshot;
use super::{LocalStore, Place};
use crate::StoreError;
use crate::blocks::{End, RemoveJob, Syncer, WriteJob};
use crate::books::Books;
use crate::checkpoint::{self, CheckpointWriter, Part};
use crate::runs::{Run, RunName, RunSet, merge, seal};

/// Checkpoints that are kept: if the newest rots, the one before it serves.
const KEPT: usize = 2;

/// Something to be done away from the deciding thread.
#[must_use = "the store waits for it"]
pub struct Job(pub(super) Kind);

pub(super) enum Kind {
    Write(WriteJob),
    Remove(RemoveJob),
    Checkpoint(Box<CheckpointJob>),
    Merge(MergeJob),
}

/// What a job has done.
#[must_use = "the store must be told"]
pub struct Done(pub(super) Outcome);

pub(super) enum Outcome {
    Written,
    Checkpoint(CheckpointDone),
    Merged { inputs: Vec<Arc<Run>>, merged: Arc<Run> },
}

impl Job {
    /// It may run beside others; all else runs in the order in which it was taken.
    #[must_use]
    pub const fn is_merge(&self) -> bool {
        matches!(self.0, Kind::Merge(_))
    }

    /// Whether it is a checkpoint.
    #[must_use]
    pub const fn is_checkpoint(&self) -> bool {
        matches!(self.0, Kind::Checkpoint(_))
    }

    /// Does it. A failure is for good: the store must not be used on. Where there is much to do, `pause` is called every
    /// millisecond or so of work: whoever is more urgent may run then.
    ///
    /// # Errors
    /// If the medium fails or what is read from it is not what was written.
    pub fn run(self, pause: &mut dyn FnMut()) -> Result<Done, StoreError> {
        let outcome = match self.0 {
            Kind::Write(job) => {
                job.run()?;
                Outcome::Written
            }
            Kind::Remove(job) => {
                if let Err(error) = job.run() {
                    // They only take space, and the next start finds them again.
                    tracing::warn!(%error, "files of delivered callbacks were not removed");
                }
                Outcome::Written
            }
            Kind::Checkpoint(job) => Outcome::Checkpoint(job.run(pause)?),
            Kind::Merge(job) => job.run(pause)?,
        };
        Ok(Done(outcome))
    }
}

impl Done {
    /// What was checkpointed with its progress, and the oldest checkpoint that is kept, if as many are as should be:
    /// the log before that one is not needed to start.
    #[must_use]
    pub fn log_not_needed(&self) -> Option<(u64, &[u8])> {
        match &self.0 {
            Outcome::Checkpoint(done) if done.kept.len() >= KEPT => {
                Some((done.kept.first()?.offset, &done.progress))
            }
            _ => None,
        }
    }
}

/// A checkpoint on the disk and the runs that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) offset: u64,
    pub(super) runs: Vec<RunName>,
    /// Rows of callbacks from here on cannot be done without.
    pub(super) callbacks_end: u64,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Work {
    queue: VecDeque<Job>,
    checkpoint: bool,
    merging: Option<RunName>,
    /// The checkpoints on the disk, oldest first.
    kept: Vec<Kept>,
    holds: Holds,
}

impl Work {
    /// Nothing is under way; these checkpoints are on the disk, oldest first.
    pub(super) fn with(kept: Vec<Kept>) -> Work {
        Work { kept, ..Work::default() }
    }
}

pub(super) struct CheckpointJob {
    place: Place,
    offset: u64,
    progress: Vec<u8>,
    books: Books,
    next: TransferNo,
    open: SlabSnapshot,
    outcomes: End,
    callbacks: End,
    syncers: [Syncer; 2],
    /// The ids to seal, and the name of their run.
    sealing: Option<(Arc<RecentIds>, RunName)>,
    runs: Vec<RunName>,
    next_run: RunName,
    kept: Vec<Kept>,
    holds: Holds,
    /// A run that is being made and listed nowhere.
    merging: Option<RunName>,
}

pub(super) struct CheckpointDone {
    run: Option<Arc<Run>>,
    kept: Vec<Kept>,
    progress: Vec<u8>,
}

pub(super) struct MergeJob {
    place: Place,
    name: RunName,
    inputs: Vec<Arc<Run>>,
}

impl LocalStore {
    /// Freezes the state as it stands after the frames before `offset`, for a checkpoint. `false`: one is being made
    /// already.
    pub(super) fn begin(&mut self, offset: u64, progress: Vec<u8>) -> bool {
        if self.work.checkpoint {
            return false;
        }
        self.work.checkpoint = true;
        for files in [&mut self.outcomes, &mut self.callbacks] {
            let writes = std::iter::from_fn(|| files.flush_job());
            self.work.queue.extend(writes.map(|job| Job(Kind::Write(job))));
        }
        let mut runs = self.runs.names();
        let sealing = (self.recent.len() > 0).then(|| {
            let recent = Arc::new(std::mem::replace(&mut self.recent, RecentIds::new(self.key)));
            self.sealing = Some(Arc::clone(&recent));
            let name = self.name_run();
            runs.push(name);
            (recent, name)
        });
        let job = CheckpointJob {
            place: self.place.clone(),
            offset,
            progress,
            books: self.books.clone(),
            next: self.hot.next(),
            open: self.hot.snapshot(),
            outcomes: self.outcomes.end(),
            callbacks: self.callbacks.end(),
            syncers: [self.outcomes.sync_handle(), self.callbacks.sync_handle()],
            sealing,
            runs,
            next_run: self.next_run,
            kept: self.work.kept.clone(),
            holds: self.work.holds.clone(),
            merging: self.work.merging,
        };
        self.work.queue.push_back(Job(Kind::Checkpoint(Box::new(job))));
        true
    }

    /// Callbacks before `end` were delivered: their files may go, as far as no checkpoint on the disk needs them.
    pub(super) fn forget(&mut self, end: u64) {
        if self.work.holds.is_any() {
            // Somebody reads the files of a checkpoint. The next time.
            return;
        }
        let needed = self.work.kept.first().map_or(0, |oldest| oldest.callbacks_end);
        let job = self.callbacks.remove_before(end.min(needed));
        self.work.queue.extend(job.map(|job| Job(Kind::Remove(job))));
    }

    fn name_run(&mut self) -> RunName {
        let name = self.next_run;
        self.next_run = RunName(name.0 + 1);
        name
    }

    pub(super) fn next_job(&mut self) -> Option<Job> {
        for files in [&mut self.outcomes, &mut self.callbacks] {
            // What a checkpoint flushed stands in the queue already and comes first.
            if self.work.queue.is_empty()
                && let Some(job) = files.take_job()
            {
                return Some(Job(Kind::Write(job)));
            }
        }
        self.work.queue.pop_front()
    }

    pub(super) fn take_in(&mut self, done: Done) {
        match done.0 {
            Outcome::Written => {}
            Outcome::Checkpoint(done) => {
                self.work.checkpoint = false;
                self.work.kept = done.kept;
                self.sealing = None;
                if let Some(run) = done.run {
                    self.runs = self.runs.with(run);
                }
            }
            Outcome::Merged { inputs, merged } => {
                self.work.merging = None;
                self.runs = if planted::lost_run_in_merge() {
                    let left =
                        self.runs.runs().iter().filter(|run| inputs.iter().all(|of| of.name() != run.name()));
                    RunSet::of(left.cloned().chain([merged]).collect())
                } else {
                    self.runs.replace(&inputs, merged)
                };
            }
        }
        if self.work.merging.is_none()
            && let Some(inputs) = self.runs.due_merge()
        {
            let name = self.name_run();
            self.work.merging = Some(name);
            let job = MergeJob { place: self.place.clone(), name, inputs };
            self.work.queue.push_back(Job(Kind::Merge(job)));
        }
    }

    pub(super) fn newest_kept(&self) -> Option<u64> {
        self.work.kept.last().map(|kept| kept.offset)
    }

    /// Whether a checkpoint is being made.
    #[must_use]
    pub(super) const fn is_checkpointing(&self) -> bool {
        self.work.checkpoint
    }

    /// Sees to it that the newest checkpoint and what it needs are not removed; `None` if there is none.
    pub fn hold_newest(&self) -> Option<Held> {
        // A checkpoint in the making removes older ones, and this one only when it is done and the next is made.
        self.work.kept.last().map(|kept| self.work.holds.hold(kept.clone()))
    }

    /// The offsets of the checkpoints on the disk, oldest first. The log before the oldest is not needed to start.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<u64> {
        self.work.kept.iter().map(|kept| kept.offset).collect()
    }
}

impl CheckpointJob {
    fn run(self, pause: &mut dyn FnMut()) -> Result<CheckpointDone, StoreError> {
        let (fs, key) = (&self.place.fs, self.place.key());
        // All that the checkpoint refers to is durable before it has its name.
        self.syncers.iter().try_for_each(Syncer::sync)?;
        let dir = self.place.checkpoints();
        let mut writer = CheckpointWriter::begin(fs, &dir, self.place.log_id, self.offset)?;
        writer.put(&Part::Progress(self.progress.clone()))?;
        for name in &self.runs {
            writer.put(&Part::Run(*name))?;
        }
        writer.put(&Part::NextRun(self.next_run))?;
        let callbacks_end = self.callbacks.position;
        writer.put(&Part::Outcomes(self.outcomes))?;
        writer.put(&Part::Callbacks(self.callbacks))?;
        for row in self.books.participants() {
            writer.put(&Part::Participant(row.clone()))?;
        }
        for row in self.books.accounts() {
            writer.put(&Part::Account(*row))?;
        }
        for row in self.books.all_funds() {
            writer.put(&Part::Funds(*row))?;
        }
        for row in self.books.all_endpoints() {
            writer.put(&Part::Endpoint(row))?;
        }
        writer.put(&Part::Next(self.next))?;
        for page in self.open.into_pages() {
            for row in page.iter().flatten() {
                writer.put_open(row)?;
            }
        }
        // The copies of changed pages are given back by now; what follows may take its time.
        let run = match &self.sealing {
            Some((recent, name)) => {
                let entries = recent.all(pause);
                Some(Arc::new(seal(fs, &self.place.ids(), *name, self.place.log_id, key, entries, pause)?))
            }
            None => None,
        };
        writer.finish()?;
        let mut kept = self.kept;
        kept.retain(|older| older.offset < self.offset);
        kept.push(Kept { offset: self.offset, runs: self.runs, callbacks_end });
        kept.drain(..kept.len().saturating_sub(KEPT));
        let mut needed = self.holds.all();
        needed.extend(kept.iter().cloned());
        remove_unneeded(&self.place, &needed, self.next_run, self.merging)?;
        Ok(CheckpointDone { run, kept, progress: self.progress })
    }
}

/// Removes checkpoints that are not kept, and runs before `next_run` that no kept one needs.
pub(super) fn remove_unneeded(
    place: &Place,
    kept: &[Kept],
    next_run: RunName,
    spared: Option<RunName>,
) -> Result<(), StoreError> {
    let dir = place.checkpoints();
    let mut removed = Vec::new();
    for offset in checkpoint::list(&*place.fs, &dir)? {
        if kept.iter().all(|kept| kept.offset != offset) {
            removed.push(checkpoint::path_of(&dir, offset));
        }
    }
    remove(place, &dir, &removed)?;
    let dir = place.ids();
    let names = place.fs.list(&dir).map_err(StoreError::io("list", &dir))?;
    let unneeded = names.iter().filter_map(|file| Some((RunName::parse(file)?, file))).filter(|(name, _)| {
        *name < next_run && Some(*name) != spared && kept.iter().all(|kept| !kept.runs.contains(name))
    });
    let unneeded: Vec<_> = unneeded.map(|(_, file)| dir.join(file)).collect();
    remove(place, &dir, &unneeded)
}

fn remove(place: &Place, dir: &std::path::Path, files: &[std::path::PathBuf]) -> Result<(), StoreError> {
    if files.is_empty() {
        return Ok(());
    }
    for path in files {
        place.fs.remove(path).map_err(StoreError::io("remove", path))?;
    }
    place.fs.sync_dir(dir).map_err(StoreError::io("sync", dir))
}

impl MergeJob {
    fn run(self, pause: &mut dyn FnMut()) -> Result<Outcome, StoreError> {
        let Place { fs, log_id, .. } = &self.place;
        let lost = usize::from(planted::lost_run_in_merge());
        let (dir, key) = (self.place.ids(), self.place.key());
        let merged = merge(fs, &dir, self.name, *log_id, key, &self.inputs[lost..], pause)?;
        Ok(Outcome::Merged { inputs: self.inputs, merged: Arc::new(merged) })
    }
}
