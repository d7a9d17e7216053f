//! What can go wrong with the medium: the faults that are planned, and a count of those that struck.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Classes of files counted apart; what comes later counts as [`OTHER`].
const CLASSES_MAX: usize = 256;
const OTHER: &str = "(other)";

/// A way in which the medium fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A write, an allocation or a new file found no room.
    DiskFull,
    /// A read failed.
    ReadError,
    /// A write failed, halfway.
    WriteError,
    /// A sync failed, and what waited for it is lost.
    SyncError,
    /// The power went at a sync.
    PowerLoss,
    /// Bits flipped at rest.
    BitRot,
    /// A write was reported as done and never happened.
    LostWrite,
    /// A write landed in another place.
    MisdirectedWrite,
    /// After a loss of power: some sectors of a write are there and some are not.
    TornWrite,
    /// After a loss of power: an unsynced write, or change of length, is not there.
    UnsyncedLost,
    /// After a loss of power: a file is as long as a write made it, but the end of the write is not there.
    LengthWithoutData,
    /// After a loss of power: a file is shorter than it was.
    ShorterFile,
    /// After a loss of power: a creation, renaming or removal did not happen.
    NameLost,
    /// After a loss of power: a new name is there, and leads to a file of which something is missing.
    NameWithoutData,
}

impl FaultKind {
    /// The kind as a report prints it.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::DiskFull => "disk full",
            FaultKind::ReadError => "read error",
            FaultKind::WriteError => "write error",
            FaultKind::SyncError => "sync error",
            FaultKind::PowerLoss => "power loss",
            FaultKind::BitRot => "bit rot",
            FaultKind::LostWrite => "lost write",
            FaultKind::MisdirectedWrite => "misdirected write",
            FaultKind::TornWrite => "torn write",
            FaultKind::UnsyncedLost => "unsynced write lost",
            FaultKind::LengthWithoutData => "length without data",
            FaultKind::ShorterFile => "shorter file",
            FaultKind::NameLost => "name change lost",
            FaultKind::NameWithoutData => "name without data",
        }
    }
}

/// How often a kind of fault struck a class of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultHit {
    /// What went wrong.
    pub kind: FaultKind,
    /// The file's extension; the name of its directory if it has none, or only digits; for a directory its name
    /// and a slash.
    pub class: String,
    /// How often.
    pub count: u64,
}

/// A byte that went bad.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotten {
    /// The file.
    pub path: PathBuf,
    /// The byte's place in it.
    pub position: u64,
    /// The bits that flipped.
    pub mask: u8,
}

/// What a planned fault does when it strikes.
#[derive(Clone)]
pub(super) enum Strike {
    FailRead,
    FailWrite,
    FailSync,
    LoseWrite,
    Misdirect(i64),
    MisdirectInto(PathBuf),
}

/// What is asked of the medium, as far as plans care.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    Sync,
}

impl Strike {
    fn op(&self) -> Op {
        match self {
            Strike::FailRead => Op::Read,
            Strike::FailSync => Op::Sync,
            _ => Op::Write,
        }
    }

    fn kind(&self) -> FaultKind {
        match self {
            Strike::FailRead => FaultKind::ReadError,
            Strike::FailWrite => FaultKind::WriteError,
            Strike::FailSync => FaultKind::SyncError,
            Strike::LoseWrite => FaultKind::LostWrite,
            Strike::Misdirect(_) | Strike::MisdirectInto(_) => FaultKind::MisdirectedWrite,
        }
    }
}

/// The files that a plan is for.
pub(super) type Matching = Box<dyn Fn(&Path) -> bool + Send>;

struct Plan {
    strike: Strike,
    /// `None`: any file.
    matching: Option<Matching>,
    /// Strikes left; `None` without end.
    left: Option<u32>,
}

/// A file or a directory, as faults see it.
#[derive(Clone, Copy)]
pub(super) enum Struck<'a> {
    File(&'a Path),
    Dir(&'a Path),
}

impl<'a> Struck<'a> {
    fn path(self) -> &'a Path {
        match self {
            Struck::File(path) | Struck::Dir(path) => path,
        }
    }

    fn class(self) -> String {
        let text = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
        match self {
            Struck::Dir(path) => text(path.file_name()) + "/",
            Struck::File(path) => match path.extension() {
                Some(name) if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) => text(Some(name)),
                _ => text(path.parent().and_then(Path::file_name)),
            },
        }
    }
}

#[derive(Default)]
pub(super) struct Faults {
    plans: Vec<Plan>,
    hits: BTreeMap<(FaultKind, String), u64>,
}

impl Faults {
    pub fn plan(&mut self, strike: Strike, matching: Option<Matching>, left: Option<u32>) {
        if left != Some(0) {
            self.plans.push(Plan { strike, matching, left });
        }
    }

    /// A plan for the next operation on any file; asking twice plans it once.
    pub fn plan_next(&mut self, strike: Strike) {
        let same = |plan: &Plan| plan.matching.is_none() && plan.strike.kind() == strike.kind();
        if !self.plans.iter().any(same) {
            self.plan(strike, None, Some(1));
        }
    }

    pub fn forget_plans(&mut self) {
        self.plans.clear();
    }

    /// The oldest plan that this operation meets strikes, and is counted.
    pub fn strike(&mut self, op: Op, place: Struck<'_>) -> Option<Strike> {
        let hits = |matching: &Matching| matching(place.path());
        let meets = |plan: &Plan| plan.strike.op() == op && plan.matching.as_ref().is_none_or(hits);
        let met = self.plans.iter().position(meets)?;
        let plan = &mut self.plans[met];
        plan.left = plan.left.map(|left| left - 1);
        let strike = if plan.left == Some(0) { self.plans.remove(met).strike } else { plan.strike.clone() };
        self.record(strike.kind(), place);
        Some(strike)
    }

    pub fn record(&mut self, kind: FaultKind, place: Struck<'_>) {
        let mut key = (kind, place.class());
        if self.hits.len() >= CLASSES_MAX && !self.hits.contains_key(&key) {
            OTHER.clone_into(&mut key.1);
        }
        *self.hits.entry(key).or_default() += 1;
    }

    pub fn hits(&self) -> Vec<FaultHit> {
        let hit = |((kind, class), &count): (&(FaultKind, String), &u64)| FaultHit {
            kind: *kind,
            class: class.clone(),
            count,
        };
        self.hits.iter().map(hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_hits_is_bounded() {
        let mut faults = Faults::default();
        for n in 0..1000 {
            faults.record(FaultKind::BitRot, Struck::File(Path::new(&format!("/d/f.x{n}"))));
        }
        let hits = faults.hits();
        assert_eq!(hits.len(), CLASSES_MAX + 1);
        assert_eq!(hits.iter().map(|hit| hit.count).sum::<u64>(), 1000);
    }

    #[test]
    fn files_have_classes() {
        let class = |path: &str| Struck::File(Path::new(path)).class();
        assert_eq!(class("/data/log/0001.seg"), "seg");
        assert_eq!(class("/data/log/spare"), "log");
        assert_eq!(class("/data/store/level.17"), "store");
        assert_eq!(class("f"), "");
        assert_eq!(Struck::Dir(Path::new("/data/log")).class(), "log/");
    }
}
