//! What the deciding thread has others do: write chunks, make them durable, remove files.

use std::sync::Arc;

use super::files::Files;
use super::format::BLOCK_BYTES;
use super::shared::{Chunk, Output, Shared};
use crate::StoreError;

/// Writes one chunk. The jobs of one [`BlockFiles`](super::BlockFiles) run one after the other, in the order in
/// which they were handed out.
#[must_use = "its blocks stay in memory, and no later job can run, until this one has"]
pub(crate) struct WriteJob {
    pub(super) shared: Arc<Shared>,
    pub(super) chunk: Arc<Chunk>,
}

impl WriteJob {
    /// Writes the blocks and frees their memory; readers go to the file from then on. After an error the blocks
    /// stay in memory, and every later write and sync fails too.
    ///
    /// # Panics
    /// If an earlier job has not run.
    pub(crate) fn run(self) -> Result<(), StoreError> {
        let WriteJob { shared, chunk } = self;
        let mut output = shared.output();
        output.healthy(&shared.files.dir)?;
        assert_eq!(shared.seen().written, chunk.first, "write jobs run in order");
        let written = output.write(&shared.files, &chunk);
        output.failed = written.is_err();
        written?;
        let mut seen = shared.seen_mut();
        seen.written = chunk.after();
        seen.pending.pop_front();
        Ok(())
    }
}

impl Output {
    fn write(&mut self, files: &Files, chunk: &Chunk) -> Result<(), StoreError> {
        let file = files.file_of(chunk.first);
        let path = files.path_of(file);
        let handle = match &self.file {
            Some((open, handle)) if *open == file => Arc::clone(handle),
            _ => {
                let handle = if chunk.first == file {
                    self.new_names = true;
                    files.fs.create_new_uncached(&path).map_err(StoreError::io("create", &path))?
                } else {
                    files.fs.open_uncached(&path).map_err(StoreError::io("open", &path))?
                };
                self.file = Some((file, Arc::clone(&handle)));
                handle
            }
        };
        if self.dirty.iter().all(|(dirty, _)| *dirty != file) {
            self.dirty.push((file, Arc::clone(&handle)));
        }
        let at = (chunk.first - file) * BLOCK_BYTES;
        handle.write_at(&chunk.bytes, at).map_err(StoreError::io("write", &path))
    }
}

/// Makes durable what was written.
#[derive(Clone)]
pub(crate) struct Syncer {
    pub(super) shared: Arc<Shared>,
}

impl Syncer {
    /// Makes the blocks of all jobs that have run durable, and the names of their files. A failure is for good:
    /// the system may have dropped what it could not write, and a second try would not tell.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let files = &self.shared.files;
        let mut output = self.shared.output();
        output.healthy(&files.dir)?;
        let (dirty, new_names) = (std::mem::take(&mut output.dirty), std::mem::take(&mut output.new_names));
        let synced = sync(files, &dirty, new_names);
        output.failed = synced.is_err();
        synced
    }
}

fn sync(
    files: &Files,
    dirty: &[(u64, Arc<dyn holdfast_disk::File>)],
    new_names: bool,
) -> Result<(), StoreError> {
    for (file, handle) in dirty {
        handle.sync_data().map_err(|error| StoreError::io("sync", &files.path_of(*file))(error))?;
    }
    if new_names {
        files.fs.sync_dir(&files.dir).map_err(StoreError::io("sync", &files.dir))?;
    }
    Ok(())
}

/// Removes files that nobody looks for any more.
#[must_use = "the files stay until the job has run"]
pub(crate) struct RemoveJob {
    pub(super) shared: Arc<Shared>,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl RemoveJob {
    /// Removes the files, durably. If it fails they only take space: the next opening finds them again, whole.
    pub(crate) fn run(self) -> Result<(), StoreError> {
        let files = &self.shared.files;
        files.forget_before(self.to);
        let step = usize::try_from(files.file_blocks).unwrap_or(usize::MAX);
        files.remove((self.from..self.to).step_by(step))
    }
}
