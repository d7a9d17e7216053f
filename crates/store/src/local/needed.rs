//! Which files a checkpoint needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::{BLOCK, FileSystem, LogId};

use crate::StoreError;
use crate::archive::Which;
use crate::blocks::{BlockFolder, Files, Options};
use crate::checkpoint::{self, Part};
use crate::folder::StoreFolder;

/// A file that a checkpoint needs, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFile {
    /// Where it lies.
    pub path: PathBuf,
    /// The bytes that the checkpoint needs; `None`: all there are.
    pub bytes: Option<u64>,
}

/// What a checkpoint needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFiles {
    /// Its files, itself first. None of their needed bytes ever changes.
    pub files: Vec<StoreFile>,
    /// What it was begun with.
    pub progress: Vec<u8>,
}

/// The files in `dir` that the checkpoint at `offset` needs.
///
/// # Errors
/// If the checkpoint cannot be read.
pub fn files_of(fs: &Arc<dyn FileSystem>, dir: &Path, offset: u64) -> Result<CheckpointFiles, StoreError> {
    let nobody = StoreFolder { fs: Arc::clone(fs), dir: dir.to_owned(), log_id: LogId([0; 16]) };
    let checkpoints = nobody.checkpoints();
    let whole = |path| StoreFile { path, bytes: None };
    let mut files = vec![whole(checkpoint::path_of(&checkpoints, offset))];
    let (mut ends, mut progress) = ([0; 3], Vec::new());
    let log_id = checkpoint::read(&**fs, &checkpoints, offset, |_, part| match part {
        Part::Progress(bytes) => progress = bytes,
        Part::Run(which, name) => files.push(whole(which.ids(dir).join(name.to_string()))),
        Part::Records(which, end) => ends[which as usize] = end.position / BLOCK as u64,
        Part::Callbacks(end) => ends[2] = end.position / BLOCK as u64,
        _ => {}
    })?;
    // A folder without blocks need not be there.
    let place = StoreFolder { log_id, ..nobody };
    for (folder, end) in block_folders(&place).into_iter().zip(ends).filter(|(_, end)| *end > 0) {
        let found = Files::new(folder, Options::default().file_blocks).files_before(end)?;
        files.extend(found.into_iter().map(|(path, bytes)| StoreFile { path, bytes: Some(bytes) }));
    }
    Ok(CheckpointFiles { files, progress })
}

/// The folders of blocks, in the order in which their ends are kept.
pub(super) fn block_folders(place: &StoreFolder) -> [BlockFolder; 3] {
    [Which::Ended.records(place), Which::Spent.records(place), place.callbacks()]
}
