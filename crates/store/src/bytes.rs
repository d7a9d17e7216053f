//! The small pieces that rows on the disk are made of.
//!
//! A varint holds 7 bits per byte, low ones first; the high bit says that more follow, and it is no longer than it must be.
//! A text is its length in bytes as a varint, and UTF-8.

/// Small numbers of either sign become small numbers: 0, -1, 1, -2, …
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) const fn zigzag_wide(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)).cast_unsigned()
}

const fn unzigzag_wide(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
pub(crate) fn put_wide(out: &mut Vec<u8>, mut value: u128) {
    while value > u128::from(u64::MAX) {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    put(out, value as u64);
}

/// Adds a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The bytes not read yet.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// A varint that fits the type and is no longer than it must be.
    pub(crate) fn varint<T: TryFrom<u128>>(&mut self) -> Option<T> {
        let (mut value, mut shift) = (0_u128, 0);
        loop {
            let [byte] = self.array()?;
            let bits = u128::from(byte & 127);
            // The last byte of 19 has room for two bits; a last byte of zero adds nothing.
            if shift > 126 || (shift == 126 && bits > 3) || (byte == 0 && shift > 0) {
                return None;
            }
            value |= bits << shift;
            if byte < 128 {
                return T::try_from(value).ok();
            }
            shift += 7;
        }
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value: u64 = self.varint()?;
        i64::try_from(unzigzag_wide(u128::from(value))).ok()
    }

    /// A zigzag varint of up to 128 bits.
    pub(crate) fn wide(&mut self) -> Option<i128> {
        self.varint().map(unzigzag_wide)
    }

    /// A text with its length in front.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.varint()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// A list with its length in front. Every item takes at least one byte, so no length asks for more memory than there are bytes.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.varint()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// All that is left, as text.
    pub(crate) fn rest_as_text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(std::mem::take(&mut self.0)).ok()
    }
}

/// Reads a field that may not be there: the outer `None` says that the bytes are no row.
#[allow(clippy::option_option, reason = "not there and not readable are different")]
pub(crate) fn optional<T>(there: bool, read: impl FnOnce() -> Option<T>) -> Option<Option<T>> {
    if there { read().map(Some) } else { Some(None) }
}
