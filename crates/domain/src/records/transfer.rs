//! Prepare, fulfil, abort, expire and lookup on the wire.

use sha2::{Digest, Sha256};

use super::codec::{Cursor, Writer, bad, from_hub, only_flags};
use super::{Kind, PREPARE_HASH, RecordError};
use crate::command::{Abort, Expire, Fulfil, FulfilAction, Lookup, Prepare};
use crate::ids::{ParticipantId, TransferId};

const FLAG_RESERVE: u8 = 1;
/// The tail of a prepare begins with the tokens that pay for it, behind their length of four bytes.
const FLAG_FUNDED: u8 = 1;
/// The last millisecond of the year 9999: later times cannot be written in four digits.
const EXPIRATION_MAX: i64 = 253_402_300_799_999;

/// The fields of a prepare that a repeat must have in common with the first: id, parties, amount, expiration,
/// currency and condition as they lie in the record, without header and tail.
const HASHED_FIELDS: std::ops::Range<usize> = 8..52;
const CONDITION: std::ops::Range<usize> = 64..96;

/// SHA-256 over what makes a prepare the same request, and the digests of ILP packet and extensions.
pub(super) fn payload_hash(record: &[u8], ilp_packet: &[u8; 32], extensions: &[u8; 32]) -> [u8; 32] {
    let mut input = [0; 140];
    input[..44].copy_from_slice(&record[HASHED_FIELDS]);
    input[44..76].copy_from_slice(&record[CONDITION]);
    input[76..108].copy_from_slice(ilp_packet);
    input[108..].copy_from_slice(extensions);
    Sha256::digest(input).into()
}

pub(super) fn read_prepare(cursor: &mut Cursor<'_>) -> Result<Prepare, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, FLAG_FUNDED)?;
    let id = TransferId(cursor.u128());
    let payer = ParticipantId(cursor.u32());
    let payee = ParticipantId(cursor.u32());
    let amount = cursor.amount();
    let expiration = cursor.i64();
    if !(0..=EXPIRATION_MAX).contains(&expiration) {
        return Err(bad("expiration", "is not between the years 1970 and 9999"));
    }
    let currency = cursor.currency()?;
    cursor.zeros(4)?;
    let tail_length = cursor.u32();
    cursor.zeros(4)?;
    let condition = cursor.array();
    let hash = cursor.array();
    let tail = cursor.tail(tail_length)?;
    let (funding, tail) = if flags & FLAG_FUNDED == 0 {
        (None, tail)
    } else {
        let (block, rest) = split_funding(tail)?;
        (Some(Box::new(super::tokens::read_funding(id, block)?)), rest)
    };
    let tail = tail.to_vec();
    Ok(Prepare { source, id, payer, payee, amount, expiration, currency, condition, hash, tail, funding })
}

/// The funding at the beginning of a tail, and what is handed on.
fn split_funding(tail: &[u8]) -> Result<(&[u8], &[u8]), RecordError> {
    let (length, rest) = tail.split_first_chunk().ok_or_else(|| bad("funding", "is not there"))?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or_else(|| bad("funding", "is longer than the tail"))
}

pub(super) fn write_prepare(prepare: &Prepare, out: &mut Vec<u8>) {
    const BOUNDED: &str = "the edge bounds what a record may carry";
    let mut funding = Vec::new();
    if let Some(block) = prepare.funding.as_deref().map(super::tokens::funding_block) {
        funding.extend_from_slice(&u32::try_from(block.len()).expect(BOUNDED).to_le_bytes());
        funding.extend_from_slice(&block);
    }
    let flags = if prepare.funding.is_some() { FLAG_FUNDED } else { 0 };
    let tail_length = u32::try_from(funding.len() + prepare.tail.len()).expect(BOUNDED);
    Writer::new(out, Kind::Prepare, flags, prepare.source)
        .put(&prepare.id.0.to_le_bytes())
        .put(&prepare.payer.0.to_le_bytes())
        .put(&prepare.payee.0.to_le_bytes())
        .put(&prepare.amount.0.to_le_bytes())
        .put(&prepare.expiration.to_le_bytes())
        .currency(prepare.currency)
        .put(&[0; 4])
        .put(&tail_length.to_le_bytes())
        .put(&[0; 4])
        .put(&prepare.condition)
        .put(&prepare.hash)
        .put(&funding)
        .put(&prepare.tail)
        .finish();
}

/// The hash of this prepare with the digests of its ILP packet and extensions; zeros where there is none.
pub(crate) fn hash_of(prepare: &Prepare, ilp_packet: &[u8; 32], extensions: &[u8; 32]) -> [u8; 32] {
    let mut record = Vec::with_capacity(PREPARE_HASH.end);
    write_prepare(&Prepare { tail: Vec::new(), funding: None, ..prepare.clone() }, &mut record);
    payload_hash(&record, ilp_packet, extensions)
}

pub(super) fn read_fulfil(cursor: &mut Cursor<'_>) -> Result<Fulfil, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, FLAG_RESERVE)?;
    let action = if flags & FLAG_RESERVE == 0 { FulfilAction::Commit } else { FulfilAction::Reserve };
    let id = TransferId(cursor.u128());
    let fulfilment = cursor.array();
    let tail_length = cursor.u32();
    cursor.zeros(4)?;
    let tail = cursor.tail(tail_length)?.to_vec();
    Ok(Fulfil::new(source, id, action, fulfilment).with_tail(tail))
}

pub(super) fn write_fulfil(fulfil: &Fulfil, out: &mut Vec<u8>) {
    let flags = match fulfil.action {
        FulfilAction::Commit => 0,
        FulfilAction::Reserve => FLAG_RESERVE,
    };
    let tail_length = u32::try_from(fulfil.tail.len()).expect("the edge bounds what a record may carry");
    Writer::new(out, Kind::Fulfil, flags, fulfil.source)
        .put(&fulfil.id.0.to_le_bytes())
        .put(&fulfil.fulfilment)
        .put(&tail_length.to_le_bytes())
        .pad_to(1)
        .put(&fulfil.tail)
        .finish();
}

pub(super) fn read_abort(cursor: &mut Cursor<'_>) -> Result<Abort, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    let id = TransferId(cursor.u128());
    let code = cursor.u16();
    if !(1000..=9999).contains(&code) {
        return Err(bad("error code", "is not of four digits"));
    }
    cursor.zeros(2)?;
    let tail_length = cursor.u32();
    let digest: [u8; 32] = cursor.array();
    let tail = cursor.tail(tail_length)?.to_vec();
    let abort = Abort::new(source, id, code, tail);
    // An edge that knows which part of the tail matters has written its own digest.
    Ok(if digest == [0; 32] { abort } else { abort.same_as(digest) })
}

pub(super) fn write_abort(abort: &Abort, out: &mut Vec<u8>) {
    let tail_length = u32::try_from(abort.tail.len()).expect("the edge bounds what a record may carry");
    let derived = Abort::new(abort.source, abort.id, abort.code, abort.tail.clone()).digest;
    let own_digest = if abort.digest == derived { [0; 32] } else { abort.digest };
    Writer::new(out, Kind::Abort, 0, abort.source)
        .put(&abort.id.0.to_le_bytes())
        .put(&abort.code.to_le_bytes())
        .put(&[0; 2])
        .put(&tail_length.to_le_bytes())
        .put(&own_digest)
        .put(&abort.tail)
        .finish();
}

pub(super) fn read_expire(cursor: &mut Cursor<'_>) -> Result<Expire, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    from_hub(source)?;
    let holds_max = cursor.u32();
    cursor.zeros(52)?;
    Ok(Expire { holds_max })
}

pub(super) fn write_expire(expire: Expire, out: &mut Vec<u8>) {
    Writer::new(out, Kind::Expire, 0, crate::ids::HUB).put(&expire.holds_max.to_le_bytes()).finish();
}

pub(super) fn read_lookup(cursor: &mut Cursor<'_>) -> Result<Lookup, RecordError> {
    let (flags, source) = cursor.header();
    only_flags(flags, 0)?;
    let id = TransferId(cursor.u128());
    cursor.zeros(40)?;
    Ok(Lookup { source, id })
}

pub(super) fn write_lookup(lookup: Lookup, out: &mut Vec<u8>) {
    Writer::new(out, Kind::Lookup, 0, lookup.source).put(&lookup.id.0.to_le_bytes()).finish();
}
