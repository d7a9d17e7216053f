//! A segment file: its name, its header block, and how it comes to be.
//!
//! A segment is made under a temporary name: room for its whole length, synced; the header, synced; the rename; the
//! directory, synced. So a file with a segment's name always has a whole header and a body that reads as zeros.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::LogError;
use crate::frame::{BLOCK, BLOCK_U64, array_at, u16_at, u32_at, u64_at};
use holdfast_disk::{AlignedBuf, File, FileSystem, LogId, number_in_name};

/// Segment size unless configured, in bytes.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// The smallest segment: its header and one block.
pub const SEGMENT_BYTES_MIN: u64 = 2 * BLOCK_U64;

/// The segment format this code writes, and the latest it reads.
pub(crate) const SEGMENT_VERSION: u16 = 1;
/// The spare that is prepared ahead.
pub(crate) const SPARE_NAME: &str = "spare.tmp";
/// A segment that the appender prepares itself.
pub(crate) const INLINE_NAME: &str = "next.tmp";

const MAGIC: [u8; 8] = *b"HOLDFSEG";
const CREATED_BY: std::ops::Range<usize> = 48..80;
const CRC: usize = BLOCK - 4;
/// Zeros are written in pieces of this size...
const ZERO_CHUNK: usize = 1024 * 1024;
/// ...and, where a whole segment needs them, synced after this many bytes, so that the appender's own sync never waits behind a whole segment.
const ZERO_SYNC_BYTES: u64 = 4 * 1024 * 1024;

static ZEROS: Zeros = Zeros([0; ZERO_CHUNK]);

/// Aligned as direct IO wants it.
#[repr(align(4096))]
struct Zeros([u8; ZERO_CHUNK]);

/// The file name of the segment that begins at `base_offset`.
pub(crate) fn file_name(base_offset: u64) -> String {
    format!("{base_offset:020}.seg")
}

/// A segment as listed: not yet looked into.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub base: u64,
    pub path: PathBuf,
}

/// All segments of a directory by base offset.
pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<SegmentFile>, LogError> {
    let names = fs.list(dir).map_err(LogError::io("list", dir))?;
    let segment =
        |name: &String| Some(SegmentFile { base: number_in_name(name, ".seg")?, path: dir.join(name) });
    Ok(names.iter().filter_map(segment).collect())
}

/// What the first block of a segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub log_id: LogId,
    pub base_offset: u64,
    /// Length of the file as created; a shorter file has lost something.
    pub length: u64,
    pub created_by: String,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[0..8].copy_from_slice(&MAGIC);
        block[8..10].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.log_id.0);
        block[32..40].copy_from_slice(&self.base_offset.to_le_bytes());
        block[40..48].copy_from_slice(&self.length.to_le_bytes());
        let name = &self.created_by.as_bytes()[..self.created_by.len().min(CREATED_BY.len())];
        block[CREATED_BY][..name.len()].copy_from_slice(name);
        let crc = crc32c::crc32c(&block[..CRC]);
        block[CRC..].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Refuses a segment of another log.
    pub fn check_log_id(&self, expected: LogId, segment: &SegmentFile) -> Result<(), LogError> {
        if self.log_id == expected {
            return Ok(());
        }
        Err(LogError::ForeignSegment { file: segment.path.clone(), found: self.log_id, expected })
    }
}

/// Reads and checks a segment's header against its name and length.
pub(crate) fn read_header(file: &dyn File, segment: &SegmentFile) -> Result<SegmentHeader, LogError> {
    let corrupt = |found: String| LogError::Corrupt {
        file: segment.path.clone(),
        position: 0,
        offset: segment.base,
        found,
    };
    let mut block = [0; BLOCK];
    let read = file.read_full_at(&mut block, 0).map_err(LogError::io("read", &segment.path))?;
    if read < BLOCK || block[0..8] != MAGIC {
        return Err(corrupt("the file does not begin with a segment header".into()));
    }
    if crc32c::crc32c(&block[..CRC]) != u32_at(&block, CRC) {
        return Err(corrupt("the segment header fails its checksum".into()));
    }
    let version = u16_at(&block, 8);
    if version != SEGMENT_VERSION {
        return Err(LogError::UnsupportedVersion {
            file: segment.path.clone(),
            found: version,
            known: SEGMENT_VERSION,
        });
    }
    let created_by = String::from_utf8_lossy(&block[CREATED_BY]).trim_end_matches('\0').to_owned();
    let header = SegmentHeader {
        log_id: LogId(array_at(&block, 16)),
        base_offset: u64_at(&block, 32),
        length: u64_at(&block, 40),
        created_by,
    };
    if header.base_offset != segment.base {
        return Err(corrupt(format!("its header says offset {}, its name another", header.base_offset)));
    }
    let len = file.len().map_err(LogError::io("measure", &segment.path))?;
    if len < header.length || header.length < BLOCK_U64 || !header.length.is_multiple_of(BLOCK_U64) {
        return Err(corrupt(format!("the file has {len} bytes and was made with {}", header.length)));
    }
    Ok(header)
}

/// Opens a segment for reading and checks its header.
pub(crate) fn open_read(
    fs: &dyn FileSystem,
    segment: &SegmentFile,
) -> Result<(SegmentHeader, Arc<dyn File>), LogError> {
    let file = fs.open_read(&segment.path).map_err(LogError::io("open", &segment.path))?;
    let header = read_header(&*file, segment)?;
    Ok((header, file))
}

/// A segment's file before it has a header: its whole length is there and reads as zeros.
pub(crate) struct Blank {
    /// Writes past the cache.
    pub file: Arc<dyn File>,
    /// Up to here blocks were written, not only allocated.
    pub zeroed_to: u64,
}

/// Makes a blank under a temporary name, replacing a leftover of that name. Allocated, not written: zeros over
/// everything would double the bytes that go to the disk. Where the file system cannot allocate they are written
/// after all. `None` when `cancelled` says so between two chunks; the leftover is removed at the next open.
pub(crate) fn make_blank(
    fs: &dyn FileSystem,
    path: &Path,
    bytes: u64,
    cancelled: impl Fn() -> bool,
) -> Result<Option<Blank>, LogError> {
    fs.remove_if_there(path).map_err(LogError::io("remove", path))?;
    let file = fs.create_new_uncached(path).map_err(LogError::io("create", path))?;
    match file.allocate(bytes) {
        Ok(()) => {
            file.sync_data().map_err(LogError::io("sync", path))?;
            return Ok(Some(Blank { file, zeroed_to: 0 }));
        }
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(error) => return Err(LogError::io("take room for", path)(error)),
    }
    let mut position = 0;
    while position < bytes {
        if cancelled() {
            return Ok(None);
        }
        let end = bytes.min(position + ZERO_SYNC_BYTES);
        zero_range(&*file, position, end).map_err(LogError::io("write", path))?;
        file.sync_data().map_err(LogError::io("sync", path))?;
        position = end;
    }
    Ok(Some(Blank { file, zeroed_to: bytes }))
}

/// Writes the header into a blank and gives it its name. Durable when it returns.
pub(crate) fn install(
    fs: &dyn FileSystem,
    file: &dyn File,
    temporary: &Path,
    dir: &Path,
    header: &SegmentHeader,
) -> Result<SegmentFile, LogError> {
    let mut block = AlignedBuf::with_capacity(BLOCK);
    block.extend_from_slice(&header.encode());
    file.write_at(&block, 0).map_err(LogError::io("write", temporary))?;
    file.sync_data().map_err(LogError::io("sync", temporary))?;
    let path = dir.join(file_name(header.base_offset));
    fs.rename(temporary, &path).map_err(LogError::io("rename", temporary))?;
    fs.sync_dir(dir).map_err(LogError::io("sync", dir))?;
    Ok(SegmentFile { base: header.base_offset, path })
}

/// Overwrites a range of whole blocks with zeros. The caller syncs.
pub(crate) fn zero_range(file: &dyn File, mut position: u64, end: u64) -> io::Result<()> {
    while position < end {
        let chunk = usize::try_from(end - position).map_or(ZERO_CHUNK, |left| left.min(ZERO_CHUNK));
        file.write_at(&ZEROS.0[..chunk], position)?;
        position += chunk as u64;
    }
    Ok(())
}
