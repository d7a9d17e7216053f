//! The simulated file system as a program sees it.

use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SimFs;
use super::faults::{FaultKind, Op, Strike, Struck};
use super::image::Inode;
use super::state::{FileSystemState, InodeId, NameChange, not_found};
use crate::fs::{DirLock, File, FileSystem};

impl SimFs {
    fn open_as(&self, path: &Path, cached: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.powered()?;
        let inode = *state.live.get(path).ok_or_else(not_found)?;
        Ok(self.handle(&mut state, inode, cached))
    }

    fn create_as(&self, path: &Path, cached: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.powered()?;
        if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
            return Err(not_found());
        }
        if state.live.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.room_blocks() == 0 {
            state.faults.record(FaultKind::DiskFull, Struck::File(path));
            return Err(full());
        }
        let inode = state.new_inode(Inode::default());
        state.change(NameChange::Set(path.to_owned(), inode));
        Ok(self.handle(&mut state, inode, cached))
    }

    fn handle(&self, state: &mut FileSystemState, inode: InodeId, cached: bool) -> Arc<dyn File> {
        state.opened(inode);
        Arc::new(SimFile { fs: self.clone(), inode, cached })
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
        // Paths sort by their components: what is below a directory follows it directly.
        let below = state.live.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        let below = below.map(|(path, _)| path).take_while(|path| path.starts_with(dir));
        let inside = below.filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.powered()?;
        Ok(state.live.contains_key(path) || state.dirs.contains(path))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_as(path, true)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }

    fn open_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_as(path, false)
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_as(path, true)
    }

    fn create_new_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_as(path, false)
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
        let FileSystemState { meter, faults, .. } = &mut *state;
        let works = meter.sync(faults, Struck::Dir(dir))?;
        if !works {
            // As file systems with a journal do: one that cannot write its names down does nothing more.
            meter.syncs_left = Some(0);
            return Err(failed("sync"));
        }
        let pending = std::mem::take(&mut state.pending);
        let (here, elsewhere) = pending.into_iter().partition(|change| change.dir() == Some(dir));
        state.pending = elsewhere;
        let here: Vec<NameChange> = here;
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
    /// Whether a cache stands between this handle and the medium: it hides that the medium lies.
    cached: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.fs.lock().closed(self.inode);
    }
}

impl SimFile {
    /// Acts on the file, and keeps account of the room it takes.
    fn with<T>(&self, act: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let mut state = self.fs.powered()?;
        let done = act(&mut state.node(self.inode)?.content);
        state.charge(self.inode);
        Ok(done)
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let act = self.fs.powered()?.act_before_read();
        if let Some(act) = act {
            act();
        }
        let mut state = self.fs.powered()?;
        let FileSystemState { nodes, meter, faults, .. } = &mut *state;
        let node = nodes.get(&self.inode).ok_or_else(not_found)?;
        if faults.strike(Op::Read, Struck::File(&node.path)).is_some() {
            meter.spend(0);
            return Err(failed("read"));
        }
        let read = node.content.read(buf, position);
        meter.spend(read as u64);
        Ok(read)
    }

    fn write_at(&self, data: &[u8], position: u64) -> io::Result<()> {
        let len = data.len() as u64;
        position.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut state = self.fs.powered()?;
        state.meter.counters.writes += 1;
        state.meter.counters.bytes_written += len;
        state.meter.spend(len);
        let fits = state.fitting(self.inode, position, len)?;
        let FileSystemState { nodes, faults, .. } = &mut *state;
        let node = nodes.get_mut(&self.inode).ok_or_else(not_found)?;
        let place = Struck::File(&node.path);
        let mut result = Ok(());
        let mut landed_in = None;
        if fits < len {
            // As on a real system: what there is room for is written, and then there is none.
            faults.record(FaultKind::DiskFull, place);
            node.content.write(&data[..usize::try_from(fits).unwrap_or(0)], position);
            result = Err(full());
        } else {
            match faults.strike(Op::Write, place) {
                None | Some(Strike::FailRead | Strike::FailSync) => node.content.write(data, position),
                Some(Strike::FailWrite) => {
                    node.content.write(&data[..data.len() / 2], position);
                    result = Err(failed("write"));
                }
                Some(Strike::LoseWrite) => node.content.write_lost(data, position, self.cached),
                Some(Strike::Misdirect(by)) => {
                    let back = position.checked_add_signed(by);
                    let landed = back.unwrap_or_else(|| position.saturating_add(by.unsigned_abs()));
                    node.content.write_astray(data, position, landed, self.cached);
                }
                Some(Strike::MisdirectInto(other)) => {
                    node.content.write_lost(data, position, self.cached);
                    landed_in = Some(other);
                }
            }
        }
        state.charge(self.inode);
        if let Some(&other) = landed_in.and_then(|path| state.live.get(&path)) {
            state.node(other)?.content.overwritten(data, position, self.cached);
            state.charge(other);
        }
        result
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.powered()?;
        let FileSystemState { nodes, meter, faults, .. } = &mut *state;
        let node = nodes.get_mut(&self.inode).ok_or_else(not_found)?;
        if meter.sync(faults, Struck::File(&node.path))? {
            node.content.sync();
            Ok(())
        } else {
            node.content.forget_writes();
            Err(failed("sync"))
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|inode| inode.live_len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.fs.powered()?;
        state.meter.counters.writes += 1;
        state.meter.spend(0);
        drop(state);
        self.with(|inode| inode.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.fs.powered()?;
        if state.refuses_allocations {
            return Err(io::ErrorKind::Unsupported.into());
        }
        state.meter.counters.writes += 1;
        state.meter.spend(0);
        let fits = state.fitting(self.inode, 0, len)?;
        let FileSystemState { nodes, faults, .. } = &mut *state;
        let node = nodes.get_mut(&self.inode).ok_or_else(not_found)?;
        if fits < len {
            faults.record(FaultKind::DiskFull, Struck::File(&node.path));
            return Err(full());
        }
        node.content.reserve(0, len);
        state.charge(self.inode);
        Ok(())
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.with(Inode::reload)
    }
}

fn failed(what: &str) -> io::Error {
    io::Error::other(format!("simulated {what} failure"))
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")
}
