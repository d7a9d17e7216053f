//! Which faults struck which files, where in the code, and how it ended. A fault that never strikes proves nothing, so
//! a soak fails when a cell that is expected stays empty.

use std::collections::BTreeMap;
use std::fmt;

use holdfast_disk::simfs::FaultKind;

use crate::{shop_cells, vault_cells};

/// What the hub was doing when a fault struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Writing a frame.
    Append,
    /// Beginning a segment, or making the next one ahead.
    Rotate,
    /// Reading a transfer that has ended, for a frame.
    ReadEnded,
    /// Writing outcomes and callbacks.
    Blocks,
    /// Making a checkpoint.
    Checkpoint,
    /// Merging runs of ids.
    Merge,
    /// Ending cleanly.
    Stop,
    /// Opening what is on the disk.
    Recover,
    /// Answering a question about the state.
    View,
    /// Nothing: the file lay there.
    Rest,
    /// Nothing: the machine was without power.
    PowerLoss,
}

/// How a fault ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Nobody noticed, or it was made good.
    NoEffect,
    /// The hub stopped and refused commands with a reason: 503.
    Stopped,
    /// A question was refused; the hub went on.
    ViewRefused,
    /// The hub refused to start and named the file.
    StartRefused,
    /// The last frame of the log was lost, and nothing on the disk could tell.
    BeyondProof,
}

const ENDS: [(End, &str); 5] = [
    (End::NoEffect, "no effect"),
    (End::Stopped, "503"),
    (End::ViewRefused, "view refused"),
    (End::StartRefused, "start refused"),
    (End::BeyondProof, "beyond proof"),
];

/// A fault that struck.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// What went wrong.
    pub kind: FaultKind,
    /// With what kind of file: its extension, or its directory and a slash.
    pub class: String,
    /// During what.
    pub phase: Phase,
}

impl Hit {
    /// Whether it is what a loss of power left: there is no way to meet it but to start.
    #[must_use]
    pub const fn is_aftermath(&self) -> bool {
        matches!(self.phase, Phase::PowerLoss)
    }

    /// Whether damage of a file of class `named` can come from it. A file is written under another name, and a write
    /// that went astray harms also what it met.
    #[must_use]
    pub fn explains(&self, named: &str) -> bool {
        let renamed = self.class == "tmp" && (named == "seg") == (self.phase == Phase::Rotate);
        self.class == named || renamed || self.kind == FaultKind::MisdirectedWrite
    }

    /// Whether the harm stays on the medium and may show much later.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        matches!(self.kind, FaultKind::BitRot | FaultKind::LostWrite | FaultKind::MisdirectedWrite)
    }
}

/// Counts of faults by what they struck and how they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    cells: BTreeMap<Hit, BTreeMap<End, u64>>,
    /// Commands about tokens by how they ended.
    vault: BTreeMap<(&'static str, &'static str), u64>,
    /// Commands to the shop by how they ended.
    shop: BTreeMap<(&'static str, &'static str), u64>,
}

impl Coverage {
    /// A fault came to its end.
    pub fn ended(&mut self, hit: Hit, end: End) {
        *self.cells.entry(hit).or_default().entry(end).or_default() += 1;
    }

    /// A command about tokens was answered so.
    pub fn vault(&mut self, command: &'static str, how: &'static str) {
        *self.vault.entry((command, how)).or_default() += 1;
    }

    /// A command to the shop was answered so.
    pub fn shop(&mut self, command: &'static str, how: &'static str) {
        *self.shop.entry((command, how)).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (hit, ends) in &other.cells {
            let own = self.cells.entry(hit.clone()).or_default();
            ends.iter().for_each(|(end, count)| *own.entry(*end).or_default() += count);
        }
        other.vault.iter().for_each(|(cell, count)| *self.vault.entry(*cell).or_default() += count);
        other.shop.iter().for_each(|(cell, count)| *self.shop.entry(*cell).or_default() += count);
    }

    /// Expected cells that stayed empty.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let struck = |kind, class: &str, phase| {
            self.cells.keys().any(|hit| (hit.kind, hit.class.as_str(), hit.phase) == (kind, class, phase))
        };
        let missing = EXPECTED.iter().filter(|(kind, class, phase)| !struck(*kind, class, *phase));
        let mut missing: Vec<String> =
            missing.map(|(kind, class, phase)| format!("{} of {class} in {phase:?}", kind.name())).collect();
        for (end, name) in ENDS {
            if self.cells.values().all(|ends| !ends.contains_key(&end)) {
                missing.push(format!("any fault that ends so: {name}"));
            }
        }
        let unmet = vault_cells::EXPECTED.iter().filter(|cell| !self.vault.contains_key(cell));
        missing.extend(unmet.map(|(command, how)| format!("tokens: {command}, {how}")));
        let unmet = shop_cells::EXPECTED.iter().filter(|cell| !self.shop.contains_key(cell));
        missing.extend(unmet.map(|(command, how)| format!("shop: {command}, {how}")));
        missing
    }
}

/// What a soak must have met.
const EXPECTED: [(FaultKind, &str, Phase); 48] = {
    use FaultKind::{
        BitRot, DiskFull, LengthWithoutData, LostWrite, MisdirectedWrite, NameLost, NameWithoutData,
        PowerLoss, ReadError, SyncError, TornWrite, UnsyncedLost, WriteError,
    };
    use Phase::{Append, Blocks, Checkpoint, Merge, ReadEnded, Recover, Rest, Rotate, Stop};
    const GONE: Phase = Phase::PowerLoss;
    [
        (PowerLoss, "seg", Append),
        (PowerLoss, "tmp", Rotate),
        (PowerLoss, "log/", Rotate),
        (PowerLoss, "blk", Checkpoint),
        (PowerLoss, "tmp", Checkpoint),
        (PowerLoss, "ids/", Checkpoint),
        (PowerLoss, "spent-ids/", Checkpoint),
        (PowerLoss, "checkpoints/", Checkpoint),
        (PowerLoss, "tmp", Merge),
        (PowerLoss, "ids/", Merge),
        (PowerLoss, "spent-ids/", Merge),
        (PowerLoss, "seg", Recover),
        (PowerLoss, "blk", Recover),
        (PowerLoss, "tmp", Stop),
        (SyncError, "seg", Append),
        (SyncError, "tmp", Rotate),
        (SyncError, "blk", Checkpoint),
        (SyncError, "tmp", Checkpoint),
        (SyncError, "ids/", Checkpoint),
        (SyncError, "checkpoints/", Checkpoint),
        (SyncError, "tmp", Merge),
        (WriteError, "seg", Append),
        (WriteError, "blk", Blocks),
        (WriteError, "tmp", Checkpoint),
        (WriteError, "tmp", Merge),
        (ReadError, "blk", ReadEnded),
        (ReadError, "run", ReadEnded),
        (ReadError, "run", Merge),
        (ReadError, "ckp", Recover),
        (ReadError, "run", Recover),
        (ReadError, "seg", Recover),
        (DiskFull, "tmp", Rotate),
        (DiskFull, "tmp", Checkpoint),
        (DiskFull, "tmp", Merge),
        (LostWrite, "seg", Append),
        (LostWrite, "blk", Blocks),
        (LostWrite, "tmp", Checkpoint),
        (LostWrite, "tmp", Merge),
        (MisdirectedWrite, "seg", Append),
        (MisdirectedWrite, "blk", Blocks),
        (BitRot, "seg", Rest),
        (BitRot, "ckp", Rest),
        (BitRot, "blk", Rest),
        (TornWrite, "seg", GONE),
        (UnsyncedLost, "blk", GONE),
        (LengthWithoutData, "tmp", GONE),
        (NameLost, "run", GONE),
        (NameWithoutData, "tmp", GONE),
    ]
};

/// The class of the first file that a reason names, as the medium counts them.
#[must_use]
pub fn named_class(reason: &str) -> Option<&str> {
    let (_, path) = reason.split_once("/data/")?;
    let path = path.split([' ', ';', ',', ':']).next()?;
    match path.rsplit('/').next()?.split_once('.') {
        Some((_, extension)) => Some(extension),
        None if path.starts_with("log") => Some("seg"),
        None => Some("blk"),
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<20} {:<13} {:<11}", "fault", "file", "in")?;
        ENDS.iter().try_for_each(|(_, name)| write!(f, " {name:>13}"))?;
        for (hit, ends) in &self.cells {
            write!(f, "\n{:<20} {:<13} {:<11}", hit.kind.name(), hit.class, format!("{:?}", hit.phase))?;
            for (end, _) in ENDS {
                match ends.get(&end) {
                    Some(count) => write!(f, " {count:>13}")?,
                    None => write!(f, " {:>13}", "-")?,
                }
            }
        }
        for ((command, how), count) in &self.vault {
            write!(f, "\ntokens: {command:<12} {how:<45} {count:>13}")?;
        }
        for ((command, how), count) in &self.shop {
            write!(f, "\nshop: {command:<14} {how:<45} {count:>13}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_struck_is_missing() {
        let mut coverage = Coverage::default();
        let all = EXPECTED.len() + ENDS.len() + vault_cells::EXPECTED.len() + shop_cells::EXPECTED.len();
        assert_eq!(coverage.missing().len(), all);
        let (kind, class, phase) = EXPECTED[0];
        coverage.ended(Hit { kind, class: class.to_owned(), phase }, End::Stopped);
        assert_eq!(coverage.missing().len(), all - 2);
        let twice = {
            let mut sum = coverage.clone();
            sum.add(&coverage);
            sum
        };
        assert!(twice.to_string().ends_with("2             -             -             -"), "{twice}");
        let (command, how) = vault_cells::EXPECTED[0];
        coverage.vault(command, how);
        assert_eq!(coverage.missing().len(), all - 3);
        let (command, how) = shop_cells::EXPECTED[0];
        coverage.shop(command, how);
        assert_eq!(coverage.missing().len(), all - 4);
    }

    #[test]
    fn a_reason_names_a_class() {
        let class = |reason| named_class(reason);
        assert_eq!(class("/data/store/ids/007.run is damaged at byte 0"), Some("run"));
        assert_eq!(class("the store failed: /data/store/outcomes is damaged"), Some("blk"));
        assert_eq!(class("the log in /data/log has a gap"), Some("seg"));
        assert_eq!(class("/data/log/000.seg is damaged"), Some("seg"));
        assert_eq!(class("no file at all"), None);
    }
}
