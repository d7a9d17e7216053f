//! Reading a checkpoint, part by part.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use holdfast_disk::{File, FileSystem, LogId, number_in_name};

use super::{CHUNK_BYTES_MAX, CHUNK_HEADER, HEADER, MAGIC, Part, VERSION, header_crc, path_of, tag};
use crate::StoreError;
use crate::runs::RunName;

/// The offsets of the checkpoints in a directory, oldest first; none if it is not there.
pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>, StoreError> {
    let names = match fs.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(StoreError::io("list", dir))?,
    };
    Ok(names.iter().filter_map(|name| number_in_name(name, ".ckp")).collect())
}

/// The least that an open transfer takes in a checkpoint, about.
const ROW_BYTES_MIN: u64 = 128;

/// How many open transfers the checkpoint at `offset` may hold, by its length.
pub(crate) fn rows_max(fs: &dyn FileSystem, dir: &Path, offset: u64) -> Result<usize, StoreError> {
    let path = path_of(dir, offset);
    let length = fs.open_read(&path).and_then(|file| file.len()).map_err(StoreError::io("open", &path))?;
    Ok(usize::try_from(length / ROW_BYTES_MIN).unwrap_or(0))
}

/// What the checkpoint at `offset` needs of other files, without reading all of it: the runs of each archive, and
/// where its callbacks end.
pub(crate) fn needs_of(
    fs: &dyn FileSystem,
    dir: &Path,
    offset: u64,
) -> Result<([Vec<RunName>; 2], u64), StoreError> {
    let (mut runs, mut callbacks) = ([Vec::new(), Vec::new()], 0);
    walk(fs, dir, offset, |_, part| {
        match part {
            Part::Run(which, name) => runs[which as usize].push(name),
            Part::Callbacks(end) => {
                callbacks = end.position;
                return ControlFlow::Break(());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok((runs, callbacks))
}

/// Reads the checkpoint at `offset` and shows each part with the log's id. What was shown counts only if this
/// returns `Ok`: a checkpoint is believed whole or not at all.
pub(crate) fn read(
    fs: &dyn FileSystem,
    dir: &Path,
    offset: u64,
    mut show: impl FnMut(LogId, Part),
) -> Result<LogId, StoreError> {
    walk(fs, dir, offset, |log_id, part| {
        show(log_id, part);
        ControlFlow::Continue(())
    })
}

fn walk(
    fs: &dyn FileSystem,
    dir: &Path,
    offset: u64,
    mut show: impl FnMut(LogId, Part) -> ControlFlow<()>,
) -> Result<LogId, StoreError> {
    let path = path_of(dir, offset);
    let file = fs.open_read(&path).map_err(StoreError::io("open", &path))?;
    let mut pages = Pages { file, path: &path, position: 0 };
    let mut header = [0; HEADER];
    pages.take(&mut header)?;
    let log_id = check_header(&header, &path, offset)?;
    let seed = crc32c::crc32c(&log_id.0);
    let (mut parts, mut payload) = (0_u64, Vec::new());
    for sequence in 0_u32.. {
        let at = pages.position;
        let damaged = |found: &str| StoreError::damaged(&path, at, found);
        let mut head = [0; CHUNK_HEADER];
        pages.take(&mut head)?;
        let word = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().expect("four bytes"));
        let (tag, length) = (word(0), word(4) as usize);
        if length > CHUNK_BYTES_MAX || word(8) != sequence {
            return Err(damaged("no chunk of a checkpoint stands there"));
        }
        payload.resize(length, 0);
        pages.take(&mut payload)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &head[..12]), &payload);
        if crc != word(12) {
            return Err(damaged("a chunk of the checkpoint fails its checksum"));
        }
        if tag == tag::END {
            let whole = payload == parts.to_le_bytes();
            return if whole { Ok(log_id) } else { Err(damaged("parts of the checkpoint are missing")) };
        }
        let mut rest = payload.as_slice();
        while !rest.is_empty() {
            let part = split_part(&mut rest).and_then(|bytes| Part::read(tag, bytes));
            let part = part.ok_or_else(|| damaged("a part of the checkpoint cannot be read"))?;
            if show(log_id, part).is_break() {
                return Ok(log_id);
            }
            parts += 1;
        }
    }
    Err(StoreError::damaged(&path, pages.position, "the checkpoint has no end"))
}

fn split_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(part)
}

fn check_header(header: &[u8; HEADER], path: &Path, offset: u64) -> Result<LogId, StoreError> {
    let damaged = |found: &str| StoreError::damaged(path, 0, found);
    if header[..8] != MAGIC {
        return Err(damaged("the file does not begin with a checkpoint header"));
    }
    // Before the version is believed: a checkpoint that has rotted there is not one of a later release.
    if header[12..16] != header_crc(header).to_le_bytes() {
        return Err(damaged("the checkpoint header fails its checksum"));
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if version != VERSION {
        return Err(StoreError::UnsupportedVersion { file: path.to_owned(), found: version, known: VERSION });
    }
    let log_id = LogId(*header[16..].first_chunk().expect("sixteen bytes"));
    if header[32..40] != offset.to_le_bytes() {
        return Err(damaged("the header says another offset than the name"));
    }
    Ok(log_id)
}

struct Pages<'a> {
    file: Arc<dyn File>,
    path: &'a Path,
    position: u64,
}

impl Pages<'_> {
    /// Fills the buffer with what comes next.
    fn take(&mut self, buffer: &mut [u8]) -> Result<(), StoreError> {
        let read =
            self.file.read_full_at(buffer, self.position).map_err(StoreError::io("read", self.path))?;
        if read < buffer.len() {
            return Err(StoreError::damaged(self.path, self.position, "the checkpoint is cut short"));
        }
        self.position += buffer.len() as u64;
        Ok(())
    }
}
