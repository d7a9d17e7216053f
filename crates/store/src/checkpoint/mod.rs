//! Checkpoints: the state after exactly one frame, in one file.
//!
//! A checkpoint is written under a temporary name, synced, renamed, and its name synced, after everything that it
//! refers to is durable. The two newest are kept: if the newest has rotted, the one before it and the log give the
//! same state.
//!
//! ```text
//! header, 64 bytes                      chunk: 16 bytes and a payload
//!  0  magic "HOLDFCKP"                   0  tag u32
//!  8  version u16, zero u16              4  payload length u32
//! 12  CRC-32C of the other bytes         8  sequence u32: 0, 1, 2, …
//! 16  log id                            12  CRC-32C of log id + bytes 0..12 + payload
//! 32  offset u64: the frames before it are in
//! 40  zero                              The last chunk is the end, which counts the parts before it.
//! ```
//! A chunk holds parts of one kind, each with its length (u32) in front. After the end come zeros up to a whole
//! block. Everything is little-endian.

mod parts;
mod read;
mod write;

pub(crate) use parts::{Part, tag, write_endpoint};
pub(crate) use read::{list, needs_of, read, rows_max};
pub(crate) use write::CheckpointWriter;

use std::path::{Path, PathBuf};

/// The format this code writes, and the latest it reads.
const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"HOLDFCKP";
const HEADER: usize = 64;
const CHUNK_HEADER: usize = 16;
/// A chunk is closed when its payload reaches this.
const CHUNK_BYTES: usize = 256 * 1024;
/// No payload is longer: one part may pass the mark, and no row is longer than the record that it came with (4 MiB).
const CHUNK_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Under this name a checkpoint is written.
pub(crate) const TEMPORARY: &str = "checkpoint.tmp";

/// The checksum of a header: over all of it but itself, in every version.
fn header_crc(header: &[u8; HEADER]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..])
}

/// The file of the checkpoint at `offset`.
pub(crate) fn path_of(dir: &Path, offset: u64) -> PathBuf {
    dir.join(format!("{offset:020}.ckp"))
}
