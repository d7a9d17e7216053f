//! The files: their names, how they are opened at an end, and the handles through which they are read.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_disk::{BLOCK, File, FileSystem, number_in_name};

use super::BlockFolder;
use super::format::{BLOCK_BYTES, Fault, Stamp, VERSION};
use crate::StoreError;

/// Files that stay open for reading.
const OPEN_FILES_MAX: usize = 16;

/// A directory of block files. A file goes by the number of its first block.
pub(crate) struct Files {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) file_blocks: u64,
    handles: Mutex<Handles>,
}

#[derive(Default)]
struct Handles {
    /// Files before this one are removed: a handle would keep their space.
    least: u64,
    /// By first block, the one used last at the end.
    open: Vec<(u64, Arc<dyn File>)>,
}

impl Files {
    pub(crate) fn new(folder: BlockFolder, file_blocks: u64) -> Files {
        let BlockFolder { fs, dir, log_id, kind } = folder;
        Files { fs, dir, stamp: Stamp::new(log_id, kind), file_blocks, handles: Mutex::default() }
    }

    /// The file that holds a block.
    pub(super) const fn file_of(&self, block: u64) -> u64 {
        block / self.file_blocks * self.file_blocks
    }

    pub(super) fn path_of(&self, file: u64) -> PathBuf {
        self.dir.join(format!("{file:020}.blk"))
    }

    /// A fault at a byte of a block, named by file and byte.
    pub(super) fn damaged(&self, block: u64, offset: usize, found: impl Into<String>) -> StoreError {
        let file = self.file_of(block);
        StoreError::damaged(&self.path_of(file), (block - file) * BLOCK_BYTES + offset as u64, found)
    }

    /// Checks a block that was read; returns its used bytes.
    pub(super) fn check(&self, bytes: &[u8], block: u64) -> Result<usize, StoreError> {
        self.stamp.check(bytes, block).map_err(|fault| match fault {
            Fault::Damaged(found) => self.damaged(block, 0, found),
            Fault::Version(found) => StoreError::UnsupportedVersion {
                file: self.path_of(self.file_of(block)),
                found: u16::from(found),
                known: u16::from(VERSION),
            },
        })
    }

    /// Fills `out` with the blocks from `first` on, unchecked. They must lie in one file.
    pub(super) fn read(&self, first: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let file = self.file_of(first);
        let handle = self.handle(file)?;
        let at = (first - file) * BLOCK_BYTES;
        let path = || self.path_of(file);
        let read = handle.read_full_at(out, at).map_err(|error| StoreError::io("read", &path())(error))?;
        if read < out.len() {
            let found = format!("the file ends there, though {} bytes more were written", out.len() - read);
            return Err(StoreError::damaged(&path(), at + read as u64, found));
        }
        Ok(())
    }

    /// A handle for reading, from the few that are kept.
    fn handle(&self, file: u64) -> Result<Arc<dyn File>, StoreError> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = handles.open.iter().rposition(|(open, _)| *open == file) {
            if at + 1 < handles.open.len() {
                handles.open[at..].rotate_left(1);
            }
            return Ok(Arc::clone(&handles.open[handles.open.len() - 1].1));
        }
        drop(handles);
        let path = self.path_of(file);
        let handle = self.fs.open_read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::damaged(&path, 0, "the file is not there"),
            _ => StoreError::io("open", &path)(error),
        })?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if file >= handles.least && handles.open.iter().all(|(open, _)| *open != file) {
            if handles.open.len() == OPEN_FILES_MAX {
                handles.open.remove(0);
            }
            handles.open.push((file, Arc::clone(&handle)));
        }
        Ok(handle)
    }

    /// Lets go of the files before `least`, for good.
    pub(super) fn forget_before(&self, least: u64) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.least = handles.least.max(least);
        handles.open.retain(|(file, _)| *file >= least);
    }

    /// Removes files and makes that durable.
    pub(super) fn remove(&self, files: impl IntoIterator<Item = u64>) -> Result<(), StoreError> {
        for file in files {
            let path = self.path_of(file);
            match self.fs.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        self.fs.sync_dir(&self.dir).map_err(StoreError::io("sync", &self.dir))
    }

    /// Makes the files hold the blocks before `end` and nothing else, durably. Blocks from `needed` on must be
    /// there. Returns the first block that is.
    pub(super) fn cut_to(&self, end: u64, needed: u64) -> Result<u64, StoreError> {
        self.fs.create_dir_all(&self.dir).map_err(StoreError::io("create", &self.dir))?;
        let found = self.list()?;
        if let Some(odd) = found.iter().find(|file| end > 0 && !file.is_multiple_of(self.file_blocks)) {
            let found =
                format!("a file cannot begin with this block, a file has {} blocks", self.file_blocks);
            return Err(StoreError::damaged(&self.path_of(*odd), 0, found));
        }
        let (mut start, mut kept) = (self.file_of(end), BTreeSet::new());
        let mut next = end.checked_sub(1).map(|last| self.file_of(last));
        while let Some(file) = next {
            if found.contains(&file) {
                self.check_length(file, end)?;
                kept.insert(file);
                start = file;
            } else if file + self.file_blocks > needed {
                return Err(StoreError::damaged(&self.path_of(file), 0, "the file is not there"));
            } else {
                break;
            }
            next = file.checked_sub(self.file_blocks);
        }
        // The checks came first: an error above leaves the directory as it was found.
        if let Some(last) = kept.last().filter(|_| !end.is_multiple_of(self.file_blocks)) {
            self.cut(*last, (end - last) * BLOCK_BYTES)?;
        }
        // What is before the start was meant to go when something after it already went.
        self.remove(found.difference(&kept).copied())?;
        Ok(start)
    }

    /// The files of the directory that have one of our names.
    pub(super) fn list(&self) -> Result<BTreeSet<u64>, StoreError> {
        let names = self.fs.list(&self.dir).map_err(StoreError::io("list", &self.dir))?;
        Ok(names.iter().filter_map(|name| number_in_name(name, ".blk")).collect())
    }

    /// A file must hold its blocks before `end`, and no more blocks than a file has.
    fn check_length(&self, file: u64, end: u64) -> Result<(), StoreError> {
        let path = self.path_of(file);
        let handle = self.fs.open_read(&path).map_err(StoreError::io("open", &path))?;
        let length = handle.len().map_err(StoreError::io("measure", &path))?;
        let least = (end - file).min(self.file_blocks) * BLOCK_BYTES;
        let most = self.file_blocks * BLOCK_BYTES;
        if length < least {
            return Err(StoreError::damaged(&path, length, format!("the file ends before byte {least}")));
        }
        if length > most {
            return Err(StoreError::damaged(&path, most, format!("the file goes on to byte {length}")));
        }
        Ok(())
    }

    fn cut(&self, file: u64, length: u64) -> Result<(), StoreError> {
        let path = self.path_of(file);
        let handle = self.fs.open(&path).map_err(StoreError::io("open", &path))?;
        handle.set_len(length).map_err(StoreError::io("cut", &path))?;
        handle.sync_data().map_err(StoreError::io("sync", &path))
    }

    /// Reads and checks one block.
    pub(super) fn read_checked(&self, block: u64, out: &mut [u8; BLOCK]) -> Result<usize, StoreError> {
        self.read(block, out)?;
        self.check(out, block)
    }
}
