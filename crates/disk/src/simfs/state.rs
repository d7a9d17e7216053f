//! What the simulated machine holds: files, names, and the account of its disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::choices::Choices;
use super::extents::BLOCK;
use super::faults::{FaultKind, Faults, Op, Struck};
use super::image::Inode;
use super::{Pace, SimCounters};

pub(super) type InodeId = u64;

#[derive(Default)]
pub(super) struct FileSystemState {
    seed: u64,
    pub nodes: BTreeMap<InodeId, Node>,
    next_inode: InodeId,
    pub dirs: BTreeSet<PathBuf>,
    pub live: BTreeMap<PathBuf, InodeId>,
    pub durable: BTreeMap<PathBuf, InodeId>,
    /// Name changes that are not durable yet, oldest first.
    pub pending: Vec<NameChange>,
    pub locked: BTreeSet<PathBuf>,
    pub capacity: Option<u64>,
    pub refuses_allocations: bool,
    /// What another process does before a read, and how many reads there are until then.
    pub before_read: Option<(u64, Act)>,
    used_blocks: u64,
    pub meter: Meter,
    pub faults: Faults,
}

pub(super) type Act = Box<dyn FnOnce() + Send>;

/// A file and what holds on to it.
pub(super) struct Node {
    pub content: Inode,
    /// Its name, or the last one it had.
    pub path: PathBuf,
    named: bool,
    /// A removed file lives as long as somebody has it open.
    handles: usize,
    /// Blocks it is charged with: none once nothing reaches it.
    charged: u64,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Set(PathBuf, InodeId),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    pub fn dir(&self) -> Option<&Path> {
        match self {
            NameChange::Set(path, _) | NameChange::Rename(path, _) | NameChange::Remove(path) => {
                path.parent()
            }
        }
    }

    /// The name that it gives or takes.
    fn name(&self) -> &Path {
        match self {
            NameChange::Set(path, _) | NameChange::Rename(_, path) | NameChange::Remove(path) => path,
        }
    }

    pub fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
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

impl FileSystemState {
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub fn new_inode(&mut self, content: Inode) -> InodeId {
        self.next_inode += 1;
        let node = Node { content, path: PathBuf::new(), named: false, handles: 0, charged: 0 };
        self.nodes.insert(self.next_inode, node);
        self.next_inode
    }

    pub fn node(&mut self, id: InodeId) -> io::Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or_else(not_found)
    }

    pub fn node_at(&mut self, path: &Path) -> io::Result<&mut Node> {
        let id = *self.live.get(path).ok_or_else(not_found)?;
        self.node(id)
    }

    pub fn opened(&mut self, id: InodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.handles += 1;
        }
    }

    pub fn closed(&mut self, id: InodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.handles -= 1;
            self.charge(id);
        }
    }

    /// Changes a name for everyone who runs now; for after a loss of power only once the directory is synced.
    pub fn change(&mut self, change: NameChange) {
        self.name(&change);
        self.pending.push(change);
    }

    /// Puts a name there, durable at once.
    pub fn put_name(&mut self, path: &Path, id: InodeId) {
        let change = NameChange::Set(path.to_owned(), id);
        self.name(&change);
        change.apply(&mut self.durable);
    }

    fn name(&mut self, change: &NameChange) {
        let loser = self.live.get(change.name()).copied();
        if let Some(node) = loser.and_then(|id| self.nodes.get_mut(&id)) {
            node.named = false;
        }
        change.apply(&mut self.live);
        let winner = self.live.get(change.name()).copied();
        if let Some(node) = winner.and_then(|id| self.nodes.get_mut(&id)) {
            node.named = true;
            change.name().clone_into(&mut node.path);
        }
        for id in loser.into_iter().chain(winner) {
            self.charge(id);
        }
    }

    /// Frees the files that no name and no handle reaches any more.
    pub fn free_unreachable(&mut self) {
        let FileSystemState { nodes, durable, pending, .. } = self;
        let kept: BTreeSet<InodeId> = durable.values().copied().collect();
        let pends = |id: &InodeId| pending.iter().any(|c| matches!(c, NameChange::Set(_, set) if set == id));
        nodes.retain(|id, node| node.named || node.handles > 0 || kept.contains(id) || pends(id));
    }

    /// What is to be done before the read that comes now.
    pub fn act_before_read(&mut self) -> Option<Act> {
        let (left, _) = self.before_read.as_mut()?;
        *left -= 1;
        if *left == 0 { self.before_read.take().map(|(_, act)| act) } else { None }
    }

    /// Brings the account of the disk's room up to date with one file.
    pub fn charge(&mut self, id: InodeId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            let reached = node.named || node.handles > 0;
            let blocks = if reached { node.content.live_blocks() } else { 0 };
            self.used_blocks = self.used_blocks - node.charged + blocks;
            node.charged = blocks;
        }
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_blocks * BLOCK
    }

    /// Blocks that can still be taken.
    pub fn room_blocks(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |bytes| (bytes / BLOCK).saturating_sub(self.used_blocks))
    }

    /// How many of `len` bytes at `position` of a file there is room for.
    pub fn fitting(&self, id: InodeId, position: u64, len: u64) -> io::Result<u64> {
        if self.capacity.is_none() {
            return Ok(len);
        }
        let node = self.nodes.get(&id).ok_or_else(not_found)?;
        Ok(node.content.fitting(position, len, self.room_blocks()))
    }

    /// What is found after a loss of power. Names survive as a prefix of what happened in each directory, whatever
    /// becomes of the bytes they lead to. The room and the pace of the medium stay, and the log of faults holds
    /// what this loss did.
    pub fn survivor(&self, seed: u64) -> FileSystemState {
        let mut choices = Choices::new(self.seed ^ seed.rotate_left(32));
        let mut after = FileSystemState {
            next_inode: self.next_inode,
            dirs: self.dirs.clone(),
            durable: self.durable.clone(),
            capacity: self.capacity,
            refuses_allocations: self.refuses_allocations,
            meter: Meter { pace: self.meter.pace, ..Meter::default() },
            ..FileSystemState::default()
        };
        let fresh = self.keep_names(&mut after, &mut choices);
        let mut found: Vec<(InodeId, PathBuf)> =
            after.durable.iter().map(|(p, &id)| (id, p.clone())).collect();
        found.sort_unstable();
        for (id, path) in found {
            let Some(node) = self.nodes.get(&id) else { continue };
            let (content, damage) = node.content.survivor(&mut choices);
            let is_bare = !damage.is_empty() && fresh.contains(path.as_path());
            for kind in damage.into_iter().chain(is_bare.then_some(FaultKind::NameWithoutData)) {
                after.faults.record(kind, Struck::File(&path));
            }
            after.nodes.insert(id, Node { content, path, named: true, handles: 0, charged: 0 });
            after.charge(id);
        }
        after.live = after.durable.clone();
        after.seed = choices.next();
        after
    }

    /// Chooses which name changes survive, and returns the names that they gave.
    fn keep_names(&self, after: &mut FileSystemState, choices: &mut Choices) -> BTreeSet<&Path> {
        let mut kept_of: BTreeMap<Option<&Path>, u64> = BTreeMap::new();
        let mut fresh = BTreeSet::new();
        for change in &self.pending {
            let dir = change.dir();
            let kept = kept_of.entry(dir).or_insert_with(|| {
                let changes = self.pending.iter().filter(|other| other.dir() == dir).count();
                choices.below(changes as u64 + 1)
            });
            if *kept == 0 {
                after.faults.record(FaultKind::NameLost, Struck::File(change.name()));
                continue;
            }
            *kept -= 1;
            change.apply(&mut after.durable);
            if !matches!(change, NameChange::Remove(_)) {
                fresh.insert(change.name());
            }
        }
        fresh
    }
}

/// What was asked of the medium and the time it took, and when it stops to answer.
#[derive(Default)]
pub(super) struct Meter {
    pub counters: SimCounters,
    pub pace: Pace,
    pub busy_nanos: u64,
    /// Syncs left before the power goes; 0 means it is gone.
    pub syncs_left: Option<u64>,
}

impl Meter {
    /// Adds the service time of one operation.
    pub fn spend(&mut self, bytes: u64) {
        let nanos = self.pace.per_op.saturating_add(self.pace.per_byte.saturating_mul(bytes));
        self.busy_nanos = self.busy_nanos.saturating_add(nanos);
    }

    /// Counts a sync; fails if the power goes now. `Ok(false)`: the sync itself is to fail.
    pub fn sync(&mut self, faults: &mut Faults, place: Struck<'_>) -> io::Result<bool> {
        self.counters.syncs += 1;
        self.spend(0);
        if let Some(left) = &mut self.syncs_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                faults.record(FaultKind::PowerLoss, place);
                return Err(crashed());
            }
        }
        Ok(faults.strike(Op::Sync, place).is_none())
    }
}

pub(super) fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

pub(super) fn crashed() -> io::Error {
    io::Error::other("crashed: the simulated machine lost power")
}
