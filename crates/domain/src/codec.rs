//! How rows and commands become bytes: one field after another. A type says once which fields it has; the form says how a
//! number, a text and a list lie.
//!
//! | | [`Plain`]: tails of records, and `Unit`: their first bytes | [`Packed`]: rows of the store | `Chained`: the audit chain |
//! | --- | --- | --- | --- |
//! | number | 8 bytes | varint | 8 bytes |
//! | small number | 4 bytes | varint | 4 bytes |
//! | time | 8 bytes | zigzag varint | 8 bytes |
//! | text | length in 2 bytes, UTF-8 | length as a varint, UTF-8 | length in 4 bytes (tokens: 8), UTF-8 |
//! | list | count in 4 bytes | count as a varint | count in 8 bytes |
//! | currency | 3 letters; `Unit`: and a byte of 0 | 3 letters | 3 letters |
//!
//! All else is little-endian in all. A varint holds 7 bits per byte, low ones first; the high bit says that more follow, and
//! it is no longer than it must be. So a row has exactly one form, and what is not that form is refused.

#![allow(clippy::missing_errors_doc, reason = "whatever reads fails if the bytes are something else")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use crate::money::{Amount, Balance};
use crate::tokens::{Fingerprint, Name, TokenId};

/// Why bytes are no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Bad {
    /// This field, for that reason.
    #[must_use]
    pub const fn new(field: &'static str, why: &'static str) -> Bad {
        Bad { field, why }
    }
}

/// What was read, or why it is none.
pub type Read<T> = Result<T, Bad>;

/// How fields lie.
pub trait Form {
    /// The bytes of a text's length, where they are fixed.
    const LENGTH: usize;
    /// The bytes of a list's count, where they are fixed.
    const COUNT: usize;
    /// Whether a byte of 0 follows a currency.
    const PADDED_CURRENCIES: bool = false;
    /// Adds a number, which lies in so many bytes where its length is fixed.
    fn put_number(out: &mut Vec<u8>, number: u64, bytes: usize) {
        let number = number.to_le_bytes();
        assert!(number[bytes..].iter().all(|byte| *byte == 0), "the edge bounds names and lists");
        out.extend_from_slice(&number[..bytes]);
    }
    /// Adds a time.
    fn put_time(out: &mut Vec<u8>, time: i64) {
        out.extend_from_slice(&time.to_le_bytes());
    }
}

/// A form that is read again.
pub trait Readable: Form {
    /// Whether a name may be of no length.
    const EMPTY_NAMES: bool = false;
    /// Takes a number.
    fn number(from: &mut Bytes<'_>, bytes: usize) -> Read<u64> {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(from.bytes(bytes)?);
        Ok(u64::from_le_bytes(number))
    }
    /// Takes a time.
    fn time(from: &mut Bytes<'_>) -> Read<i64> {
        from.array().map(i64::from_le_bytes)
    }
}

/// Adds the count of a list.
pub fn put_count<F: Form>(out: &mut Vec<u8>, count: usize) {
    F::put_number(out, count as u64, F::COUNT);
}

/// What can be written.
pub trait Put {
    /// Adds it in that form.
    fn put<F: Form>(&self, out: &mut Vec<u8>);
    /// Adds it where it may be absent: a byte of 0 or 1 stands before it.
    fn put_if<F: Form>(it: Option<&Self>, out: &mut Vec<u8>) {
        out.push(u8::from(it.is_some()));
        it.iter().for_each(|it| it.put::<F>(out));
    }
}

/// What can be read.
pub trait Take: Sized {
    /// Takes it from the front.
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Self>;
    /// Takes it where it may be absent.
    fn take_if<F: Readable>(from: &mut Bytes<'_>) -> Read<Option<Self>> {
        let there = bool::take::<F>(from)?;
        optional(there, || Self::take::<F>(from))
    }
}

/// What these bytes are, from the first to the last.
pub fn read<F: Readable, T: Take>(bytes: &[u8]) -> Read<T> {
    let mut from = Bytes(bytes);
    let row = T::take::<F>(&mut from)?;
    from.end()?;
    Ok(row)
}

/// The bytes not read yet.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(Bad::new("tail", "ends in the middle of a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// So many bytes as a field of that length.
    pub fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self.bytes(N)?.try_into().expect("so many were taken"))
    }

    fn size<F: Readable>(&mut self, bytes: usize) -> Read<usize> {
        usize::try_from(F::number(self, bytes)?).map_err(|_| Bad::new("count", "is too large"))
    }

    /// A text.
    pub fn text<F: Readable>(&mut self) -> Read<&'a str> {
        let length = self.size::<F>(F::LENGTH)?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Bad::new("text", "is not UTF-8"))
    }

    /// All that is left, as text.
    pub fn rest_as_text(&mut self) -> Read<&'a str> {
        let rest = std::mem::take(&mut self.0);
        std::str::from_utf8(rest).map_err(|_| Bad::new("text", "is not UTF-8"))
    }

    /// A list.
    pub fn list<F: Readable, T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.size::<F>(F::COUNT)?;
        // Each item takes a byte at least, so a count from nowhere asks for no memory.
        if count > self.0.len() {
            return Err(Bad::new("count", "is more than the tail can hold"));
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// A varint that fits the type.
    pub fn varint<T: TryFrom<u128>>(&mut self) -> Read<T> {
        const WRONG: Bad = Bad::new("number", "is no varint, or too large");
        let (mut value, mut shift) = (0_u128, 0);
        loop {
            let [byte] = self.array()?;
            let bits = u128::from(byte & 127);
            // The last byte of 19 has room for two bits; a last byte of zero adds nothing.
            if shift > 126 || (shift == 126 && bits > 3) || (byte == 0 && shift > 0) {
                return Err(WRONG);
            }
            value |= bits << shift;
            if byte < 128 {
                return T::try_from(value).map_err(|_| WRONG);
            }
            shift += 7;
        }
    }

    /// A zigzag varint of up to 64 bits.
    pub fn signed(&mut self) -> Read<i64> {
        let value: u64 = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// A zigzag varint of up to 128 bits.
    pub fn wide(&mut self) -> Read<i128> {
        let value: u128 = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// That nothing is left.
    pub const fn end(&self) -> Read<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Bad::new("tail", "goes on after its last field")) }
    }
}

/// Reads a field that may not be there.
pub fn optional<T>(there: bool, read: impl FnOnce() -> Read<T>) -> Read<Option<T>> {
    there.then(read).transpose()
}

/// Adds a varint.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Adds a zigzag varint: small numbers of either sign become small numbers, 0, -1, 1, -2, …
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Adds a zigzag varint of up to 128 bits.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
pub fn put_wide(out: &mut Vec<u8>, value: i128) {
    let mut value = ((value << 1) ^ (value >> 127)).cast_unsigned();
    while value > u128::from(u64::MAX) {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    put_varint(out, value as u64);
}

/// The form of what lies in the tails of records.
#[derive(Debug, Clone, Copy)]
pub enum Plain {}

impl Form for Plain {
    const LENGTH: usize = 2;
    const COUNT: usize = 4;
}

impl Readable for Plain {}

/// The form of the fixed part of records, which is made of whole units.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {}

impl Form for Unit {
    const LENGTH: usize = Plain::LENGTH;
    const COUNT: usize = Plain::COUNT;
    const PADDED_CURRENCIES: bool = true;
}

impl Readable for Unit {}

/// The form of the store's rows.
#[derive(Debug, Clone, Copy)]
pub enum Packed {}

impl Form for Packed {
    const LENGTH: usize = 0;
    const COUNT: usize = 0;

    fn put_number(out: &mut Vec<u8>, number: u64, _: usize) {
        put_varint(out, number);
    }

    fn put_time(out: &mut Vec<u8>, time: i64) {
        put_signed(out, time);
    }
}

impl Readable for Packed {
    const EMPTY_NAMES: bool = true;

    fn number(from: &mut Bytes<'_>, _: usize) -> Read<u64> {
        from.varint()
    }

    fn time(from: &mut Bytes<'_>) -> Read<i64> {
        from.signed()
    }
}

/// The form of what enters the audit chain; lengths of texts lie in so many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chained<const LENGTH: usize> {}

impl<const LENGTH: usize> Form for Chained<LENGTH> {
    const LENGTH: usize = LENGTH;
    const COUNT: usize = 8;
}

/// How a type is put and taken: `field!(Type, Form: |it, out| put, |from| take)`.
macro_rules! field {
    ($type:ty, $form:ident: |$this:ident, $out:ident| $put:expr, |$from:ident| $take:expr) => {
        impl $crate::codec::Put for $type {
            fn put<$form: $crate::codec::Form>(&self, $out: &mut Vec<u8>) {
                let $this = self;
                $put
            }
        }

        impl $crate::codec::Take for $type {
            fn take<$form: $crate::codec::Readable>(
                $from: &mut $crate::codec::Bytes<'_>,
            ) -> $crate::codec::Read<$type> {
                $take
            }
        }
    };
}
pub(crate) use field;

/// A row of these fields, in this order. A field may name what it is held to when it is read: `count: not_too_many`.
macro_rules! row {
    ($row:ident { $($field:ident $(: $held_to:path)?),+ $(,)? }) => {
        $crate::codec::field!($row, F: |row, out| { $($crate::codec::Put::put::<F>(&row.$field, out);)+ }, |from| {
            $(
                let $field = $crate::codec::Take::take::<F>(from)?;
                $(let $field = $held_to($field)?;)?
            )+
            Ok($row { $($field),+ })
        });
    };
}
pub(crate) use row;

/// An enum whose members are numbers of one byte from 1 on; others are refused so. Where it may be absent, 0 stands for none.
macro_rules! byte {
    ($of:ident, $field:literal $why:literal) => {
        impl $crate::codec::Put for $of {
            fn put<F: $crate::codec::Form>(&self, out: &mut Vec<u8>) {
                out.push(self.number());
            }

            fn put_if<F: $crate::codec::Form>(it: Option<&$of>, out: &mut Vec<u8>) {
                out.push(it.map_or(0, |one| one.number()));
            }
        }

        impl $crate::codec::Take for $of {
            fn take<F: $crate::codec::Readable>(
                from: &mut $crate::codec::Bytes<'_>,
            ) -> $crate::codec::Read<$of> {
                Self::take_if::<F>(from)?.ok_or($crate::codec::Bad::new($field, $why))
            }

            fn take_if<F: $crate::codec::Readable>(
                from: &mut $crate::codec::Bytes<'_>,
            ) -> $crate::codec::Read<Option<$of>> {
                match from.array()? {
                    [0] => Ok(None),
                    [number] => {
                        $of::from_number(number).map(Some).ok_or($crate::codec::Bad::new($field, $why))
                    }
                }
            }
        }
    };
}
pub(crate) use byte;

/// Types that wrap a number of fixed length, little-endian in every form.
macro_rules! raw {
    ($($type:ident of $number:ty),+ $(,)?) => {
        $(
            field!($type, F: |it, out| out.extend_from_slice(&it.0.to_le_bytes()), |from| {
                from.array().map(|bytes| $type(<$number>::from_le_bytes(bytes)))
            });
        )+
    };
}

raw! {
    TransferId of u128, Fingerprint of u128, TransferNo of u64, ParticipantId of u32, AccountId of u32,
    Balance of i128,
}

impl Put for Amount {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    /// An amount has its place also where there is none.
    fn put_if<F: Form>(it: Option<&Amount>, out: &mut Vec<u8>) {
        (it.is_some(), it.unwrap_or(&Amount::ZERO)).put::<F>(out);
    }
}

impl Take for Amount {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Amount> {
        from.array().map(|bytes| Amount(i64::from_le_bytes(bytes)))
    }

    fn take_if<F: Readable>(from: &mut Bytes<'_>) -> Read<Option<Amount>> {
        let (there, amount) = <(bool, Amount)>::take::<F>(from)?;
        Ok(there.then_some(amount))
    }
}

/// The bytes of a small number, where they are fixed.
const SMALL: usize = 4;

field!(u64, F: |number, out| F::put_number(out, *number, size_of::<u64>()), |from| {
    F::number(from, size_of::<u64>())
});
field!(u32, F: |number, out| F::put_number(out, u64::from(*number), SMALL), |from| {
    u32::try_from(F::number(from, SMALL)?).map_err(|_| Bad::new("number", "is too large"))
});
field!(u16, F: |number, out| out.extend_from_slice(&number.to_le_bytes()), |from| {
    from.array().map(u16::from_le_bytes)
});
field!(u128, F: |number, out| out.extend_from_slice(&number.to_le_bytes()), |from| {
    from.array().map(u128::from_le_bytes)
});
field!(i64, F: |time, out| F::put_time(out, *time), |from| F::time(from));
field!(bool, F: |there, out| out.push(u8::from(*there)), |from| match from.array()? {
    [byte @ (0 | 1)] => Ok(byte == 1),
    _ => Err(Bad::new("presence", "is neither 0 nor 1")),
});
field!(Name, F: |name, out| (**name).put::<F>(out), |from| name::<F>(from).map(Name::from));
field!(TokenId, F: |id, out| id.as_str().put::<F>(out), |from| name::<F>(from).map(TokenId::from));
field!(Currency, F: |currency, out| {
    out.extend_from_slice(&currency.letters());
    out.extend_from_slice(if F::PADDED_CURRENCIES { &[0] } else { &[] });
}, |from| {
    let currency = Currency::from_letters(from.array()?);
    if F::PADDED_CURRENCIES {
        let is_padded = from.array()? == [0];
        const WRONG: Bad = Bad::new("currency", "is not three capital letters followed by a zero byte");
        return currency.filter(|_| is_padded).ok_or(WRONG);
    }
    currency.ok_or(Bad::new("currency", "is not of three capital letters"))
});

/// Attributes, by name.
type Attributes = BTreeMap<String, String>;

field!(Attributes, F: |attributes, out| {
    put_count::<F>(out, attributes.len());
    attributes.iter().for_each(|(name, value)| (name.as_str(), value.as_str()).put::<F>(out));
}, |from| {
    let pairs = from.list::<F, _>(|from| Ok((from.text::<F>()?.to_owned(), from.text::<F>()?.to_owned())))?;
    let rising = pairs.windows(2).all(|pair| pair[0].0 < pair[1].0);
    rising.then(|| pairs.into_iter().collect()).ok_or(Bad::new("attributes", "are not in their order"))
});

fn name<'a, F: Readable>(from: &mut Bytes<'a>) -> Read<&'a str> {
    let text = from.text::<F>()?;
    if text.is_empty() && !F::EMPTY_NAMES { Err(Bad::new("name", "is empty")) } else { Ok(text) }
}

/// Several fields, one after another.
macro_rules! fields {
    ($($name:ident)+) => {
        impl<$($name: Put),+> Put for ($($name,)+) {
            #[allow(non_snake_case, reason = "a field is named as its type")]
            fn put<Form_: Form>(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.put::<Form_>(out);)+
            }
        }
    };
}

fields!(A B);
fields!(A B C);
fields!(A B C D);
fields!(A B C D E);
fields!(A B C D E G);

impl<A: Take, B: Take> Take for (A, B) {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<(A, B)> {
        Ok((A::take::<F>(from)?, B::take::<F>(from)?))
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        (**self).put::<F>(out);
    }

    fn put_if<F: Form>(it: Option<&&T>, out: &mut Vec<u8>) {
        T::put_if::<F>(it.copied(), out);
    }
}

impl Put for str {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        F::put_number(out, self.len() as u64, F::LENGTH);
        out.extend_from_slice(self.as_bytes());
    }
}

impl<T: Put> Put for [T] {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        put_count::<F>(out, self.len());
        self.iter().for_each(|item| item.put::<F>(out));
    }
}

impl<T: Put> Put for Vec<T> {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        self.as_slice().put::<F>(out);
    }
}

impl<T: Take> Take for Vec<T> {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Vec<T>> {
        from.list::<F, T>(T::take::<F>)
    }
}

impl<T: Put> Put for Arc<[T]> {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        (**self).put::<F>(out);
    }
}

impl<T: Take> Take for Arc<[T]> {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Arc<[T]>> {
        Vec::take::<F>(from).map(Into::into)
    }
}

impl<const N: usize> Put for [u8; N] {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Take for [u8; N] {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<[u8; N]> {
        from.array()
    }
}

impl<T: Put> Put for Option<T> {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        T::put_if::<F>(self.as_ref(), out);
    }
}

impl<T: Take> Take for Option<T> {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<Option<T>> {
        T::take_if::<F>(from)
    }
}
