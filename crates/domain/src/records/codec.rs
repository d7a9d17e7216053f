//! What all records have in common: reserved bytes, tails, and how one is written from its header to the end of its last unit.

use super::{Kind, UNIT};
use crate::codec::{Bad, Bytes, Put, Read, Take, Unit};
use crate::ids::ParticipantId;

/// The next field of the fixed part.
pub(super) fn take<T: Take>(from: &mut Bytes<'_>) -> Read<T> {
    T::take::<Unit>(from)
}

/// Reserved bytes must be zero, so that they can be given a meaning later.
pub(super) fn zeros(from: &mut Bytes<'_>, count: usize) -> Read<()> {
    let is_zero = from.bytes(count)?.iter().all(|byte| *byte == 0);
    is_zero.then_some(()).ok_or(Bad::new("reserved bytes", "must be zero"))
}

/// What follows the fixed part: `length` bytes, then zeros up to the end of the unit.
pub(super) fn tail<'a>(from: &mut Bytes<'a>, length: u32) -> Read<&'a [u8]> {
    let length = length as usize;
    if length.div_ceil(UNIT) * UNIT != from.0.len() {
        return Err(Bad::new("tail length", "does not fit the record's length"));
    }
    let tail = from.bytes(length)?;
    if from.0.iter().any(|byte| *byte != 0) {
        return Err(Bad::new("padding", "must be zero"));
    }
    Ok(tail)
}

/// Reads a record whose unit says nothing but the length of the tail; all fields are there.
pub(super) fn read_tail<T>(from: &mut Bytes<'_>, read: impl FnOnce(&mut Bytes<'_>) -> Read<T>) -> Read<T> {
    let length = take(from)?;
    zeros(from, 52)?;
    let mut fields = Bytes(tail(from, length)?);
    let command = read(&mut fields)?;
    fields.end()?;
    Ok(command)
}

/// Commands whose fields lie one after another, each behind the kind of its record: the one list by which they are read and
/// written. A field may name what it is held to when it is read, as in `row!`. Others have functions of their own.
macro_rules! listed {
    ($command:ident in $form:ident $(but for $($other:ident),+;)? {
        $($kind:ident = $name:ident $({ $($field:ident $(: $held_to:path)?),+ })? $(($whole:ident))?,)+
    }) => {
        fn read_fields(kind: Kind, from: &mut Bytes<'_>) -> Read<$command> {
            Ok(match kind {
                $(Kind::$kind => {
                    $($(
                        let $field = Take::take::<$form>(from)?;
                        $(let $field = $held_to($field)?;)?
                    )+)?
                    $(let $whole = Take::take::<$form>(from)?;)?
                    $command::$name $({ $($field),+ })? $(($whole))?
                })+
                _ => unreachable!("read by their own functions"),
            })
        }

        /// Adds the fields of a command, and tells its kind.
        fn put_fields(command: &$command, out: &mut Vec<u8>) -> Kind {
            match command {
                $($command::$name $({ $($field),+ })? $(($whole))? => {
                    $($($field.put::<$form>(out);)+)?
                    $($whole.put::<$form>(out);)?
                    Kind::$kind
                })+
                $($($command::$other { .. })|+ => unreachable!("written by their own functions"),)?
            }
        }
    };
}
pub(super) use listed;

/// Appends one record: header first, then fields, and zeros up to the end of its last unit.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, kind: Kind, flags: u8, source: ParticipantId) -> Writer<'a> {
        let start = out.len();
        Writer { out, start }.put(([kind.number(), flags, 0, 0], source))
    }

    /// Adds fields of the fixed part.
    pub(super) fn put(self, fields: impl Put) -> Self {
        fields.put::<Unit>(self.out);
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
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

/// The length of a tail, as the fixed part says it.
pub(super) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("the edge bounds what a record may carry")
}
