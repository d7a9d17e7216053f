//! Work that the deciding thread hands away: writing blocks, checkpoints, merges.
//!
//! A job owns all that it needs, so it can run on any thread, or inline where a simulator wants it. Write jobs and
//! the checkpoint run in the order in which they are taken; a merge may run beside them. What a job has done is
//! told to the store with [`Store::absorb`](crate::Store::absorb), and counts from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_domain::codec::{Packed, Plain};
use holdfast_domain::ids::TransferNo;
use holdfast_domain::tokens::{LockRow, TokenRow};
use holdfast_domain::transfers::Transfer;

use super::LocalStore;
use super::holds::{Held, Holds};
use super::shelves::ShelvesSnapshot;
use super::slab::SlabSnapshot;
use crate::StoreError;
use crate::archive::{Archive, Frozen, MergeJob, Merged, Which};
use crate::blocks::{BlockFiles, End, RemoveJob, Syncer, WriteJob};
use crate::books::Books;
use crate::checkpoint::{self, CheckpointWriter, tag, write_endpoint};
use crate::folder::StoreFolder;
use crate::row;
use crate::runs::{Run, RunName};
use crate::token_rows::{self, KindNumbers};

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
    Merged(Merged),
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
            Kind::Merge(job) => Outcome::Merged(job.run(pause)?),
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
    /// Of each archive.
    pub(super) runs: [Vec<RunName>; 2],
    /// Rows of callbacks from here on cannot be done without.
    pub(super) callbacks_end: u64,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Work {
    queue: VecDeque<Job>,
    checkpoint: bool,
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
    place: StoreFolder,
    offset: u64,
    progress: Vec<u8>,
    books: Books,
    next: TransferNo,
    open: SlabSnapshot<Transfer>,
    locks: SlabSnapshot<Arc<LockRow>>,
    tokens: SlabSnapshot<TokenRow>,
    token_count: usize,
    shelves: ShelvesSnapshot,
    archives: [Frozen; 2],
    callbacks: End,
    callbacks_syncer: Syncer,
    kept: Vec<Kept>,
    holds: Holds,
}

pub(super) struct CheckpointDone {
    /// Of each archive.
    runs: [Option<Arc<Run>>; 2],
    kept: Vec<Kept>,
    progress: Vec<u8>,
}

impl LocalStore {
    /// Freezes the state as it stands after the frames before `offset`, for a checkpoint; `progress` is given back by
    /// [`recover`](crate::recover). `false`: one is being made already. Its jobs come from [`LocalStore::take_job`].
    pub fn begin_checkpoint(&mut self, offset: u64, progress: Vec<u8>) -> bool {
        if self.work.checkpoint {
            return false;
        }
        self.work.checkpoint = true;
        for files in [&mut self.ended.records, &mut self.spent.records, &mut self.callbacks] {
            let writes = std::iter::from_fn(|| files.flush_job());
            self.work.queue.extend(writes.map(|job| Job(Kind::Write(job))));
        }
        let job = CheckpointJob {
            place: self.place.clone(),
            offset,
            progress,
            books: self.books.clone(),
            next: self.hot.next(),
            open: self.hot.slab.snapshot(),
            locks: self.vault.locks.snapshot(),
            tokens: self.vault.tokens.snapshot(),
            token_count: self.vault.tokens.len(),
            shelves: self.shelves.snapshot(),
            archives: [self.ended.freeze(), self.spent.freeze()],
            callbacks: self.callbacks.end(),
            callbacks_syncer: self.callbacks.sync_handle(),
            kept: self.work.kept.clone(),
            holds: self.work.holds.clone(),
        };
        self.work.queue.push_back(Job(Kind::Checkpoint(Box::new(job))));
        true
    }

    /// Callbacks before `end` were delivered: their files may go, as far as no checkpoint on the disk needs them.
    pub fn forget_callbacks(&mut self, end: u64) {
        if !self.work.holds.all().is_empty() {
            // Somebody reads the files of a checkpoint. The next time.
            return;
        }
        let needed = self.work.kept.first().map_or(0, |oldest| oldest.callbacks_end);
        let job = self.callbacks.remove_before(end.min(needed));
        self.work.queue.extend(job.map(|job| Job(Kind::Remove(job))));
    }

    const fn archives_mut(&mut self) -> [&mut Archive; 2] {
        [&mut self.ended, &mut self.spent]
    }

    /// The next job to be run, on any thread.
    pub fn take_job(&mut self) -> Option<Job> {
        // What a checkpoint flushed stands in the queue already and comes first.
        if self.work.queue.is_empty() {
            let files = [&mut self.ended.records, &mut self.spent.records, &mut self.callbacks];
            if let Some(job) = files.into_iter().find_map(BlockFiles::take_job) {
                return Some(Job(Kind::Write(job)));
            }
        }
        self.work.queue.pop_front()
    }

    /// Takes in what a job has done.
    pub fn absorb(&mut self, done: Done) {
        match done.0 {
            Outcome::Written => {}
            Outcome::Checkpoint(done) => {
                self.work.checkpoint = false;
                self.work.kept = done.kept;
                for (archive, run) in self.archives_mut().into_iter().zip(done.runs) {
                    archive.thawed(run);
                }
            }
            Outcome::Merged(merged) => self.archives_mut()[merged.which as usize].merged(merged),
        }
        let due = self.archives_mut().map(Archive::due_merge);
        self.work.queue.extend(due.into_iter().flatten().map(|job| Job(Kind::Merge(job))));
    }

    /// The offset of the newest checkpoint on the disk.
    #[must_use]
    pub fn newest_checkpoint(&self) -> Option<u64> {
        self.work.kept.last().map(|kept| kept.offset)
    }

    /// Whether a checkpoint is being made.
    #[must_use]
    pub const fn checkpoint_running(&self) -> bool {
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
        // All that the checkpoint refers to is durable before it has its name.
        let syncers = self.archives.iter().map(|archive| &archive.syncer).chain([&self.callbacks_syncer]);
        syncers.into_iter().try_for_each(Syncer::sync)?;
        let dir = self.place.checkpoints();
        let mut writer = CheckpointWriter::begin(&self.place.fs, &dir, self.place.log_id, self.offset)?;
        writer.put(tag::PROGRESS, |out| out.extend_from_slice(&self.progress))?;
        for archive in &self.archives {
            put_archive(&mut writer, archive)?;
        }
        let callbacks_end = self.callbacks.position;
        writer.put_row::<Plain>(tag::CALLBACKS, &self.callbacks)?;
        put_books(&mut writer, &self.books)?;
        writer.put_row::<Plain>(tag::NEXT, &self.next)?;
        self.open.try_each(|row| writer.put(tag::OPEN, |out| row::write(row, out)))?;
        // Tokens name their holders, so locks come first.
        self.locks.try_each(|row| writer.put(tag::LOCK, |out| token_rows::write_lock(row, out)))?;
        if self.token_count > 0 {
            writer.put_row::<Plain>(tag::TOKEN_COUNT, &(self.token_count as u64))?;
        }
        let mut kinds = KindNumbers::default();
        self.tokens
            .try_each(|row| writer.put(tag::TOKEN, |out| token_rows::write_token(row, &mut kinds, out)))?;
        put_shelves(&mut writer, self.shelves)?;
        // The copies of changed pages are given back by now; what follows may take its time.
        let [ended, spent] = &self.archives;
        let runs = [ended.seal(&self.place, pause)?, spent.seal(&self.place, pause)?];
        writer.finish()?;
        let mut kept = self.kept;
        kept.retain(|older| older.offset < self.offset);
        let names = [ended.past.runs.clone(), spent.past.runs.clone()];
        kept.push(Kept { offset: self.offset, runs: names, callbacks_end });
        kept.drain(..kept.len().saturating_sub(KEPT));
        let mut needed = self.holds.all();
        needed.extend(kept.iter().cloned());
        let bounds = [ended, spent].map(|archive| (archive.past.next_run, archive.merging));
        remove_unneeded(&self.place, &needed, bounds)?;
        Ok(CheckpointDone { runs, kept, progress: self.progress })
    }
}

fn put_books(writer: &mut CheckpointWriter, books: &Books) -> Result<(), StoreError> {
    books.participants().iter().try_for_each(|row| writer.put_row::<Plain>(tag::PARTICIPANT, row))?;
    books.accounts().iter().try_for_each(|row| writer.put_row::<Plain>(tag::ACCOUNT, row))?;
    books.funds.values().try_for_each(|row| writer.put_row::<Plain>(tag::FUNDS, row))?;
    books.all_endpoints().try_for_each(|row| writer.put(tag::ENDPOINT, |out| write_endpoint(&row, out)))
}

/// A hub without a shop writes nothing here.
fn put_shelves(writer: &mut CheckpointWriter, shelves: ShelvesSnapshot) -> Result<(), StoreError> {
    shelves.users.try_each(|row| writer.put_row::<Packed>(tag::USER, row))?;
    shelves.items.try_each(|row| writer.put_row::<Packed>(tag::ITEM, row))?;
    // Lives come before the orders that have them.
    shelves.lives.try_each(|row| writer.put_row::<Packed>(tag::LIFE, &(&row.order, row.life)))?;
    shelves.orders.try_each(|row| writer.put_row::<Packed>(tag::ORDER, row))?;
    shelves.checkouts.try_each(|row| writer.put_row::<Packed>(tag::CHECKOUT, &**row))?;
    shelves.keys.try_each(|row| writer.put_row::<Packed>(tag::KEY, &**row))?;
    if !shelves.outside.is_none() {
        writer.put_row::<Packed>(tag::OUTSIDE, &shelves.outside)?;
    }
    if shelves.charging.is_credit() {
        return Ok(());
    }
    writer.put_row::<Packed>(tag::CHARGING, &shelves.charging)
}

fn put_archive(writer: &mut CheckpointWriter, archive: &Frozen) -> Result<(), StoreError> {
    let which = archive.which;
    if which == Which::Spent && archive.is_new() {
        // A hub without tokens writes what it wrote before there were any.
        return Ok(());
    }
    let past = &archive.past;
    past.runs.iter().try_for_each(|name| writer.put_row::<Plain>(tag::RUN[which as usize], &name.0))?;
    writer.put_row::<Plain>(tag::NEXT_RUN[which as usize], &past.next_run.0)?;
    past.end.iter().try_for_each(|end| writer.put_row::<Plain>(tag::RECORDS[which as usize], end))
}

/// Every run may go that is not needed.
pub(super) const ANY_RUN: [(RunName, Option<RunName>); 2] = [(RunName(u64::MAX), None); 2];

/// Removes checkpoints that are not kept, and runs that no kept one needs: of each archive those before a name, but for one
/// that is spared.
pub(super) fn remove_unneeded(
    place: &StoreFolder,
    kept: &[Kept],
    bounds: [(RunName, Option<RunName>); 2],
) -> Result<(), StoreError> {
    let dir = place.checkpoints();
    let mut removed = Vec::new();
    for offset in checkpoint::list(&*place.fs, &dir)? {
        if kept.iter().all(|kept| kept.offset != offset) {
            removed.push(checkpoint::path_of(&dir, offset));
        }
    }
    remove(place, &dir, &removed)?;
    for (at, (next_run, spared)) in bounds.into_iter().enumerate() {
        let dir = Which::ALL[at].ids(&place.dir);
        let names = place.fs.list(&dir).map_err(StoreError::io("list", &dir))?;
        let is_unneeded = |name: RunName| {
            name < next_run && Some(name) != spared && kept.iter().all(|kept| !kept.runs[at].contains(&name))
        };
        let unneeded = names.iter().filter(|file| RunName::parse(file).is_some_and(is_unneeded));
        let unneeded: Vec<_> = unneeded.map(|file| dir.join(file)).collect();
        remove(place, &dir, &unneeded)?;
    }
    Ok(())
}

fn remove(
    place: &StoreFolder,
    dir: &std::path::Path,
    files: &[std::path::PathBuf],
) -> Result<(), StoreError> {
    if files.is_empty() {
        return Ok(());
    }
    for path in files {
        place.fs.remove(path).map_err(StoreError::io("remove", path))?;
    }
    place.fs.sync_dir(dir).map_err(StoreError::io("sync", dir))
}
