//! Reading and writing little-endian fields one after another.

use super::{Kind, RecordError, UNIT};
use crate::ids::{Currency, HUB, ParticipantId};
use crate::money::Amount;

/// Walks over the bytes of one whole record. Its length was tested before, so the fixed fields are there.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes[self.at..self.at + N].try_into().expect("a slice of N bytes");
        self.at += N;
        field
    }

    /// The header: flags and source. Kind and length were read before.
    pub(super) fn header(&mut self) -> (u8, ParticipantId) {
        let [_, flags, _, _] = self.array::<4>();
        (flags, ParticipantId(self.u32()))
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.array())
    }

    pub(super) fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.array())
    }

    pub(super) fn amount(&mut self) -> Amount {
        Amount(self.i64())
    }

    /// Four bytes: three letters and a zero.
    pub(super) fn currency(&mut self) -> Result<Currency, RecordError> {
        let [a, b, c, zero] = self.array();
        match Currency::from_letters([a, b, c]) {
            Some(currency) if zero == 0 => Ok(currency),
            _ => Err(bad("currency", "is not three capital letters followed by a zero byte")),
        }
    }

    /// Reserved bytes must be zero, so that they can be given a meaning later.
    pub(super) fn zeros(&mut self, count: usize) -> Result<(), RecordError> {
        let reserved = &self.bytes[self.at..self.at + count];
        self.at += count;
        if reserved.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(bad("reserved bytes", "must be zero"))
        }
    }

    /// What follows the fixed part: `length` bytes, then zeros up to the end of the unit.
    pub(super) fn tail(&mut self, length: u32) -> Result<&'a [u8], RecordError> {
        let rest = &self.bytes[self.at..];
        let length = length as usize;
        if length.div_ceil(UNIT) * UNIT != rest.len() {
            return Err(bad("tail length", "does not fit the record's length"));
        }
        let (tail, padding) = rest.split_at(length);
        if padding.iter().any(|byte| *byte != 0) {
            return Err(bad("padding", "must be zero"));
        }
        Ok(tail)
    }
}

pub(super) const fn bad(field: &'static str, why: &'static str) -> RecordError {
    RecordError::BadField { field, why }
}

/// Refuses flags other than `allowed`.
pub(super) fn only_flags(flags: u8, allowed: u8) -> Result<(), RecordError> {
    if flags & !allowed == 0 { Ok(()) } else { Err(bad("flags", "hold a bit that this kind does not have")) }
}

/// Refuses a record of the hub or its operator that came on behalf of a participant.
pub(super) fn from_hub(source: ParticipantId) -> Result<(), RecordError> {
    if source == HUB { Ok(()) } else { Err(bad("source", "must be 0: only the hub sends this kind")) }
}

/// Appends one record: header first, then fields, and zeros up to the end of its last unit.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, kind: Kind, flags: u8, source: ParticipantId) -> Writer<'a> {
        let start = out.len();
        out.extend_from_slice(&[kind as u8, flags, 0, 0]);
        out.extend_from_slice(&source.0.to_le_bytes());
        Writer { out, start }
    }

    pub(super) fn put(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    pub(super) fn currency(self, currency: Currency) -> Self {
        self.put(&currency.letters()).put(&[0])
    }

    /// Fills the record with zeros up to a length of `units`.
    pub(super) fn pad_to(self, units: usize) -> Self {
        self.out.resize(self.start + units * UNIT, 0);
        self
    }

    pub(super) fn finish(self) {
        let units = (self.out.len() - self.start).div_ceil(UNIT);
        self.out.resize(self.start + units * UNIT, 0);
        let units = u16::try_from(units).expect("the edge bounds what a record may carry");
        self.out[self.start + 2..self.start + 4].copy_from_slice(&units.to_le_bytes());
    }
}
