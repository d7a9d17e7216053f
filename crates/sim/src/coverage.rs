//! Which faults struck which files, where in the code, and how it ended. A fault that never strikes proves nothing, so
//! a soak fails when a cell that is expected stays empty.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use holdfast_disk::simfs::FaultKind;

/// What a soak must have met, one cell a line.
const EXPECTED: &str = include_str!("../seeds/expected.txt");

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
    pub const fn is_aftermath(&self) -> bool {
        matches!(self.phase, Phase::PowerLoss)
    }

    /// Whether damage of a file of class `named` can come from it. A file is written under another name, and a write
    /// that went astray harms also what it met.
    pub fn explains(&self, named: &str) -> bool {
        let renamed = self.class == "tmp" && (named == "seg") == (self.phase == Phase::Rotate);
        self.class == named || renamed || self.kind == FaultKind::MisdirectedWrite
    }

    /// Whether the harm stays on the medium and may show much later.
    pub const fn is_lasting(&self) -> bool {
        matches!(self.kind, FaultKind::BitRot | FaultKind::LostWrite | FaultKind::MisdirectedWrite)
    }
}

/// Counts of faults by what they struck and how they ended, and of commands by their answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    cells: BTreeMap<Hit, BTreeMap<End, u64>>,
    /// By whom a command is for, `tokens` or `shop`, the command, and how it ended.
    answers: BTreeMap<[&'static str; 3], u64>,
}

impl Coverage {
    /// A fault came to its end.
    pub fn ended(&mut self, hit: Hit, end: End) {
        *self.cells.entry(hit).or_default().entry(end).or_default() += 1;
    }

    /// A command about tokens was answered so.
    pub fn vault(&mut self, command: &'static str, how: &'static str) {
        self.answered(["tokens", command, how]);
    }

    /// A command to the shop was answered so.
    pub fn shop(&mut self, command: &'static str, how: &'static str) {
        self.answered(["shop", command, how]);
    }

    fn answered(&mut self, cell: [&'static str; 3]) {
        *self.answers.entry(cell).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        for (hit, ends) in &other.cells {
            let own = self.cells.entry(hit.clone()).or_default();
            ends.iter().for_each(|(end, count)| *own.entry(*end).or_default() += count);
        }
        other.answers.iter().for_each(|(cell, count)| *self.answers.entry(*cell).or_default() += count);
    }

    /// Expected cells that stayed empty.
    pub fn missing(&self) -> Vec<String> {
        let struck =
            self.cells.keys().map(|hit| format!("{} of {} in {:?}", hit.kind.name(), hit.class, hit.phase));
        let ended = ENDS.iter().filter(|(end, _)| self.cells.values().any(|ends| ends.contains_key(end)));
        let ended = ended.map(|(_, name)| format!("any fault that ends so: {name}"));
        let answered = self.answers.keys().map(|[about, command, how]| format!("{about}: {command}, {how}"));
        let met: BTreeSet<String> = struck.chain(ended).chain(answered).collect();
        expected().filter(|cell| !met.contains(*cell)).map(str::to_owned).collect()
    }
}

fn expected() -> impl Iterator<Item = &'static str> {
    EXPECTED.lines().filter(|line| !line.starts_with('#'))
}

/// The class of the first file that a reason names, as the medium counts them.
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
        for ([about, command, how], count) in &self.answers {
            write!(f, "\n{:<20} {how:<45} {count:>13}", format!("{about}: {command}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_struck_is_missing() {
        let (mut coverage, all) = (Coverage::default(), expected().count());
        assert_eq!((coverage.missing().len(), all), (all, 164));
        let hit = Hit { kind: FaultKind::PowerLoss, class: "seg".to_owned(), phase: Phase::Append };
        coverage.ended(hit, End::Stopped);
        assert_eq!(coverage.missing().len(), all - 2);
        let twice = {
            let mut sum = coverage.clone();
            sum.add(&coverage);
            sum
        };
        assert!(twice.to_string().ends_with("2             -             -             -"), "{twice}");
        coverage.vault("issue", "done");
        assert_eq!(coverage.missing().len(), all - 3);
        coverage.shop("user", "done");
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
