//! What a simulator can do to the medium.
//!
//! A planned fault waits for the operation it is meant for. Which files it is for is a question to their paths;
//! it is asked while the file system is locked, so the answer must not need the file system. A file that was
//! removed while open keeps its last name.

use std::io;
use std::path::Path;

use super::choices::Choices;
use super::faults::{FaultHit, FaultKind, Rotten, Strike, Struck};
use super::image::SECTOR;
use super::state::InodeId;
use super::{Pace, SimFs};

/// Power.
impl SimFs {
    /// The `n`-th sync from now (of a file or a directory, counted from 1) fails, and everything after it: the
    /// power is gone. Nothing of that sync is durable, unless a crash's choice makes it so.
    pub fn freeze_at_sync(&self, n: u64) {
        self.lock().meter.syncs_left = Some(n);
    }

    /// Whether the sync of [`freeze_at_sync`](Self::freeze_at_sync) has been reached.
    pub fn is_frozen(&self) -> bool {
        self.lock().meter.syncs_left == Some(0)
    }
}

/// Room and time.
impl SimFs {
    /// Gives the disk a size, or none. Room is taken in blocks of 4096 bytes by what is written or allocated;
    /// lengthening a file takes none. A write beyond it writes what there is room for and fails with
    /// [`io::ErrorKind::StorageFull`]; an allocation or a new file fails as a whole. A file's room is free again
    /// when it has neither a name nor an open handle.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// The room that files take, in whole blocks.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// From now on no file can be allocated, as on file systems that do not know how.
    pub fn refuse_allocations(&self) {
        self.lock().refuses_allocations = true;
    }

    /// Lets `act` run just before the `n`-th read from now (counted from 1), as another process might act then.
    pub fn act_before_read(&self, n: u64, act: impl FnOnce() + Send + 'static) {
        self.lock().before_read = Some((n, Box::new(act)));
    }

    /// Sets how long operations take from now on.
    pub fn set_pace(&self, pace: Pace) {
        self.lock().meter.pace = pace;
    }

    /// The time the medium was busy so far, by the pace that was set at each operation. It only grows, so a
    /// simulator can advance its clock by the difference.
    pub fn busy_nanos(&self) -> u64 {
        self.lock().meter.busy_nanos
    }
}

/// Operations that fail.
impl SimFs {
    /// The next sync fails with an IO error, and what it should have written is lost, though reads still show
    /// it: as on a real system after a failed writeback. If it is the sync of a directory, the file system stops: as
    /// with [`freeze_at_sync`](Self::freeze_at_sync) nothing works until the machine is started again.
    pub fn fail_next_sync(&self) {
        self.lock().faults.plan_next(Strike::FailSync);
    }

    /// As [`fail_next_sync`](Self::fail_next_sync) for every sync of the files and directories that match, until
    /// [`heal`](Self::heal).
    pub fn fail_syncs_of(&self, matching: impl Fn(&Path) -> bool + Send + 'static) {
        self.plan(Strike::FailSync, matching, None);
    }

    /// The next write fails with an IO error; half of it may have been written.
    pub fn fail_next_write(&self) {
        self.lock().faults.plan_next(Strike::FailWrite);
    }

    /// The next read fails with an IO error.
    pub fn fail_next_read(&self) {
        self.lock().faults.plan_next(Strike::FailRead);
    }

    /// The next `n` reads of files whose path ends so fail with an IO error. The suffix is text, not a component:
    /// `.seg` means all segments.
    pub fn fail_reads_of(&self, path_suffix: &str, n: u32) {
        let suffix = path_suffix.to_owned();
        let ends_so = move |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes());
        self.plan(Strike::FailRead, ends_so, Some(n));
    }

    /// Forgets all faults that are planned and have not struck. The capacity, the pace and a planned loss of
    /// power stay.
    pub fn heal(&self) {
        self.lock().faults.forget_plans();
    }

    fn plan(&self, strike: Strike, matching: impl Fn(&Path) -> bool + Send + 'static, times: Option<u32>) {
        self.lock().faults.plan(strike, Some(Box::new(matching)), times);
    }
}

/// A medium that lies. A handle with a cache shows what was written until [`drop_cache`](crate::File::drop_cache)
/// or a crash; one without (`open_uncached`, `create_new_uncached`) makes the truth visible to all readers at once.
impl SimFs {
    /// The next write to a file that matches is reported as done and never happens. The file is as long as if it
    /// had.
    pub fn lose_next_write(&self, matching: impl Fn(&Path) -> bool + Send + 'static) {
        self.plan(Strike::LoseWrite, matching, Some(1));
    }

    /// The next write to a file that matches lands `by` bytes from where it should, and nobody is told. It lands
    /// in the other direction if there is nothing before the file's beginning to hit; what falls behind its end
    /// is gone.
    ///
    /// Panics unless `by` is a multiple of 512, other than 0.
    pub fn misdirect_next_write(&self, matching: impl Fn(&Path) -> bool + Send + 'static, by: i64) {
        assert!(
            by != 0 && by.unsigned_abs().is_multiple_of(SECTOR as u64),
            "a disk errs by whole sectors, not by {by}"
        );
        self.plan(Strike::Misdirect(by), matching, Some(1));
    }

    /// The next write to a file that matches lands at the same position of another file, at once on the medium.
    /// If the other is shorter, or not there, the write is lost.
    pub fn misdirect_next_write_into(&self, matching: impl Fn(&Path) -> bool + Send + 'static, into: &Path) {
        self.plan(Strike::MisdirectInto(into.to_owned()), matching, Some(1));
    }
}

/// Decay.
impl SimFs {
    /// Bit rot: flips bits of one byte of a file, in what reads see and in what the medium holds.
    pub fn rot(&self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        let mut state = self.lock();
        if mask == 0 || !state.node_at(path)?.content.rot(position, mask) {
            let why = format!("nothing to rot at {position} of {} with mask {mask}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        state.faults.record(FaultKind::BitRot, Struck::File(path));
        Ok(())
    }

    /// As [`rot`](Self::rot); panics if there is no such file, or no such byte.
    pub fn flip_byte(&self, path: &Path, position: u64, mask: u8) {
        self.rot(path, position, mask).expect("flip_byte: no such byte");
    }

    /// Flips one bit of a byte that was written and synced, in a file that matches. Blocks of zeros, and zeros
    /// around the written part of a block, count as not written. `None` if there is no such byte.
    pub fn rot_random(&self, seed: u64, matching: impl Fn(&Path) -> bool) -> Option<Rotten> {
        let mut state = self.lock();
        let mut choices = Choices::new(seed);
        let nodes = &state.nodes;
        let files = state.live.iter().filter(|(path, _)| matching(path));
        let chunks_of = |&id: &InodeId| nodes.get(&id).map(|node| node.content.written_chunks());
        let chunks = files
            .flat_map(|(path, id)| chunks_of(id).into_iter().flatten().map(move |chunk| (path, *id, chunk)));
        let mut chunks: Vec<_> = chunks.collect();
        while !chunks.is_empty() {
            let (path, id, chunk) = chunks.swap_remove(choices.index(chunks.len()));
            let content = &nodes.get(&id)?.content;
            if let Some(position) = content.written_byte(chunk, &mut choices) {
                let rotten = Rotten { path: path.clone(), position, mask: 1 << choices.below(8) };
                state.node(id).ok()?.content.rot(position, rotten.mask);
                state.faults.record(FaultKind::BitRot, Struck::File(&rotten.path));
                return Some(rotten);
            }
        }
        None
    }

    /// Which faults struck which classes of files, and how often: what was planned and never struck is not there.
    pub fn faults(&self) -> Vec<FaultHit> {
        self.lock().faults.hits()
    }
}
