//! Backups: a copy of a data directory that is consistent at one frame, made while payments go on.
//!
//! The hub makes a checkpoint. That checkpoint, the runs, outcomes and callbacks that it needs, and the log up to at
//! least its frame never change any more; they are copied file by file, each with its BLAKE3, while nothing of them may
//! be removed. Last comes `backup.json`, which names them all: a copy without it is not whole. A start from the copy
//! replays what the log has after the checkpoint.
//!
//! Everything is copied, nothing is linked: a link would share the original's bad blocks. Not in it: the keys (but
//! that they are needed), and what the deliverer of callbacks remembers.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use holdfast_disk::{FileSystem, LogId};
use holdfast_engine::{BackupStatus, Monitor};
use holdfast_log::{Log, LogError, Retention, SegmentSpan, write_end_mark};
use holdfast_store::{CheckpointFiles, FOLDERS, Held, StoreError, files_of};

use crate::hub::{LOG_FOLDER, OpenError, Opened, STORE_FOLDER};
use crate::keys_mark::{self, KEYS_MARK};
use crate::progress::Progress;
use crate::retention::RetentionHolds;

/// The list of what a backup holds.
pub const MANIFEST: &str = "backup.json";
const MANIFEST_TEMPORARY: &str = "backup.tmp";
/// The form of the list.
pub const MANIFEST_VERSION: u32 = 1;
/// Bytes that are copied together.
const PIECE: usize = 1024 * 1024;
/// Synced after so many bytes, so that the log's own sync never waits behind a whole file.
const SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// Beside payments the copy rests so many times as long as it worked: disk and cores are theirs first.
pub(crate) const RESTS_BESIDE_PAYMENTS: u32 = 3;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is something where the backup should go.
    #[error("{} is not empty. Name a directory that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// The path means nothing to the hub's process.
    #[error("{} is not absolute. The hub writes the backup on its own machine: name the whole path", .0.display())]
    NotAbsolute(PathBuf),
    /// It would copy itself.
    #[error("{} lies in the data directory. Name another one", .0.display())]
    Inside(PathBuf),
    /// Only one at a time; that one goes there.
    #[error("a backup to {} is being made. Wait until it is done", .0.display())]
    Running(PathBuf),
    /// The hub ends or has stopped.
    #[error("the hub has stopped before there was a checkpoint to copy")]
    Stopped,
    /// The file system refused an operation.
    #[error("cannot {op} {}; check the disk, its free space and the permissions. The hub goes on", path.display())]
    Io {
        /// What was tried, as a verb.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: std::io::Error,
    },
    /// The store's files cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log's end cannot be marked.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The directory of a stopped hub cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

fn io(op: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { op, path, source }
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// Its path in the backup, with slashes.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its contents.
    pub blake3: [u8; 32],
}

/// A backup that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The log that it belongs to.
    pub log_id: LogId,
    /// The checkpoint in it: the state after the frames before this offset.
    pub offset: u64,
    /// The audit chain at that offset.
    pub chain: [u8; 32],
    /// Where its log ends; what lies after the checkpoint is replayed.
    pub log_end: u64,
    /// The files, without the list itself.
    pub files: Vec<BackedUp>,
}

impl Backup {
    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// One file to copy.
struct Piece {
    from: PathBuf,
    /// Path in the backup.
    to: String,
    /// Bytes of it that count; `None`: all there are.
    bytes: Option<u64>,
    /// After those come zeros up to the length that the file has.
    keeps_length: bool,
}

/// What is needed to copy a data directory.
pub(crate) struct Source {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) data: PathBuf,
    pub(crate) retention: Retention,
    pub(crate) log_id: LogId,
    pub(crate) holds: RetentionHolds,
    /// How many times as long as it worked the copy rests.
    pub(crate) rests: u32,
}

impl Source {
    /// Refuses a place where no backup can go.
    pub(crate) fn check_target(&self, dir: &Path) -> Result<(), BackupError> {
        if !dir.is_absolute() {
            return Err(BackupError::NotAbsolute(dir.to_owned()));
        }
        // Where it really leads, as far as it exists: links and dots may hide that.
        let there = dir.ancestors().find_map(|parent| std::fs::canonicalize(parent).ok());
        let data = std::fs::canonicalize(&self.data).unwrap_or_else(|_| self.data.clone());
        if dir.starts_with(&self.data) || there.is_some_and(|there| there.starts_with(&data)) {
            return Err(BackupError::Inside(dir.to_owned()));
        }
        match self.fs.list(dir) {
            Ok(names) if names.is_empty() => Ok(()),
            Ok(_) => Err(BackupError::NotEmpty(dir.to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(io("list", dir)(error)),
        }
    }

    /// Copies the held checkpoint and the log into `dir`. `show` is told how far it is: bytes done, bytes in all.
    pub(crate) fn copy(
        &self,
        held: &Held,
        dir: &Path,
        show: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup, BackupError> {
        let _no_removal = self.holds.read().unwrap_or_else(PoisonError::into_inner);
        self.check_target(dir)?;
        // The end is looked up after the checkpoint was made, so the log reaches it.
        let (segments, log_end) = self.retention.segments();
        let (mut pieces, progress) = self.store_pieces(held.offset())?;
        pieces.extend(log_pieces(&segments));
        let mut lengths = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let file = self.fs.open_read(&piece.from).map_err(io("open", &piece.from))?;
            let length = file.len().map_err(io("measure", &piece.from))?;
            let counts = piece.bytes.map_or(length, |bytes| bytes.min(length));
            lengths.push((counts, if piece.keeps_length { length } else { counts }));
        }
        let total = lengths.iter().map(|(counts, _)| counts).sum();
        let store = dir.join(STORE_FOLDER);
        let folders = FOLDERS.iter().map(|folder| store.join(folder)).chain([dir.join(LOG_FOLDER)]);
        let folders: Vec<PathBuf> = folders.collect();
        for folder in &folders {
            self.fs.create_dir_all(folder).map_err(io("create", folder))?;
        }
        let (mut done, mut files) = (0, Vec::with_capacity(pieces.len() + 1));
        for (piece, (counts, length)) in pieces.iter().zip(lengths) {
            let mut shown = |bytes: u64| {
                done += bytes;
                show(done, total);
            };
            files.push(self.copy_file(piece, dir, counts, length, &mut shown)?);
        }
        write_end_mark(&*self.fs, &dir.join(LOG_FOLDER), self.log_id, log_end)?;
        files.push(self.hash_small(dir, "log/end.mark")?);
        if keys_mark::is_set(&*self.fs, &self.data).map_err(io("read", &self.data))? {
            keys_mark::set(&*self.fs, dir).map_err(io("write", dir))?;
            files.push(self.hash_small(dir, KEYS_MARK)?);
        }
        for folder in &folders {
            self.fs.sync_dir(folder).map_err(io("sync", folder))?;
        }
        let (log_id, offset, chain) = (self.log_id, held.offset(), progress.chain);
        let backup = Backup { log_id, offset, chain, log_end, files };
        write_manifest(&*self.fs, dir, &backup)?;
        Ok(backup)
    }

    fn store_pieces(&self, offset: u64) -> Result<(Vec<Piece>, Progress), BackupError> {
        let store = self.data.join(STORE_FOLDER);
        let CheckpointFiles { files, progress } = files_of(&self.fs, &store, offset)?;
        let progress = Progress::from_bytes(&progress).ok_or(BackupError::Stopped)?;
        let piece = |file: holdfast_store::StoreFile| {
            let within = file.path.strip_prefix(&self.data).unwrap_or(&file.path);
            let to = within.to_string_lossy().into_owned();
            Piece { from: file.path, to, bytes: file.bytes, keeps_length: false }
        };
        Ok((files.into_iter().map(piece).collect(), progress))
    }

    fn copy_file(
        &self,
        piece: &Piece,
        dir: &Path,
        counts: u64,
        length: u64,
        shown: &mut dyn FnMut(u64),
    ) -> Result<BackedUp, BackupError> {
        let from = self.fs.open_read(&piece.from).map_err(io("open", &piece.from))?;
        let path = dir.join(&piece.to);
        let to = self.fs.create_new(&path).map_err(io("create", &path))?;
        let mut hasher = blake3::Hasher::new();
        let (mut position, mut unsynced) = (0, 0);
        let mut buffer = vec![0; PIECE];
        let mut working = Instant::now();
        while position < counts {
            let wanted = usize::try_from(counts - position).map_or(PIECE, |left| left.min(PIECE));
            let read = from.read_full_at(&mut buffer[..wanted], position).map_err(io("read", &piece.from))?;
            if read < wanted {
                let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(io("read", &piece.from)(short));
            }
            to.write_at(&buffer[..wanted], position).map_err(io("write", &path))?;
            hasher.update(&buffer[..wanted]);
            position += wanted as u64;
            unsynced += wanted as u64;
            if unsynced >= SYNC_BYTES {
                to.sync_data().map_err(io("sync", &path))?;
                unsynced = 0;
                // A rest, not a wait for anything: nobody unparks this thread.
                std::thread::park_timeout(working.elapsed() * self.rests);
                working = Instant::now();
            }
            shown(wanted as u64);
        }
        if length > counts {
            to.set_len(length).map_err(io("extend", &path))?;
            buffer.fill(0);
            while position < length {
                let zeros = usize::try_from(length - position).map_or(PIECE, |left| left.min(PIECE));
                hasher.update(&buffer[..zeros]);
                position += zeros as u64;
            }
        }
        to.sync_data().map_err(io("sync", &path))?;
        Ok(BackedUp { path: piece.to.clone(), bytes: length, blake3: hasher.finalize().into() })
    }

    fn hash_small(&self, dir: &Path, name: &str) -> Result<BackedUp, BackupError> {
        let path = dir.join(name);
        let file = self.fs.open_read(&path).map_err(io("open", &path))?;
        let length = file.len().map_err(io("measure", &path))?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_full_at(&mut bytes, 0).map_err(io("read", &path))?;
        let blake3 = blake3::hash(&bytes).into();
        Ok(BackedUp { path: name.to_owned(), bytes: length, blake3 })
    }
}

fn log_pieces(segments: &[SegmentSpan]) -> impl Iterator<Item = Piece> {
    let last = segments.len().saturating_sub(1);
    segments.iter().enumerate().map(move |(at, segment)| {
        let name = segment.path.file_name().map(|name| name.to_string_lossy().into_owned());
        Piece {
            from: segment.path.clone(),
            to: format!("{LOG_FOLDER}/{}", name.unwrap_or_default()),
            // The writer is at work behind the last durable frame.
            bytes: if at == last { segment.filled } else { None },
            keeps_length: true,
        }
    })
}

/// The list as JSON. Written by hand: the names in it are ours, and need no escaping.
fn write_manifest(fs: &dyn FileSystem, dir: &Path, backup: &Backup) -> Result<(), BackupError> {
    let mut text = String::new();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let Backup { log_id, offset, chain, log_end, files } = backup;
    let wrote: std::fmt::Result = (|| {
        writeln!(text, "{{\n  \"version\": {MANIFEST_VERSION},\n  \"logId\": \"{}\",", hex(&log_id.0))?;
        writeln!(text, "  \"offset\": {offset},\n  \"chain\": \"{}\",", hex(chain))?;
        writeln!(text, "  \"logEnd\": {log_end},\n  \"files\": [")?;
        for (at, BackedUp { path, bytes, blake3 }) in files.iter().enumerate() {
            let comma = if at + 1 < files.len() { "," } else { "" };
            let blake3 = hex(blake3);
            writeln!(
                text,
                "    {{\"path\": \"{path}\", \"bytes\": {bytes}, \"blake3\": \"{blake3}\"}}{comma}"
            )?;
        }
        writeln!(text, "  ]\n}}")
    })();
    wrote.expect("a string takes everything");
    let (temporary, path) = (dir.join(MANIFEST_TEMPORARY), dir.join(MANIFEST));
    let file = fs.create_new(&temporary).map_err(io("create", &temporary))?;
    file.write_at(text.as_bytes(), 0).map_err(io("write", &temporary))?;
    file.sync_data().map_err(io("sync", &temporary))?;
    fs.rename(&temporary, &path).map_err(io("rename", &temporary))?;
    fs.sync_dir(dir).map_err(io("sync", dir))
}

/// Makes a backup of a stopped hub's directory. It is opened as a start would, a checkpoint is made of all that its log
/// leads to, and it is closed again.
///
/// # Errors
/// If the directory is in use or damaged, or the copy cannot be made.
pub fn backup_stopped(
    fs: Arc<dyn FileSystem>,
    data: &Path,
    dir: &Path,
    show: &mut dyn FnMut(u64, u64),
) -> Result<Backup, BackupError> {
    let opened = Opened::open_existing(Arc::clone(&fs), data)?;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let (mut log, mut core, _lock) = opened.into_parts();
    let retention = log.retention();
    let (log_id, holds) = (log.log_id(), RetentionHolds::default());
    let source = Source { fs, data, retention, log_id, holds, rests: 0 };
    source.check_target(dir)?;
    if core.store().newest_checkpoint() < Some(core.end()) || core.store().newest_checkpoint().is_none() {
        core.begin_checkpoint();
        core.run_jobs()?;
    }
    let held = core.store().hold_newest().ok_or(BackupError::Stopped)?;
    let backup = source.copy(&held, dir, show)?;
    log.mark_end()?;
    Ok(backup)
}

/// Backups of a running hub, one at a time.
pub(crate) struct Backups {
    pub(crate) source: Source,
    pub(crate) status: Monitor<BackupStatus>,
}

impl Backups {
    pub(crate) fn status(&self) -> BackupStatus {
        self.status.lock().clone()
    }

    /// Takes the place of the one that is being made, if the target will do.
    pub(crate) fn begin(&self, dir: &Path) -> Result<(), BackupError> {
        let mut status = self.status.lock();
        if let BackupStatus::Running { dir, .. } = &*status {
            return Err(BackupError::Running(dir.clone()));
        }
        self.source.check_target(dir)?;
        *status = BackupStatus::Running { dir: dir.to_owned(), done: 0, total: 0 };
        Ok(())
    }

    /// Makes the backup that was begun; `held` waits for its checkpoint.
    pub(crate) fn run(&self, dir: &Path, held: impl FnOnce() -> Option<Held>) {
        let made = held().ok_or(BackupError::Stopped).and_then(|held| {
            self.source.copy(&held, dir, &mut |done, total| {
                *self.status.lock() = BackupStatus::Running { dir: dir.to_owned(), done, total };
            })
        });
        let dir = dir.to_owned();
        *self.status.lock() = match made {
            Ok(backup) => {
                tracing::info!(dir = %dir.display(), offset = backup.offset, "a backup was made");
                let (bytes, files) = (backup.bytes(), backup.files.len());
                BackupStatus::Done { dir, bytes, offset: backup.offset, log_end: backup.log_end, files }
            }
            Err(error) => {
                let reason = crate::alarm::in_full(&error);
                tracing::error!(dir = %dir.display(), reason, "a backup failed; the hub goes on");
                BackupStatus::Failed { dir, reason }
            }
        };
    }
}
