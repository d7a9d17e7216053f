//! Which callbacks have ended, remembered over restarts in `callbacks/ended`.
//!
//! Callbacks are numbered without gaps, and they are taken up in the order of their numbers. So the whole truth is a
//! **mark** below which everything has ended, **except** the numbers that are listed as open. The file begins with such
//! a snapshot; behind it stands one record for each end since. Each record is handed to the kernel at once, so that
//! kill -9 loses nothing, and synced every second.
//!
//! Losing this file, or its last second in a power cut, makes callbacks go out again; it can never make one get lost:
//! whatever is not known as ended is delivered, and a dead one counts as ended only while the dead letters have it, or
//! once it was delivered after all. Participants must bear repeats anyway.
//!
//! ```text
//! record, 24 bytes, little-endian
//!  0  number u64        of the callback; of a snapshot the mark
//!  8  participant u32   who was called; of a snapshot how many open records follow it
//! 12  kind u32          1 snapshot, 2 open, 3 delivered, 4 dead
//! 16  zero u32
//! 20  CRC-32C of the bytes before
//! ```

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_domain::ids::ParticipantId;

use super::options::ENDED_BYTES_MAX;

const FILE: &str = "ended";
const RECORD: usize = 24;
const RECORD_U64: u64 = 24;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Snapshot = 1,
    Open = 2,
    Delivered = 3,
    Dead = 4,
}

fn record(number: u64, participant: u32, kind: Kind) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..12].copy_from_slice(&participant.to_le_bytes());
    bytes[12..16].copy_from_slice(&(kind as u32).to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The record, unless it is torn or rotten.
fn read_record(bytes: &[u8; RECORD]) -> Option<(u64, u32, Kind)> {
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"));
    let kind = [Kind::Snapshot, Kind::Open, Kind::Delivered, Kind::Dead]
        .into_iter()
        .find(|kind| *kind as u32 == word(12))?;
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
    (word(16) == 0 && word(20) == crc32c::crc32c(&bytes[..20])).then_some((number, word(8), kind))
}

/// What has ended: everything below the mark that is not open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Ends {
    mark: u64,
    open: BTreeSet<u64>,
}

impl Ends {
    /// Reads a file's bytes, given which dead letters there are; also says how many of the bytes are sound.
    fn read(bytes: &[u8], letters: &BTreeSet<u64>) -> (Ends, u64) {
        let (records, _) = bytes.as_chunks::<RECORD>();
        let mut records = records.iter().map_while(read_record).peekable();
        let mut sound = 0;
        let mut ends = Ends::default();
        if let Some((mark, count, _)) = records.next_if(|(_, _, kind)| *kind == Kind::Snapshot) {
            ends.mark = mark;
            for _ in 0..count {
                // A snapshot that is not whole would pass off open callbacks as ended.
                let Some((number, ..)) = records.next_if(|(_, _, kind)| *kind == Kind::Open) else {
                    return (Ends::default(), 0);
                };
                ends.open.insert(number);
            }
            sound = (1 + u64::from(count)) * RECORD_U64;
        }
        let mut delivered = BTreeSet::new();
        let mut dead = BTreeSet::new();
        for (number, _, kind) in records {
            match kind {
                Kind::Delivered => delivered.insert(number),
                Kind::Dead => dead.insert(number),
                Kind::Snapshot | Kind::Open => break,
            };
            sound += RECORD_U64;
        }
        delivered.extend(letters);
        for number in &delivered {
            ends.end(*number);
        }
        for number in dead.difference(&delivered) {
            ends.end(*number);
            ends.open.insert(*number);
        }
        (ends, sound)
    }

    fn end(&mut self, number: u64) {
        self.raise(number);
        self.open.remove(&number);
    }

    /// Lifts the mark above the number. Numbers have no gaps: what lies between is open.
    fn raise(&mut self, number: u64) {
        if number >= self.mark {
            self.open.extend(self.mark..=number);
            self.mark = number + 1;
        }
    }

    fn is_open(&self, number: u64) -> bool {
        number >= self.mark || self.open.contains(&number)
    }

    fn snapshot(&self) -> Vec<u8> {
        let count = u32::try_from(self.open.len()).expect("fewer than 2^32 callbacks are open");
        let mut bytes = Vec::with_capacity((1 + self.open.len()) * RECORD);
        bytes.extend_from_slice(&record(self.mark, count, Kind::Snapshot));
        self.open.iter().for_each(|number| bytes.extend_from_slice(&record(*number, 0, Kind::Open)));
        bytes
    }
}

struct State {
    ends: Ends,
    file: Arc<File>,
    bytes: u64,
    /// Length of the snapshot that the file begins with.
    snapshot_bytes: u64,
    /// While the file is written anew: what has ended meanwhile.
    carried: Option<Vec<u8>>,
    unsynced: bool,
    failed: bool,
}

/// The memory of ended callbacks.
pub(super) struct Ended {
    folder: PathBuf,
    state: Mutex<State>,
}

impl Ended {
    /// Reads what an earlier run remembered and writes it anew as one snapshot. The dead letters are durable already.
    pub(super) fn open(folder: &Path, letters: &BTreeSet<u64>) -> io::Result<Ended> {
        let path = folder.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (ends, sound) = Ends::read(&bytes, letters);
        if sound < bytes.len() as u64 {
            let cut = bytes.len() as u64 - sound;
            tracing::warn!(file = %path.display(), cut, "the end of the file was torn; some callbacks may be repeated");
        }
        let snapshot = ends.snapshot();
        let file = write_anew(folder, &snapshot, &[])?;
        let bytes = snapshot.len() as u64;
        let state = State {
            ends,
            file: Arc::new(file),
            bytes,
            snapshot_bytes: bytes,
            carried: None,
            unsynced: false,
            failed: false,
        };
        Ok(Ended { folder: folder.to_owned(), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the callback is still to be delivered, as far as is known.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.lock().ends.is_open(number)
    }

    /// The first callback that is still to be delivered, as far as is known.
    pub(super) fn first_open(&self) -> u64 {
        let state = self.lock();
        state.ends.open.first().copied().unwrap_or(state.ends.mark)
    }

    /// These callbacks were taken up, in the order of their numbers.
    pub(super) fn taken(&self, numbers: impl Iterator<Item = u64>) {
        let mut state = self.lock();
        for number in numbers {
            // Dead letters apart, no number is left out. A new one below the mark means that the log is older than
            // this file; delivered twice is better than lost.
            state.ends.mark = state.ends.mark.max(number + 1);
            state.ends.open.insert(number);
        }
    }

    /// The callback was delivered, or became a dead letter.
    pub(super) fn end(&self, number: u64, participant: ParticipantId, delivered: bool) {
        let kind = if delivered { Kind::Delivered } else { Kind::Dead };
        let bytes = record(number, participant.0, kind);
        let mut state = self.lock();
        state.ends.open.remove(&number);
        if let Some(carried) = &mut state.carried {
            carried.extend_from_slice(&bytes);
        }
        if let Err(error) = (&*state.file).write_all(&bytes)
            && !std::mem::replace(&mut state.failed, true)
        {
            // Records behind a half-written one are not read; a new snapshot makes up for them.
            tracing::error!(%error, "ended callbacks cannot be written down; they will be repeated after a restart");
        }
        state.bytes += RECORD_U64;
        state.unsynced = true;
    }

    /// Makes durable what was written, and writes the file anew if it has grown long or could not be written.
    /// `sync_letters` makes the dead letters durable: a snapshot no longer tells them from what was delivered.
    pub(super) fn sync(&self, sync_letters: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        let (file, unsynced) = (Arc::clone(&state.file), std::mem::take(&mut state.unsynced));
        let long = state.bytes > ENDED_BYTES_MAX.max(4 * state.snapshot_bytes);
        let renew = long || state.failed;
        drop(state);
        if renew {
            return self.write_anew(sync_letters);
        }
        if unsynced { file.sync_data() } else { Ok(()) }
    }

    fn write_anew(&self, sync_letters: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        let snapshot = state.ends.snapshot();
        state.carried = Some(Vec::new());
        drop(state);
        let temporary = sync_letters().and_then(|()| write_temporary(&self.folder, &snapshot));
        let mut state = self.lock();
        let carried = state.carried.take().unwrap_or_default();
        let file = temporary.and_then(|file| put_in_place(&self.folder, file, &carried))?;
        state.file = Arc::new(file);
        state.snapshot_bytes = snapshot.len() as u64;
        state.bytes = state.snapshot_bytes + carried.len() as u64;
        state.failed = false;
        Ok(())
    }
}

fn write_anew(folder: &Path, snapshot: &[u8], carried: &[u8]) -> io::Result<File> {
    put_in_place(folder, write_temporary(folder, snapshot)?, carried)
}

fn temporary_path(folder: &Path) -> PathBuf {
    folder.join(format!("{FILE}.new"))
}

fn write_temporary(folder: &Path, snapshot: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(temporary_path(folder))?;
    file.write_all(snapshot)?;
    file.sync_all()?;
    Ok(file)
}

fn put_in_place(folder: &Path, mut file: File, carried: &[u8]) -> io::Result<File> {
    file.write_all(carried)?;
    std::fs::rename(temporary_path(folder), folder.join(FILE))?;
    File::open(folder)?.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOMEBODY: ParticipantId = ParticipantId(7);

    fn open(folder: &Path, up_to: u64) -> Vec<u64> {
        let ended = Ended::open(folder, &BTreeSet::new()).unwrap();
        (0..up_to).filter(|number| ended.is_open(*number)).collect()
    }

    #[test]
    fn what_has_not_ended_is_open_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken(0..10);
        for number in [5, 0, 1, 9, 3] {
            ended.end(number, SOMEBODY, true);
        }
        drop(ended);
        // Twice: from the records, and from the snapshot that the first opening wrote.
        for _ in 0..2 {
            assert_eq!(open(folder.path(), 12), [2, 4, 6, 7, 8, 10, 11]);
        }
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken([2, 4, 6, 7, 8, 10, 11].into_iter());
        [2, 11, 6].into_iter().for_each(|number| ended.end(number, SOMEBODY, true));
        assert_eq!(open(folder.path(), 13), [4, 7, 8, 10, 12]);
    }

    #[test]
    fn a_torn_or_rotten_tail_only_repeats() {
        let folder = tempfile::tempdir().unwrap();
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken(0..100);
        (0..100).for_each(|number| ended.end(number, SOMEBODY, true));
        drop(ended);
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            let (ends, _) = Ends::read(&whole[..length], &BTreeSet::new());
            let known = (length / RECORD).saturating_sub(1) as u64;
            assert_eq!((ends.mark, ends.open.len()), (known, 0), "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut rotten = whole.clone();
            rotten[at] ^= 0x10;
            let (ends, _) = Ends::read(&rotten, &BTreeSet::new());
            assert!(ends.mark <= 100 && ends.open.is_empty(), "byte {at}");
        }
    }

    #[test]
    fn a_snapshot_that_is_not_whole_is_not_believed() {
        let ends = Ends { mark: 50, open: [3, 7, 9].into() };
        let bytes = ends.snapshot();
        assert_eq!(Ends::read(&bytes, &BTreeSet::new()), (ends, bytes.len() as u64));
        for length in 0..bytes.len() {
            assert_eq!(
                Ends::read(&bytes[..length], &BTreeSet::new()),
                (Ends::default(), 0),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn ends_while_the_file_is_written_anew_are_carried_over() {
        let folder = tempfile::tempdir().unwrap();
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken(0..10_000);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..9_990).for_each(|number| ended.end(number, SOMEBODY, true)));
            scope.spawn(|| (0..20).for_each(|_| ended.write_anew(|| Ok(())).unwrap()));
        });
        drop(ended);
        assert_eq!(open(folder.path(), 10_000), (9_990..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_new_callback_below_the_mark_is_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken(0..5);
        (0..5).for_each(|number| ended.end(number, SOMEBODY, true));
        ended.taken(2..3);
        assert!(ended.is_open(2));
    }

    #[test]
    fn a_dead_one_is_open_unless_there_is_its_letter() {
        let folder = tempfile::tempdir().unwrap();
        let ended = Ended::open(folder.path(), &BTreeSet::new()).unwrap();
        ended.taken(0..6);
        for (number, delivered) in [(1, false), (3, false), (4, false), (4, true), (5, true)] {
            ended.end(number, SOMEBODY, delivered);
        }
        drop(ended);
        let bytes = std::fs::read(folder.path().join(FILE)).unwrap();
        let open = |letters: &[u64]| Ends::read(&bytes, &letters.iter().copied().collect()).0.open;
        assert_eq!(open(&[3]), [0, 1, 2].into(), "the letter of 1 was lost in a power cut");
        assert_eq!(open(&[1, 3]), [0, 2].into());
        assert_eq!(open(&[0, 1, 3]), [2].into(), "the end of 0 was lost, and its letter was not");
    }
}
