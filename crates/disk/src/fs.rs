//! The little of a file system that a log needs, so that tests can crash it.
//!
//! The contract is the one a disk gives, not more: what was written is durable after [`File::sync_data`]; a name
//! that was created, renamed or removed is durable after [`FileSystem::sync_dir`] of its directory. A failed sync
//! is never repeated: the kernel may have dropped the dirty pages and would answer `Ok` the second time. Where the
//! sync of a directory fails we rely on what ext4, xfs and btrfs do, which cannot write their journal then: they let
//! nothing be written any more until they are mounted again, so nobody builds on a name that the disk does not have.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Holds a directory for one process; dropping it lets go.
pub type DirLock = Box<dyn Send + Sync>;

/// Directories and names.
pub trait FileSystem: Send + Sync {
    /// Creates a directory and its parents. Durable when it returns.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// The names of the files in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Whether a file is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens a file for reading; works on a read-only medium.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Creates a file that must not exist yet, for reading and writing.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// As [`FileSystem::create_new`], for a file that is filled with aligned whole blocks and not read: its bytes
    /// need not pass through a cache.
    fn create_new_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create_new(path)
    }
    /// As [`FileSystem::open`], for a file that is written in aligned whole blocks and not read: its bytes need not
    /// pass through a cache. Readers who opened it otherwise see what was written.
    fn open_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }
    /// Renames a file within its directory, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a file, if it is there.
    fn remove_if_there(&self, path: &Path) -> io::Result<()> {
        if self.exists(path)? { self.remove(path) } else { Ok(()) }
    }
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes a directory for this process, or fails with [`io::ErrorKind::WouldBlock`] if another has it.
    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock>;
}

/// An open file.
#[allow(
    clippy::len_without_is_empty,
    reason = "a file's length is a question to the system, emptiness is not"
)]
pub trait File: Send + Sync {
    /// Reads some bytes at a position; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes all of `data` at a position.
    fn write_at(&self, data: &[u8], position: u64) -> io::Result<()>;
    /// Makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Cuts or extends (with zeros) to a length.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Takes room for the first `len` bytes, so that writing there cannot find the disk full. What was not written
    /// reads as zeros; a shorter file becomes so long. Durable after [`File::sync_data`]. A file system that cannot
    /// do it answers [`io::ErrorKind::Unsupported`]: then the caller writes zeros.
    fn allocate(&self, len: u64) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("cannot take room for {len} bytes")))
    }
    /// Where the next byte that may not be zero stands, from `position` on; `None`: all that follows reads as zeros. Room that
    /// was taken and never written need not be read then. A file system that does not know says `position`.
    fn data_from(&self, position: u64) -> io::Result<Option<u64>> {
        Ok(Some(position))
    }
    /// Forgets cached contents that are not waiting to be written, so that the next read shows the medium. After
    /// a failed sync the cache can hold bytes that the disk does not.
    fn drop_cache(&self) -> io::Result<()>;
    /// Reads until `buf` is full or the file ends; returns the bytes read.
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read_at(&mut buf[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// The number in the name of a file that is called by twenty digits and this ending; `None` if it is called otherwise.
/// Such names are in the order of their numbers.
pub fn number_in_name(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFs;

impl FileSystem for RealFs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        parent.map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(fs::File::options().read(true).write(true).open(path)?)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(fs::File::open(path)?)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(fs::File::options().read(true).write(true).create_new(true).open(path)?)))
    }

    /// Copying zeros into the page cache took a tenth of the CPU of a busy hub; the disk can have them directly.
    fn create_new_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        match direct().create_new(true).open(path) {
            Ok(file) => Ok(Arc::new(RealFile(file))),
            // Some refuse only after they made the file.
            Err(error) if refuses_direct(&error) => {
                if path.try_exists()? {
                    fs::remove_file(path)?;
                }
                self.create_new(path)
            }
            Err(error) => Err(error),
        }
    }

    /// A large append through the page cache took a third more time and twice the CPU.
    fn open_uncached(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        match direct().open(path) {
            Ok(file) => Ok(Arc::new(RealFile(file))),
            Err(error) if refuses_direct(&error) => self.open(path),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<DirLock> {
        let handle = fs::File::open(dir)?;
        rustix::fs::flock(&handle, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(HeldDir(handle)))
    }
}

/// A locked directory.
///
/// Closing the handle is not enough: a process that another thread is just starting has a copy of it until it
/// runs its own program, and the lock would live as long as that.
struct HeldDir(fs::File);

impl Drop for HeldDir {
    fn drop(&mut self) {
        // If it fails, closing the handle does it a moment later.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// For reading and writing without the page cache.
fn direct() -> fs::OpenOptions {
    let flag = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    let mut options = fs::File::options();
    options.read(true).write(true).custom_flags(flag);
    options
}

/// A file system without direct IO refuses the flag.
fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buf, position)
    }

    fn write_at(&self, data: &[u8], position: u64) -> io::Result<()> {
        self.0.write_all_at(data, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not std's sync_data: that repeats the call when a signal interrupts it.
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        match retry_on_intr(|| fallocate(&self.0, FallocateFlags::empty(), 0, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            done => Ok(done?),
        }
    }

    fn data_from(&self, position: u64) -> io::Result<Option<u64>> {
        // What was read ahead of its time lies in the cache and would be taken for data.
        rustix::fs::fadvise(&self.0, position, None, rustix::fs::Advice::DontNeed)?;
        match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(position)) {
            Ok(found) => Ok(Some(found.max(position))),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(position)),
            Err(error) => Err(error.into()),
        }
    }

    fn drop_cache(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_handle_does_not_keep_a_directory_locked() {
        let folder = tempfile::tempdir().unwrap();
        let fs_of_all: &dyn FileSystem = &RealFs;
        let handle = fs::File::open(folder.path()).unwrap();
        rustix::fs::flock(&handle, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        // What a process has that was forked and has not yet run its own program.
        let copy = handle.try_clone().unwrap();
        let held = HeldDir(handle);
        let refused = fs_of_all.lock_dir(folder.path()).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        drop(held);
        assert!(fs_of_all.lock_dir(folder.path()).is_ok());
        drop(copy);
    }
}
