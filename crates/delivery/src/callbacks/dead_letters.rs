//! Callbacks that were given up, kept in `callbacks/dead-letters` until an operator has them tried again.
//!
//! One line for each event: the CRC-32C of a JSON text in eight hex digits, a space, the text. In memory there is only
//! where each letter's line begins. A line that is torn is skipped: whoever was given up in the last second before a
//! power cut, and has no letter, is delivered anew. A line that rots later is lost, and with it that letter alone.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_domain::ids::ParticipantId;
use serde::{Deserialize, Serialize};

use super::letter::Letter;

const FILE: &str = "dead-letters";
/// Hex digits and a space before the text of a line.
const CRC_PREFIX: usize = 9;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Event {
    /// It was given up, for the first time or again.
    Died(Box<Letter>),
    /// An operator wants it to be tried again.
    Retried(u64),
    /// It was delivered after all.
    Delivered(u64),
}

/// Where a letter's line stands.
#[derive(Debug, Clone, Copy)]
struct Slot {
    to: ParticipantId,
    position: u64,
    length: usize,
    retrying: bool,
}

struct Letters {
    file: File,
    length: u64,
    slots: BTreeMap<u64, Slot>,
    /// A write failed half-way: the next one begins on a line of its own.
    torn: bool,
    unsynced: bool,
    /// A sync has failed. Nobody knows what the disk holds until the next start writes the file anew.
    failed: bool,
}

/// The dead letters.
pub(super) struct LetterFile {
    state: Mutex<Letters>,
}

fn line_of(event: &Event) -> Vec<u8> {
    let text = serde_json::to_string(event).expect("a letter is plain data");
    format!("{:08x} {text}\n", crc32c::crc32c(text.as_bytes())).into_bytes()
}

fn read_line(line: &[u8]) -> Option<Event> {
    let (sum, text) = line.strip_suffix(b"\n")?.split_at_checked(CRC_PREFIX)?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?.trim_end(), 16).ok()?;
    if sum != crc32c::crc32c(text) { None } else { serde_json::from_slice(text).ok() }
}

impl LetterFile {
    /// Reads the letters of earlier runs, drops the lines of those that are gone, and makes the rest durable.
    pub(super) fn open(folder: &Path) -> io::Result<LetterFile> {
        let path = folder.join(FILE);
        let options = || OpenOptions::new().create(true).read(true).append(true).clone();
        let file = options().open(&path)?;
        let (mut slots, lines, mut length) = read_all(&file)?;
        let file = if lines == 0 {
            file.sync_all()?;
            file
        } else {
            // Also where no line is superfluous: after a failed sync of an earlier run some may not be on the disk.
            length = write_anew(folder, &path, &file, &mut slots)?;
            options().open(&path)?
        };
        let state = Letters { file, length, slots, torn: false, unsynced: false, failed: false };
        Ok(LetterFile { state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Their numbers, and for whom they are.
    pub(super) fn numbers(&self) -> BTreeMap<u64, ParticipantId> {
        self.lock().slots.iter().map(|(number, slot)| (*number, slot.to)).collect()
    }

    /// Those that are being tried again, or were when the last run ended.
    pub(super) fn retrying(&self) -> Vec<u64> {
        let state = self.lock();
        state.slots.iter().filter(|(_, slot)| slot.retrying).map(|(number, _)| *number).collect()
    }

    /// The first `max` that are not being tried again.
    pub(super) fn at_rest(&self, to: Option<ParticipantId>, max: usize) -> Vec<u64> {
        let state = self.lock();
        let slots = state.slots.iter();
        let slots = slots.filter(|(_, slot)| !slot.retrying && to.is_none_or(|to| slot.to == to));
        slots.map(|(number, _)| *number).take(max).collect()
    }

    /// Keeps a letter; in the place of the one with its number, if there is one.
    pub(super) fn put(&self, letter: Letter) -> io::Result<()> {
        let (number, to) = (letter.number, ParticipantId(letter.to));
        let mut state = self.lock();
        let (position, length) = state.append(&Event::Died(Box::new(letter)))?;
        state.slots.insert(number, Slot { to, position, length, retrying: false });
        Ok(())
    }

    /// The letter was delivered and is no more.
    pub(super) fn delivered(&self, number: u64) -> io::Result<()> {
        let mut state = self.lock();
        if state.slots.remove(&number).is_none() {
            return Ok(());
        }
        state.append(&Event::Delivered(number))?;
        if state.slots.is_empty() {
            state.file.set_len(0)?;
            state.length = 0;
        }
        Ok(())
    }

    /// Letters after the number given, at most `max`, with whether each is being tried again.
    pub(super) fn page(
        &self,
        to: Option<ParticipantId>,
        after: Option<u64>,
        max: usize,
    ) -> io::Result<Vec<(Letter, bool)>> {
        let state = self.lock();
        let from = after.map_or(0, |after| after.saturating_add(1));
        let slots = state.slots.range(from..).map(|(_, slot)| slot);
        let slots = slots.filter(|slot| to.is_none_or(|to| slot.to == to)).take(max);
        slots.map(|slot| Ok((state.letter(slot)?, slot.retrying))).collect()
    }

    /// The letter of that number, with whether it is being tried again.
    pub(super) fn get(&self, number: u64) -> io::Result<Option<(Letter, bool)>> {
        let state = self.lock();
        state.slots.get(&number).map(|slot| Ok((state.letter(slot)?, slot.retrying))).transpose()
    }

    /// Remembers that the letter is to be tried again. `false` if it is already, or is no more.
    pub(super) fn begin_retry(&self, number: u64) -> io::Result<bool> {
        let mut state = self.lock();
        if state.slots.get(&number).is_none_or(|slot| slot.retrying) {
            return Ok(false);
        }
        state.append(&Event::Retried(number))?;
        state.slots.entry(number).and_modify(|slot| slot.retrying = true);
        Ok(true)
    }

    /// Makes durable what was written.
    pub(super) fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.failed {
            return Err(io::Error::other("a sync of the dead letters has failed; restart the hub"));
        }
        if !std::mem::take(&mut state.unsynced) {
            return Ok(());
        }
        // Held meanwhile: nobody may be told that all is durable while it is not yet known.
        state.file.sync_data().inspect_err(|_| state.failed = true)
    }
}

impl Letters {
    /// Appends a line; its position and length.
    fn append(&mut self, event: &Event) -> io::Result<(u64, usize)> {
        if std::mem::replace(&mut self.torn, true) {
            self.file.write_all(b"\n")?;
            self.length = self.file.metadata()?.len();
        }
        let line = line_of(event);
        self.file.write_all(&line)?;
        self.torn = false;
        self.unsynced = true;
        let position = self.length;
        self.length += line.len() as u64;
        Ok((position, line.len()))
    }

    fn letter(&self, slot: &Slot) -> io::Result<Letter> {
        let mut line = vec![0; slot.length];
        self.file.read_exact_at(&mut line, slot.position)?;
        match read_line(&line) {
            Some(Event::Died(letter)) => Ok(*letter),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a dead letter can no longer be read")),
        }
    }
}

/// All letters with their places; how many lines there are, and bytes.
fn read_all(file: &File) -> io::Result<(BTreeMap<u64, Slot>, usize, u64)> {
    let mut slots: BTreeMap<u64, Slot> = BTreeMap::new();
    let (mut lines, mut position) = (0, 0);
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok((slots, lines, position));
        }
        match read_line(&line) {
            Some(Event::Died(letter)) => {
                let slot = Slot { to: ParticipantId(letter.to), position, length, retrying: false };
                slots.insert(letter.number, slot);
            }
            Some(Event::Retried(number)) => {
                slots.entry(number).and_modify(|slot| slot.retrying = true);
            }
            Some(Event::Delivered(number)) => {
                slots.remove(&number);
            }
            None => tracing::warn!(position, "a line of the dead letters is torn and was skipped"),
        }
        lines += 1;
        position += length as u64;
    }
}

/// Writes the lines of the letters that are left into a file of their own and puts it in place; its length.
fn write_anew(folder: &Path, path: &Path, old: &File, slots: &mut BTreeMap<u64, Slot>) -> io::Result<u64> {
    let temporary: PathBuf = folder.join(format!("{FILE}.new"));
    let mut writer = BufWriter::new(File::create(&temporary)?);
    let mut length = 0;
    for (number, slot) in slots.iter_mut() {
        let mut line = vec![0; slot.length];
        old.read_exact_at(&mut line, slot.position)?;
        slot.position = length;
        if slot.retrying {
            line.extend_from_slice(&line_of(&Event::Retried(*number)));
        }
        writer.write_all(&line)?;
        length += line.len() as u64;
    }
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use holdfast_domain::callbacks::CallbackMessage;
    use holdfast_domain::ids::TransferId;
    use holdfast_hub::CallbackRow;

    use super::*;

    fn letter(number: u64, to: u32) -> Letter {
        let row = CallbackRow {
            number,
            offset: 1,
            time: 2,
            to: ParticipantId(to),
            transfer: TransferId(3),
            message: CallbackMessage::ForwardFulfil,
        };
        Letter::new(&row, 0, 4, "no answer".to_owned(), None)
    }

    fn shown(letters: &LetterFile, to: Option<u32>) -> Vec<(u64, bool)> {
        let page = letters.page(to.map(ParticipantId), None, 100).unwrap();
        page.into_iter().map(|(letter, retrying)| (letter.number, retrying)).collect()
    }

    #[test]
    fn letters_survive_restarts_until_they_are_delivered() {
        let folder = tempfile::tempdir().unwrap();
        let letters = LetterFile::open(folder.path()).unwrap();
        for (number, to) in [(5, 1), (3, 2), (9, 1)] {
            letters.put(letter(number, to)).unwrap();
        }
        assert!(letters.begin_retry(5).unwrap());
        assert!(!letters.begin_retry(5).unwrap(), "once is enough");
        assert!(!letters.begin_retry(6).unwrap());
        letters.delivered(3).unwrap();
        drop(letters);
        for _ in 0..3 {
            let letters = LetterFile::open(folder.path()).unwrap();
            assert_eq!(shown(&letters, None), [(5, true), (9, false)]);
            assert_eq!(letters.get(9).unwrap(), Some((letter(9, 1), false)));
        }
        let letters = LetterFile::open(folder.path()).unwrap();
        letters.put(letter(5, 1)).unwrap();
        assert_eq!(shown(&letters, Some(1)), [(5, false), (9, false)], "it failed again");
        assert_eq!(shown(&letters, Some(2)), []);
        assert_eq!(letters.page(None, Some(5), 1).unwrap().len(), 1);
        letters.delivered(5).unwrap();
        letters.delivered(9).unwrap();
        assert_eq!(
            std::fs::metadata(folder.path().join(FILE)).unwrap().len(),
            0,
            "all gone: nothing is kept"
        );
    }

    #[test]
    fn a_torn_line_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mut bytes = Vec::new();
        for number in 0..3 {
            bytes.extend_from_slice(&line_of(&Event::Died(Box::new(letter(number, 1)))));
        }
        let one = bytes.len() / 3;
        bytes[one + 20] ^= 1;
        bytes.extend_from_slice(b"0000");
        std::fs::write(&path, &bytes).unwrap();
        let letters = LetterFile::open(folder.path()).unwrap();
        assert_eq!(shown(&letters, None), [(0, false), (2, false)]);
        letters.put(letter(7, 1)).unwrap();
        drop(letters);
        let letters = LetterFile::open(folder.path()).unwrap();
        assert_eq!(shown(&letters, None), [(0, false), (2, false), (7, false)]);
    }
}
