//! Writing a checkpoint, part by part, in bounded memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_disk::{AlignedBuf, BLOCK, File, FileSystem, LogId};
use holdfast_domain::codec::{Form, Put};

use super::{CHUNK_BYTES, CHUNK_HEADER, HEADER, MAGIC, TEMPORARY, VERSION, header_crc, path_of, tag};
use crate::StoreError;

/// Bytes that are written together.
const PIECE_BYTES: usize = 256 * 1024;
/// Synced after so many bytes, so that the log's own sync never waits behind a whole checkpoint.
const SYNC_BYTES: u64 = 4 * 1024 * 1024;

/// A checkpoint in the making.
pub(crate) struct CheckpointWriter {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    temporary: PathBuf,
    file: Arc<dyn File>,
    log_id: LogId,
    offset: u64,
    /// Bytes that are not in the file yet: whole pieces are moved there.
    buffer: AlignedBuf,
    position: u64,
    unsynced: u64,
    chunk: Vec<u8>,
    tag: u32,
    sequence: u32,
    parts: u64,
}

impl CheckpointWriter {
    /// Begins the checkpoint of the state after the frames before `offset`.
    pub(crate) fn begin(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        log_id: LogId,
        offset: u64,
    ) -> Result<CheckpointWriter, StoreError> {
        let temporary = dir.join(TEMPORARY);
        fs.remove_if_there(&temporary).map_err(StoreError::io("remove", &temporary))?;
        let file = fs.create_new_uncached(&temporary).map_err(StoreError::io("create", &temporary))?;
        let mut buffer = AlignedBuf::with_capacity(2 * PIECE_BYTES);
        buffer.extend_from_slice(&header(log_id, offset));
        Ok(CheckpointWriter {
            fs: Arc::clone(fs),
            dir: dir.to_owned(),
            temporary,
            file,
            log_id,
            offset,
            buffer,
            position: 0,
            unsynced: 0,
            chunk: Vec::with_capacity(CHUNK_BYTES),
            tag: 0,
            sequence: 0,
            parts: 0,
        })
    }

    /// Adds a row of the log or of the store, in its form.
    pub(crate) fn put_row<F: Form>(&mut self, tag: u32, row: &impl Put) -> Result<(), StoreError> {
        self.put(tag, |out| row.put::<F>(out))
    }

    /// Adds a part of the bytes that `write` adds.
    pub(crate) fn put(&mut self, tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), StoreError> {
        if self.tag != tag || self.chunk.len() >= CHUNK_BYTES {
            self.close_chunk()?;
            self.tag = tag;
        }
        let at = self.chunk.len();
        self.chunk.extend_from_slice(&[0; 4]);
        write(&mut self.chunk);
        let length = u32::try_from(self.chunk.len() - at - 4).expect("a part is short");
        self.chunk[at..at + 4].copy_from_slice(&length.to_le_bytes());
        self.parts += 1;
        Ok(())
    }

    fn close_chunk(&mut self) -> Result<(), StoreError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let mut head = [0; CHUNK_HEADER];
        head[..4].copy_from_slice(&self.tag.to_le_bytes());
        let length = u32::try_from(self.chunk.len()).expect("a chunk is short");
        head[4..8].copy_from_slice(&length.to_le_bytes());
        head[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.log_id.0), &head[..12]);
        let crc = crc32c::crc32c_append(crc, &self.chunk);
        head[12..].copy_from_slice(&crc.to_le_bytes());
        self.sequence += 1;
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(&self.chunk);
        self.chunk.clear();
        self.write_pieces(PIECE_BYTES)
    }

    /// Writes what is there in whole pieces of that size.
    fn write_pieces(&mut self, piece: usize) -> Result<(), StoreError> {
        let whole = self.buffer.len() / piece * piece;
        for bytes in self.buffer[..whole].chunks(PIECE_BYTES) {
            self.file.write_at(bytes, self.position).map_err(StoreError::io("write", &self.temporary))?;
            self.position += bytes.len() as u64;
            self.unsynced += bytes.len() as u64;
        }
        if self.unsynced >= SYNC_BYTES {
            self.sync()?;
        }
        let mut rest = AlignedBuf::with_capacity(2 * PIECE_BYTES);
        rest.extend_from_slice(&self.buffer[whole..]);
        self.buffer = rest;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.unsynced = 0;
        self.file.sync_data().map_err(StoreError::io("sync", &self.temporary))
    }

    /// Writes the end and gives the checkpoint its name. Durable when it returns.
    pub(crate) fn finish(mut self) -> Result<u64, StoreError> {
        self.close_chunk()?;
        self.tag = tag::END;
        self.chunk.extend_from_slice(&self.parts.to_le_bytes());
        self.close_chunk()?;
        self.buffer.set_len(self.buffer.len().next_multiple_of(BLOCK));
        self.write_pieces(BLOCK)?;
        self.sync()?;
        let path = path_of(&self.dir, self.offset);
        self.fs.rename(&self.temporary, &path).map_err(StoreError::io("rename", &self.temporary))?;
        self.fs.sync_dir(&self.dir).map_err(StoreError::io("sync", &self.dir))?;
        Ok(self.position)
    }
}

fn header(log_id: LogId, offset: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&log_id.0);
    bytes[32..40].copy_from_slice(&offset.to_le_bytes());
    let crc = header_crc(&bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}
