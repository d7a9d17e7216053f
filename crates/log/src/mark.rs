//! The high-water mark: how far the log is known to have come.
//!
//! Segments alone cannot tell that their newest part is gone: a log whose last segment was lost, or whose last frame
//! rotted after a clean stop, looks like a shorter log. So the end is noted in a small file of its own whenever a
//! segment is begun and when the log is closed, after the frames it speaks of are durable. A log that ends before its
//! mark is refused.
//!
//! Bytes: `HFend`, three zeros, the log id (16), the end offset (u64), CRC-32C of all before it (u32).

use std::path::Path;

use crate::LogError;
use holdfast_disk::FileSystem;
use holdfast_disk::LogId;

const MARK_NAME: &str = "end.mark";
/// The mark while it is written.
pub(crate) const MARK_TEMPORARY: &str = "end.tmp";
const MAGIC: [u8; 8] = *b"HFend\0\0\0";
const LENGTH: usize = 36;

/// Notes in a log's directory that everything before `end` is durable. Durable itself when it returns. For the log
/// itself, and for who makes a copy of one.
///
/// # Errors
/// If the file cannot be written.
pub fn write(fs: &dyn FileSystem, dir: &Path, log_id: LogId, end: u64) -> Result<(), LogError> {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(&log_id.0);
    bytes[24..32].copy_from_slice(&end.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..32]);
    bytes[32..].copy_from_slice(&checksum.to_le_bytes());
    let temporary = dir.join(MARK_TEMPORARY);
    fs.remove_if_there(&temporary).map_err(LogError::io("remove", &temporary))?;
    let file = fs.create_new(&temporary).map_err(LogError::io("create", &temporary))?;
    file.write_at(&bytes, 0).map_err(LogError::io("write", &temporary))?;
    file.sync_data().map_err(LogError::io("sync", &temporary))?;
    fs.rename(&temporary, &dir.join(MARK_NAME)).map_err(LogError::io("rename", &temporary))?;
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))
}

/// Where the log is known to have come, if a mark says so. A mark that is missing or cannot be read says nothing: it
/// is a second witness, and the segments are the log.
pub(crate) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Mark>, LogError> {
    let path = dir.join(MARK_NAME);
    if !fs.exists(&path).map_err(LogError::io("look for", &path))? {
        return Ok(None);
    }
    let file = fs.open_read(&path).map_err(LogError::io("open", &path))?;
    let mut bytes = [0; LENGTH];
    let length = file.read_full_at(&mut bytes, 0).map_err(LogError::io("read", &path))?;
    let whole =
        length == LENGTH && bytes[..8] == MAGIC && crc32c::crc32c(&bytes[..32]).to_le_bytes() == bytes[32..];
    if !whole {
        tracing::warn!(file = %path.display(), "the end mark of the log cannot be read and is not used");
        return Ok(None);
    }
    let log_id = LogId(*bytes[8..24].first_chunk().expect("sixteen bytes"));
    let end = u64::from_le_bytes(*bytes[24..32].first_chunk().expect("eight bytes"));
    Ok(Some(Mark { log_id, end }))
}

/// A mark as it was read, before the segments: a running writer only ever goes on from there.
pub(crate) struct Mark {
    log_id: LogId,
    end: u64,
}

impl Mark {
    /// Refuses a log that ends before its mark.
    pub(crate) fn check(&self, dir: &Path, log_id: LogId, end: u64) -> Result<(), LogError> {
        if self.log_id == log_id && end < self.end {
            return Err(LogError::Shortened { dir: dir.to_owned(), end, reached: self.end });
        }
        Ok(())
    }
}
