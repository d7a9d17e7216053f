//! A file system in memory that loses power on demand.
//!
//! Every file has a live image (what reads see) and a durable one (what the medium holds), and the list of writes
//! between them. Names likewise: creating, renaming and removing is durable only after the directory's sync.
//! [`SimFs::crash`] returns what a machine would find afterwards: the durable state, plus a seeded choice per
//! 512-byte sector of each unsynced write, plus a seeded prefix of the unsynced name changes.
//!
//! Deterministic: the same calls and seeds give the same bytes. Simplifications: directories themselves are
//! durable at once, renames stay within a directory, a sector is never half-written.

mod image;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::{DirLock, File, FileSystem};
use image::{Choices, Inode};

/// A handle on a simulated file system; clones are the same one.
#[derive(Clone)]
pub struct SimFs {
    state: Arc<Mutex<State>>,
}

/// How often the medium was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Calls of `write_at` and `set_len`.
    pub writes: u64,
    /// Bytes given to `write_at`.
    pub bytes_written: u64,
    /// Calls of `sync_data` and `sync_dir`.
    pub syncs: u64,
}

type InodeId = u64;

#[derive(Default)]
struct State {
    seed: u64,
    inodes: BTreeMap<InodeId, Inode>,
    next_inode: InodeId,
    /// Open handles per inode: a removed file lives as long as somebody has it open.
    handles: BTreeMap<InodeId, usize>,
    dirs: BTreeSet<PathBuf>,
    live: BTreeMap<PathBuf, InodeId>,
    durable: BTreeMap<PathBuf, InodeId>,
    /// Name changes that are not durable yet, oldest first.
    pending: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    counters: SimCounters,
    /// Syncs left before the power goes; 0 means it is gone.
    syncs_left: Option<u64>,
    fail_sync: bool,
    fail_write: bool,
}

#[derive(Clone)]
enum NameChange {
    Set(PathBuf, InodeId),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameChange::Set(path, _) | NameChange::Rename(path, _) | NameChange::Remove(path) => {
                path.parent()
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        match self {
            NameChange::Set(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

impl SimFs {
    /// An empty file system. The seed goes into every choice a later [`crash`](Self::crash) makes.
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State { seed, ..State::default() })) }
    }

    /// The `n`-th sync from now (of a file or a directory, counted from 1) fails, and everything after it: the
    /// power is gone. Nothing of that sync is durable, unless a crash's choice makes it so.
    pub fn freeze_at_sync(&self, n: u64) {
        self.lock().syncs_left = Some(n);
    }

    /// Whether the sync of [`freeze_at_sync`](Self::freeze_at_sync) has been reached.
    pub fn is_frozen(&self) -> bool {
        self.lock().syncs_left == Some(0)
    }

    /// The next sync fails with an IO error, and what it should have written is lost, though reads still show
    /// it: as on a real system after a failed writeback.
    pub fn fail_next_sync(&self) {
        self.lock().fail_sync = true;
    }

    /// The next write fails with an IO error; half of it may have been written.
    pub fn fail_next_write(&self) {
        self.lock().fail_write = true;
    }

    /// What the medium holds after a loss of power now. `self` stays as it is, so one moment can be crashed with
    /// many seeds. The survivor has no locks, no failures planned and counts from zero.
    pub fn crash(&self, seed: u64) -> SimFs {
        let state = self.lock();
        let mut choices = Choices::new(state.seed ^ seed.rotate_left(32));
        let mut names = state.durable.clone();
        let survive = choices.below(state.pending.len() as u64 + 1);
        for (_, change) in (0..survive).zip(&state.pending) {
            change.apply(&mut names);
        }
        let kept: BTreeSet<InodeId> = names.values().copied().collect();
        let inodes = state.inodes.iter().filter(|(id, _)| kept.contains(id));
        let inodes = inodes.map(|(&id, inode)| (id, inode.survivor(&mut choices))).collect();
        let survivor = State {
            seed: choices.next(),
            inodes,
            next_inode: state.next_inode,
            dirs: state.dirs.clone(),
            live: names.clone(),
            durable: names,
            ..State::default()
        };
        SimFs { state: Arc::new(Mutex::new(survivor)) }
    }

    /// How often the medium was asked so far.
    pub fn counters(&self) -> SimCounters {
        self.lock().counters
    }

    /// Bit rot: xors one byte of a file, in both images. Panics if there is no such file.
    pub fn flip_byte(&self, path: &Path, position: u64, mask: u8) {
        let mut state = self.lock();
        let inode = state.inode_of(path).expect("flip_byte: no such file");
        inode.rot(position, mask);
    }

    /// A file's whole contents as reads see them.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.lock().inode_of(path).map(|inode| inode.live_bytes())
    }

    /// Puts a file there with these contents, all durable: a fixture.
    pub fn put(&self, path: &Path, contents: &[u8]) {
        let mut state = self.lock();
        state.dirs.extend(path.ancestors().skip(1).map(Path::to_owned));
        let id = state.new_inode();
        if let Some(inode) = state.inodes.get_mut(&id) {
            inode.write(contents, 0);
            inode.sync();
        }
        state.live.insert(path.to_owned(), id);
        state.durable.insert(path.to_owned(), id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if the power is still on.
    fn powered(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.syncs_left == Some(0) { Err(crashed()) } else { Ok(state) }
    }

    fn handle(&self, inode: InodeId) -> Arc<dyn File> {
        *self.lock().handles.entry(inode).or_default() += 1;
        Arc::new(SimFile { fs: self.clone(), inode })
    }
}

impl State {
    fn new_inode(&mut self) -> InodeId {
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Inode::default());
        self.next_inode
    }

    fn inode_of(&mut self, path: &Path) -> io::Result<&mut Inode> {
        let id = self.live.get(path).ok_or_else(not_found)?;
        self.inodes.get_mut(id).ok_or_else(not_found)
    }

    /// Frees the files that no name and no handle reaches any more.
    fn free_unreachable(&mut self) {
        let State { inodes, handles, live, durable, pending, .. } = self;
        let named: BTreeSet<InodeId> = live.values().chain(durable.values()).copied().collect();
        let pends = |id: &InodeId| pending.iter().any(|c| matches!(c, NameChange::Set(_, set) if set == id));
        inodes.retain(|id, _| named.contains(id) || handles.contains_key(id) || pends(id));
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    /// Counts a sync; fails if the power goes now. `Ok(false)`: the sync itself is to fail.
    fn sync(&mut self) -> io::Result<bool> {
        self.counters.syncs += 1;
        if let Some(left) = &mut self.syncs_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Err(crashed());
            }
        }
        Ok(!std::mem::take(&mut self.fail_sync))
    }
}

impl FileSystem for SimFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.powered()?;
        state.dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.powered()?;
        if !state.dirs.contains(dir) {
            return Err(not_found());
        }
        let inside = state.live.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.powered()?;
        Ok(state.live.contains_key(path) || state.dirs.contains(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let inode = *self.powered()?.live.get(path).ok_or_else(not_found)?;
        Ok(self.handle(inode))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.powered()?;
        if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
            return Err(not_found());
        }
        if state.live.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.new_inode();
        state.change(NameChange::Set(path.to_owned(), inode));
        drop(state);
        Ok(self.handle(inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.powered()?;
        if !state.live.contains_key(from) {
            return Err(not_found());
        }
        if from.parent() != to.parent() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "SimFs renames within a directory only"));
        }
        state.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.powered()?;
        if !state.live.contains_key(path) {
            return Err(not_found());
        }
        state.change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.powered()?;
        let works = state.sync()?;
        let pending = std::mem::take(&mut state.pending);
        let (here, elsewhere) = pending.into_iter().partition(|change| change.dir() == Some(dir));
        state.pending = elsewhere;
        let here: Vec<NameChange> = here;
        if !works {
            return Err(failed("sync"));
        }
        for change in here {
            change.apply(&mut state.durable);
        }
        state.free_unreachable();
        Ok(())
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        if self.powered()?.locked.insert(dir.to_owned()) {
            Ok(Box::new(SimLock { fs: self.clone(), dir: dir.to_owned() }))
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}

struct SimLock {
    fs: SimFs,
    dir: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.lock().locked.remove(&self.dir);
    }
}

struct SimFile {
    fs: SimFs,
    inode: InodeId,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.fs.lock();
        if let Some(count) = state.handles.get_mut(&self.inode) {
            *count -= 1;
            if *count == 0 {
                state.handles.remove(&self.inode);
            }
        }
    }
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let mut state = self.fs.powered()?;
        state.inodes.get_mut(&self.inode).map(act).ok_or_else(not_found)
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(|inode| inode.read(buf, position))
    }

    fn write_at(&self, data: &[u8], position: u64) -> io::Result<()> {
        let mut state = self.fs.powered()?;
        state.counters.writes += 1;
        state.counters.bytes_written += data.len() as u64;
        let fails = std::mem::take(&mut state.fail_write);
        let written = if fails { &data[..data.len() / 2] } else { data };
        state.inodes.get_mut(&self.inode).ok_or_else(not_found)?.write(written, position);
        if fails { Err(failed("write")) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.powered()?;
        let works = state.sync()?;
        let inode = state.inodes.get_mut(&self.inode).ok_or_else(not_found)?;
        if works {
            inode.sync();
            Ok(())
        } else {
            inode.forget_writes();
            Err(failed("sync"))
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|inode| inode.live_len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.powered()?.counters.writes += 1;
        self.with(|inode| inode.set_len(len))
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.with(Inode::reload)
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn crashed() -> io::Error {
    io::Error::other("crashed: the simulated machine lost power")
}

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("simulated {what} failure"))
}
