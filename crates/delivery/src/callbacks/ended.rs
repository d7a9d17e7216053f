//! Which callbacks have ended, remembered over restarts in `callbacks/ended`.
//!
//! The file begins with a snapshot of [`Ends`]; behind it stands one record for each end since. Each record is handed
//! to the kernel at once, so that kill -9 loses nothing, and synced every second. What was read since the snapshot is
//! not written down: it is read again after a restart, and the records tell what of it has ended.
//!
//! Losing this file, or its last second in a power cut, makes callbacks go out again; it can never make one get lost:
//! whatever is not known as ended is delivered, and a dead one counts as ended only while the dead letters have it, or
//! once it was delivered after all. Participants must bear repeats anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_domain::ids::ParticipantId;
use holdfast_hub::CallbackRow;

use super::ends::{Ends, Kind, RECORD_U64, Step, record};
use crate::options::{ENDED_BYTES_MAX, ENDED_ROWS_MAX};

const FILE: &str = "ended";

struct Memory {
    ends: Ends,
    file: Arc<File>,
    bytes: u64,
    /// Length of the snapshot that the file begins with.
    snapshot_bytes: u64,
    /// The mark in it.
    snapshot_mark: u64,
    /// While the file is written anew: what has ended meanwhile.
    carried: Option<Vec<u8>>,
    unsynced: bool,
    failed: bool,
}

/// The memory of ended callbacks.
pub(super) struct Ended {
    folder: PathBuf,
    state: Mutex<Memory>,
}

impl Ended {
    /// Reads what an earlier run remembered and writes it anew as one snapshot. The dead letters are durable already.
    pub(super) fn open(folder: &Path, letters: &BTreeMap<u64, ParticipantId>) -> io::Result<Ended> {
        let path = folder.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let unknown =
            |error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()));
        let (ends, sound) = Ends::read(&bytes, letters).map_err(unknown)?;
        if sound < bytes.len() as u64 {
            let cut = bytes.len() as u64 - sound;
            tracing::warn!(file = %path.display(), cut, "the end of the file was torn; some callbacks may be repeated");
        }
        let snapshot = ends.snapshot();
        let file = write_anew(folder, &snapshot, &[])?;
        let bytes = snapshot.len() as u64;
        let state = Memory {
            file: Arc::new(file),
            bytes,
            snapshot_bytes: bytes,
            snapshot_mark: ends.mark,
            ends,
            carried: None,
            unsynced: false,
            failed: false,
        };
        Ok(Ended { folder: folder.to_owned(), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the callback is still to be delivered, as far as is known.
    #[cfg(test)]
    pub(super) fn is_open(&self, to: ParticipantId, number: u64) -> bool {
        self.lock().ends.is_open(to, number)
    }

    /// Every callback before this one has ended.
    pub(super) fn first_open(&self) -> u64 {
        self.lock().ends.first_open()
    }

    /// How far rows were read.
    pub(super) fn mark(&self) -> u64 {
        self.lock().ends.mark
    }

    /// The participants that are behind, each with the number from which on nothing of it was read.
    pub(super) fn behind(&self) -> BTreeMap<ParticipantId, u64> {
        self.lock().ends.behind.clone()
    }

    /// The first numbers from `from` on that were read and have not ended, as far as they lie within a span.
    pub(super) fn open_within(&self, from: u64, span: u64) -> BTreeSet<u64> {
        let state = self.lock();
        let open = state.ends.open.range(from..).copied();
        let end = state.ends.open.range(from..).next().map_or(0, |first| first.saturating_add(span));
        open.take_while(|number| *number < end).collect()
    }

    /// Those of the rows that were not read yet and are known to have ended.
    pub(super) fn ended_ahead(&self, rows: &[CallbackRow]) -> BTreeSet<u64> {
        let state = self.lock();
        if state.ends.ahead.is_empty() {
            return BTreeSet::new();
        }
        let ended = rows.iter().filter(|row| state.ends.ahead.contains(&(row.to, row.number)));
        ended.map(|row| row.number).collect()
    }

    /// Rows were read. Must come before they are in lanes, or an end could come before its beginning.
    pub(super) fn apply(&self, step: Step) {
        self.lock().ends.apply(step);
    }

    /// There are only so many callbacks.
    pub(super) fn cut_to(&self, count: u64) {
        self.lock().ends.cut_to(count);
    }

    /// The store removed the row. It does so with ended ones only; that this one ended was lost in a power cut.
    pub(super) fn was_removed(&self, number: u64) {
        self.lock().ends.open.remove(&number);
    }

    /// The callback was delivered, or became a dead letter.
    pub(super) fn end(&self, number: u64, participant: ParticipantId, delivered: bool) {
        let kind = if delivered { Kind::Delivered } else { Kind::Dead };
        let bytes = record(number, participant.0, kind);
        let mut state = self.lock();
        state.ends.end(participant, number);
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
        let far = state.ends.mark.saturating_sub(state.snapshot_mark) > ENDED_ROWS_MAX;
        let renew = long || far || state.failed;
        drop(state);
        if renew {
            return self.write_anew(sync_letters);
        }
        if unsynced { file.sync_data() } else { Ok(()) }
    }

    /// Writes the file anew as a snapshot, after which a start has nothing to read again.
    pub(super) fn write_anew(&self, sync_letters: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        state.ends.tidy();
        let (snapshot, mark) = (state.ends.snapshot(), state.ends.mark);
        state.carried = Some(Vec::new());
        drop(state);
        let temporary = sync_letters().and_then(|()| write_temporary(&self.folder, &snapshot));
        let mut state = self.lock();
        let carried = state.carried.take().unwrap_or_default();
        let file = temporary.and_then(|file| put_in_place(&self.folder, file, &carried))?;
        state.file = Arc::new(file);
        state.snapshot_bytes = snapshot.len() as u64;
        state.snapshot_mark = mark;
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

    fn open_anew(folder: &Path) -> Ended {
        Ended::open(folder, &BTreeMap::new()).unwrap()
    }

    fn open(folder: &Path, up_to: u64) -> Vec<u64> {
        let ended = open_anew(folder);
        (0..up_to).filter(|number| ended.is_open(SOMEBODY, *number)).collect()
    }

    /// All from the mark to the number are in lanes.
    fn take(ended: &Ended, to: u64) {
        ended.apply(Step { taken: (ended.mark()..to).collect(), mark: to, ..Step::default() });
    }

    #[test]
    fn what_has_not_ended_is_open_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ended = open_anew(folder.path());
        take(&ended, 10);
        for number in [5, 0, 1, 9, 3] {
            ended.end(number, SOMEBODY, true);
        }
        drop(ended);
        // Twice: from the records, and from the snapshot that the first opening wrote.
        for _ in 0..2 {
            assert_eq!(open(folder.path(), 12), [2, 4, 6, 7, 8, 10, 11]);
        }
        let ended = open_anew(folder.path());
        assert_eq!(ended.mark(), 2, "two ended without a gap; the rest is read again");
        let passed = [3, 5, 9].map(|number| (SOMEBODY, number)).to_vec();
        ended.apply(Step { taken: vec![2, 4, 6, 7, 8, 10, 11], passed, mark: 12, ..Step::default() });
        [2, 11, 6].into_iter().for_each(|number| ended.end(number, SOMEBODY, true));
        assert_eq!(ended.first_open(), 4);
        assert_eq!(open(folder.path(), 13), [4, 7, 8, 10, 12]);
    }

    #[test]
    fn ends_while_the_file_is_written_anew_are_carried_over() {
        let folder = tempfile::tempdir().unwrap();
        let ended = open_anew(folder.path());
        take(&ended, 10_000);
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
        let ended = open_anew(folder.path());
        take(&ended, 5);
        (0..5).for_each(|number| ended.end(number, SOMEBODY, true));
        ended.cut_to(2);
        assert!(!ended.is_open(SOMEBODY, 1) && ended.is_open(SOMEBODY, 2));
        assert_eq!(ended.mark(), 2);
    }

    #[test]
    fn much_that_was_read_is_written_down_though_little_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let ended = open_anew(folder.path());
        let behind = vec![(SOMEBODY, 3)];
        ended.apply(Step { taken: vec![0, 1], behind, mark: ENDED_ROWS_MAX + 1, ..Step::default() });
        ended.end(0, SOMEBODY, true);
        ended.sync(|| Ok(())).unwrap();
        drop(ended);
        let ended = open_anew(folder.path());
        assert_eq!(ended.mark(), ENDED_ROWS_MAX + 1);
        assert_eq!(ended.behind(), [(SOMEBODY, 3)].into());
        assert_eq!(ended.open_within(0, 100), [1].into());
    }

    #[test]
    fn a_file_of_a_later_release_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = record(5, 0, Kind::Snapshot);
        bytes[16] = 9;
        let sum = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        let refused = Ended::open(folder.path(), &BTreeMap::new()).err().expect("unknown");
        assert!(refused.to_string().contains("format version 9"), "{refused}");
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), bytes, "it is left as it is");
    }
}
