//! Which callbacks have ended, as plain state, and the records in which it is written down.
//!
//! Callbacks are numbered without gaps and read in the order of their numbers. So the whole truth is small, however
//! many callbacks are to be delivered:
//!
//! - Everything from the **mark** on was not read yet.
//! - Of a participant that is **behind**, nothing was read from a number of its own on.
//! - All else was read. Of that the numbers in **open** have not ended: they are in lanes, which are bounded.
//! - A record of an end can lie ahead of what was read, because the mark is written down now and then only. Such ends
//!   are kept as **ahead** until reading has passed them again.
//!
//! ```text
//! record, 24 bytes, little-endian
//!  0  number u64        of the callback; of a snapshot the mark
//!  8  participant u32   who was called; of a snapshot how many records belong to it, which follow it
//! 12  kind u32          1 snapshot, 2 open, 3 delivered, 4 dead, 5 behind (from the number on), 6 ahead
//! 16  version u32       of a snapshot: 0 has open records only, 1 those of kinds 2, 5 and 6; else zero
//! 20  CRC-32C of the bytes before
//! ```

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::ids::ParticipantId;

pub(super) const RECORD: usize = 24;
pub(super) const RECORD_U64: u64 = 24;
/// The version of the snapshots that are written.
const VERSION: u32 = 1;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Snapshot = 1,
    Open = 2,
    Delivered = 3,
    Dead = 4,
    Behind = 5,
    Ahead = 6,
}

const KINDS: [Kind; 6] = [Kind::Snapshot, Kind::Open, Kind::Delivered, Kind::Dead, Kind::Behind, Kind::Ahead];

pub(super) fn record(number: u64, participant: u32, kind: Kind) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..12].copy_from_slice(&participant.to_le_bytes());
    bytes[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
    let version = if kind == Kind::Snapshot { VERSION } else { 0 };
    bytes[16..20].copy_from_slice(&version.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn word(bytes: &[u8; RECORD], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

fn is_sound(bytes: &[u8; RECORD]) -> bool {
    word(bytes, 20) == crc32c::crc32c(&bytes[..20])
}

/// The record, unless it is torn or rotten.
fn read_record(bytes: &[u8; RECORD]) -> Option<(u64, u32, Kind)> {
    let kind = KINDS.into_iter().find(|kind| *kind as u32 == word(bytes, 12))?;
    let version_max = if kind == Kind::Snapshot { VERSION } else { 0 };
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
    (is_sound(bytes) && word(bytes, 16) <= version_max).then_some((number, word(bytes, 8), kind))
}

/// A file that a later release wrote, by the version that it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has format version {0}, this release knows {VERSION}. Start the newer release")]
pub(super) struct Unknown(u32);

/// What reading a page of rows led to.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// These are in lanes now.
    pub(super) taken: Vec<u64>,
    /// These were passed over because they had ended.
    pub(super) passed: Vec<(ParticipantId, u64)>,
    /// These participants are behind from a number on; whoever has come up to the mark is behind no more.
    pub(super) behind: Vec<(ParticipantId, u64)>,
    /// Everything before this was read, if it is further than before.
    pub(super) mark: u64,
}

/// What has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ends {
    pub(super) mark: u64,
    pub(super) open: BTreeSet<u64>,
    pub(super) behind: BTreeMap<ParticipantId, u64>,
    pub(super) ahead: BTreeSet<(ParticipantId, u64)>,
}

impl Ends {
    /// Reads a file's bytes, given the dead letters and whose they are; also says how many of the bytes are sound.
    pub(super) fn read(bytes: &[u8], letters: &BTreeMap<u64, ParticipantId>) -> Result<(Ends, u64), Unknown> {
        let (records, _) = bytes.as_chunks::<RECORD>();
        if let Some(first) = records.first().filter(|first| is_sound(first) && word(first, 16) > VERSION) {
            return Err(Unknown(word(first, 16)));
        }
        let mut records = records.iter().map_while(read_record).peekable();
        let mut sound = 0;
        let mut ends = Ends::default();
        if let Some((mark, count, _)) = records.next_if(|(_, _, kind)| *kind == Kind::Snapshot) {
            ends.mark = mark;
            for _ in 0..count {
                let to = |participant| ParticipantId(participant);
                match records.next() {
                    Some((number, _, Kind::Open)) => drop(ends.open.insert(number)),
                    Some((number, who, Kind::Behind)) => drop(ends.behind.insert(to(who), number)),
                    Some((number, who, Kind::Ahead)) => drop(ends.ahead.insert((to(who), number))),
                    // A snapshot that is not whole would pass off open callbacks as ended.
                    _ => return Ok((Ends::default(), 0)),
                }
            }
            sound = (1 + u64::from(count)) * RECORD_U64;
        }
        let mut ended = letters.clone();
        let mut dead = BTreeMap::new();
        for (number, participant, kind) in records {
            match kind {
                Kind::Delivered => ended.insert(number, ParticipantId(participant)),
                Kind::Dead => dead.insert(number, ParticipantId(participant)),
                Kind::Snapshot | Kind::Open | Kind::Behind | Kind::Ahead => break,
            };
            sound += RECORD_U64;
        }
        for (number, to) in &ended {
            ends.end(*to, *number);
        }
        for (number, to) in dead {
            // Its letter is lost.
            if !ended.contains_key(&number) && !ends.is_open(to, number) {
                ends.ahead.remove(&(to, number));
                if !ends.is_unread(to, number) {
                    ends.open.insert(number);
                }
            }
        }
        ends.raise_mark();
        Ok((ends, sound))
    }

    /// Lifts the mark over those behind it that have ended without a gap.
    fn raise_mark(&mut self) {
        let mut beyond: Vec<(u64, ParticipantId)> = self
            .ahead
            .iter()
            .filter(|(_, number)| *number >= self.mark)
            .map(|(to, number)| (*number, *to))
            .collect();
        beyond.sort_unstable();
        for (number, to) in beyond {
            if number != self.mark {
                return;
            }
            self.mark += 1;
            if !self.is_unread(to, number) {
                self.ahead.remove(&(to, number));
            }
        }
    }

    /// Whether reading has not come to it, or not since it was last written down how far reading had come.
    fn is_unread(&self, to: ParticipantId, number: u64) -> bool {
        number >= self.mark || self.behind.get(&to).is_some_and(|from| number >= *from)
    }

    /// Whether the callback is still to be delivered, as far as is known.
    pub(super) fn is_open(&self, to: ParticipantId, number: u64) -> bool {
        self.open.contains(&number) || self.is_unread(to, number) && !self.ahead.contains(&(to, number))
    }

    /// Every callback before this one has ended.
    pub(super) fn first_open(&self) -> u64 {
        let behind = self.behind.values().min().copied();
        [self.open.first().copied(), behind].into_iter().flatten().fold(self.mark, u64::min)
    }

    pub(super) fn end(&mut self, to: ParticipantId, number: u64) {
        if !self.open.remove(&number) && self.is_unread(to, number) {
            self.ahead.insert((to, number));
        }
    }

    pub(super) fn apply(&mut self, step: Step) {
        self.mark = self.mark.max(step.mark);
        self.open.extend(step.taken);
        for passed in &step.passed {
            self.ahead.remove(passed);
        }
        for (to, from) in step.behind {
            if from < self.mark {
                self.behind.insert(to, from);
            } else {
                self.behind.remove(&to);
            }
        }
    }

    /// There are only so many callbacks: the log is older than what was remembered. What comes is new, whatever was
    /// known under its number; delivered twice is better than lost.
    pub(super) fn cut_to(&mut self, count: u64) {
        self.mark = self.mark.min(count);
        self.open.split_off(&count);
        self.behind.retain(|_, from| *from < count);
        self.ahead.retain(|(_, number)| *number < count);
    }

    /// Drops what reading has passed.
    pub(super) fn tidy(&mut self) {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.retain(|(to, number)| self.is_unread(*to, *number));
        self.ahead = ahead;
    }

    pub(super) fn snapshot(&self) -> Vec<u8> {
        let count = self.open.len() + self.behind.len() + self.ahead.len();
        let mut bytes = Vec::with_capacity((1 + count) * RECORD);
        let count = u32::try_from(count).expect("lanes and the file are bounded");
        bytes.extend_from_slice(&record(self.mark, count, Kind::Snapshot));
        for number in &self.open {
            bytes.extend_from_slice(&record(*number, 0, Kind::Open));
        }
        for (to, from) in &self.behind {
            bytes.extend_from_slice(&record(*from, to.0, Kind::Behind));
        }
        for (to, number) in &self.ahead {
            bytes.extend_from_slice(&record(*number, to.0, Kind::Ahead));
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn no_letters() -> BTreeMap<u64, ParticipantId> {
        BTreeMap::new()
    }

    fn bytes_of(lines: &str) -> Vec<u8> {
        let hex: Vec<char> = lines.chars().filter(|char| !char.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        hex.chunks(2).map(byte).collect()
    }

    /// Written before participants could be behind.
    const VERSION_0: &str = "
        0a000000000000000500000001000000000000008a8b3bd0
        02000000000000000000000002000000000000000a433a40
        04000000000000000000000002000000000000008472b2f3
        0600000000000000000000000200000000000000fe9d359d
        0700000000000000000000000200000000000000436a76aa
        080000000000000000000000020000000000000069674e91
        04000000000000000700000003000000000000003323db2c
        0b00000000000000080000000300000000000000f8d5d40f
        0c00000000000000090000000400000000000000ffc23740";

    #[test]
    fn a_file_of_version_0_is_read() {
        let bytes = bytes_of(VERSION_0);
        let (ends, sound) = Ends::read(&bytes, &no_letters()).unwrap();
        assert_eq!(sound, bytes.len() as u64);
        let expected = Ends {
            mark: 10,
            open: [2, 6, 7, 8].into(),
            behind: BTreeMap::new(),
            ahead: [(ParticipantId(8), 11)].into(),
        };
        assert_eq!(ends, expected);
        assert!(ends.is_open(ParticipantId(9), 12), "its letter is not there");
        let (ends, _) = Ends::read(&bytes, &[(12, ParticipantId(9))].into()).unwrap();
        assert!(!ends.is_open(ParticipantId(9), 12));
    }

    fn some() -> Ends {
        Ends {
            mark: 50,
            open: [3, 9].into(),
            behind: [(ParticipantId(4), 20), (ParticipantId(6), 49)].into(),
            ahead: [(ParticipantId(4), 21), (ParticipantId(5), 52)].into(),
        }
    }

    const VERSION_1: &str = "
        32000000000000000600000001000000010000003eb7036f
        0300000000000000000000000200000000000000b7b47977
        0900000000000000000000000200000000000000d4900da6
        140000000000000004000000050000000000000083c727b6
        31000000000000000600000005000000000000002c879fca
        150000000000000004000000060000000000000057b7205a
        34000000000000000500000006000000000000005c5505a8";

    #[test]
    fn a_file_of_version_1_is_read_and_written() {
        let bytes = bytes_of(VERSION_1);
        assert_eq!(Ends::read(&bytes, &no_letters()), Ok((some(), bytes.len() as u64)));
        assert_eq!(some().snapshot(), bytes);
    }

    #[test]
    fn a_snapshot_that_is_not_whole_is_not_believed() {
        let bytes = some().snapshot();
        for length in 0..bytes.len() {
            let read = Ends::read(&bytes[..length], &no_letters());
            assert_eq!(read, Ok((Ends::default(), 0)), "cut at {length}");
        }
    }

    #[test]
    fn a_torn_or_rotten_tail_only_repeats() {
        let mut whole = Ends::default().snapshot();
        (0..100).for_each(|number| whole.extend_from_slice(&record(number, 7, Kind::Delivered)));
        for length in 0..whole.len() {
            let (ends, _) = Ends::read(&whole[..length], &no_letters()).unwrap();
            let known = (length / RECORD).saturating_sub(1) as u64;
            assert_eq!(ends, Ends { mark: known, ..Ends::default() }, "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut rotten = whole.clone();
            rotten[at] ^= 0x10;
            let (ends, _) = Ends::read(&rotten, &no_letters()).unwrap();
            assert!(ends.mark <= 100 && ends.open.is_empty() && ends.ahead.is_empty(), "byte {at}");
        }
    }

    #[test]
    fn a_dead_one_is_open_unless_there_is_its_letter() {
        let somebody = ParticipantId(7);
        let mut bytes = Ends { mark: 6, open: (0..6).collect(), ..Ends::default() }.snapshot();
        for (number, kind) in
            [(1, Kind::Dead), (3, Kind::Dead), (4, Kind::Dead), (4, Kind::Delivered), (5, Kind::Delivered)]
        {
            bytes.extend_from_slice(&record(number, 7, kind));
        }
        let open = |letters: &[u64]| {
            let letters = letters.iter().map(|number| (*number, somebody)).collect();
            Ends::read(&bytes, &letters).unwrap().0.open
        };
        assert_eq!(open(&[3]), [0, 1, 2].into(), "the letter of 1 was lost in a power cut");
        assert_eq!(open(&[1, 3]), [0, 2].into());
        assert_eq!(open(&[0, 1, 3]), [2].into(), "the end of 0 was lost, and its letter was not");
    }

    /// What can happen, to three participants whose lanes hold two each.
    #[derive(Debug, Clone)]
    enum Happening {
        Read(u64),
        Refill(u32, u64),
        End(prop::sample::Index),
        Snapshot,
        Restart,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            3 => (1_u64..6).prop_map(Happening::Read),
            3 => (0_u32..3, 1_u64..6).prop_map(|(to, rows)| Happening::Refill(to, rows)),
            6 => any::<prop::sample::Index>().prop_map(Happening::End),
            1 => Just(Happening::Snapshot),
            1 => Just(Happening::Restart),
        ]
    }

    const LANE: usize = 2;

    proptest! {
        /// Against a set of all that ended: nothing is lost or repeated, and what is kept is bounded by the lanes.
        #[test]
        fn nothing_is_lost_or_repeated(
            to_of in prop::collection::vec(0_u32..3, 60),
            happenings in prop::collection::vec(happening(), 1..120),
        ) {
            let to_of = |number: u64| ParticipantId(to_of[usize::try_from(number).unwrap()]);
            let mut ends = Ends::default();
            let mut file = ends.snapshot();
            let mut ended: BTreeSet<u64> = BTreeSet::new();
            let mut lanes: BTreeSet<u64> = BTreeSet::new();
            for happening in happenings {
                match happening {
                    Happening::Read(rows) => {
                        let mut step = Step { mark: (ends.mark + rows).min(60), ..Step::default() };
                        let mut behind: BTreeSet<_> = ends.behind.keys().copied().collect();
                        for number in ends.mark..step.mark {
                            let to = to_of(number);
                            let held = lanes.iter().filter(|held| to_of(**held) == to).count();
                            if behind.contains(&to) {
                            } else if ends.ahead.contains(&(to, number)) {
                                step.passed.push((to, number));
                            } else if held < LANE {
                                prop_assert!(lanes.insert(number) && !ended.contains(&number));
                                step.taken.push(number);
                            } else {
                                behind.insert(to);
                                step.behind.push((to, number));
                            }
                        }
                        ends.apply(step);
                    }
                    Happening::Refill(to, rows) => {
                        let to = ParticipantId(to);
                        let Some(from) = ends.behind.get(&to).copied() else { continue };
                        let mut end = (from + rows).min(ends.mark);
                        let mut step = Step::default();
                        for number in (from..end).filter(|number| to_of(*number) == to) {
                            let held = lanes.iter().filter(|held| to_of(**held) == to).count();
                            if ends.ahead.contains(&(to, number)) {
                                step.passed.push((to, number));
                            } else if held < LANE {
                                prop_assert!(lanes.insert(number) && !ended.contains(&number));
                                step.taken.push(number);
                            } else {
                                end = number;
                                break;
                            }
                        }
                        step.behind.push((to, end));
                        ends.apply(step);
                    }
                    Happening::End(index) if !lanes.is_empty() => {
                        let number = *index.get(&lanes.iter().copied().collect::<Vec<_>>());
                        lanes.remove(&number);
                        ended.insert(number);
                        ends.end(to_of(number), number);
                        file.extend_from_slice(&record(number, to_of(number).0, Kind::Delivered));
                    }
                    Happening::End(_) => {}
                    Happening::Snapshot => {
                        ends.tidy();
                        file = ends.snapshot();
                    }
                    Happening::Restart => {
                        ends = Ends::read(&file, &no_letters()).unwrap().0;
                        lanes = ends.open.clone();
                        file = ends.snapshot();
                    }
                }
                for number in 0..60 {
                    prop_assert_eq!(ends.is_open(to_of(number), number), !ended.contains(&number), "{}", number);
                }
                prop_assert_eq!(&ends.open, &lanes);
                prop_assert!(ends.open.len() <= 3 * LANE && ends.behind.len() <= 3);
                prop_assert!((0..ends.first_open()).all(|number| ended.contains(&number)));
            }
        }
    }
}
