//! Bytes that begin where direct IO wants them to.

use std::ops::{Deref, DerefMut};

/// Direct IO moves whole blocks of this size from and to memory that begins at a multiple of it.
pub const BLOCK: usize = 4096;

/// A growing buffer whose first byte lies at a multiple of [`BLOCK`].
#[derive(Debug, Default)]
pub struct AlignedBuf {
    /// Some bytes to reach the boundary, then the contents.
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuf {
    /// An empty buffer that holds `capacity` bytes before it must move.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> AlignedBuf {
        let mut bytes: Vec<u8> = Vec::with_capacity(capacity + BLOCK);
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        bytes.resize(start, 0);
        AlignedBuf { bytes, start }
    }

    /// Sees to it that `more` bytes can be added without a move.
    fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() >= more && self.bytes.capacity() > 0 {
            return;
        }
        let mut moved = AlignedBuf::with_capacity((self.len() + more).max(2 * self.len()));
        moved.bytes.extend_from_slice(self);
        *self = moved;
    }

    /// Adds bytes at the end.
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        self.reserve(more.len());
        self.bytes.extend_from_slice(more);
    }

    /// Cuts, or lengthens with zeros.
    pub fn set_len(&mut self, len: usize) {
        self.reserve(len.saturating_sub(self.len()));
        self.bytes.resize(self.start + len, 0);
    }

    /// Empties it and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        let mut copy = AlignedBuf::with_capacity(self.len());
        copy.extend_from_slice(self);
        copy
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_stays_on_a_boundary_and_the_bytes_stay() {
        let mut buffer = AlignedBuf::default();
        let mut model = Vec::new();
        for round in 0..200_u8 {
            let piece = vec![round; usize::from(round) * 37];
            buffer.extend_from_slice(&piece);
            model.extend_from_slice(&piece);
            assert_eq!((buffer.as_ptr() as usize % BLOCK, &*buffer), (0, &*model));
        }
        buffer.set_len(5_000);
        model.truncate(5_000);
        buffer.set_len(9_000);
        model.resize(9_000, 0);
        let copy = buffer.clone();
        assert_eq!((copy.as_ptr() as usize % BLOCK, &*copy), (0, &*model));
        buffer.clear();
        assert!(buffer.is_empty() && (buffer.as_ptr() as usize).is_multiple_of(BLOCK));
    }
}
