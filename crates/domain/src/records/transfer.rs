//! Prepare, fulfil, abort, expire and lookup on the wire.

use sha2::{Digest, Sha256};

use super::codec::{Writer, length, tail, take, zeros};
use super::{Kind, PREPARE_HASH};
use crate::codec::{Bad, Bytes, Read};
use crate::command::{Abort, Fulfil, FulfilAction, Prepare};
use crate::ids::{ParticipantId, TransferId};

pub(super) const FLAG_RESERVE: u8 = 1;
/// The tail of a prepare begins with the tokens that pay for it, behind their length of four bytes.
pub(super) const FLAG_FUNDED: u8 = 1;
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

pub(super) fn read_prepare(flags: u8, source: ParticipantId, from: &mut Bytes<'_>) -> Read<Prepare> {
    let id = take(from)?;
    let (payer, payee) = take(from)?;
    let (amount, expiration) = take(from)?;
    if !(0..=EXPIRATION_MAX).contains(&expiration) {
        return Err(Bad::new("expiration", "is not between the years 1970 and 9999"));
    }
    let currency = take(from)?;
    zeros(from, 4)?;
    let tail_length = take(from)?;
    zeros(from, 4)?;
    let (condition, hash) = take(from)?;
    let tail = tail(from, tail_length)?;
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
fn split_funding(tail: &[u8]) -> Read<(&[u8], &[u8])> {
    let (length, rest) = tail.split_first_chunk().ok_or(Bad::new("funding", "is not there"))?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or(Bad::new("funding", "is longer than the tail"))
}

pub(super) fn write_prepare(prepare: &Prepare, out: &mut Vec<u8>) {
    let mut funding = Vec::new();
    if let Some(block) = prepare.funding.as_deref().map(super::tokens::funding_block) {
        funding.extend_from_slice(&length(block.len()).to_le_bytes());
        funding.extend_from_slice(&block);
    }
    let flags = if prepare.funding.is_some() { FLAG_FUNDED } else { 0 };
    Writer::new(out, Kind::Prepare, flags, prepare.source)
        .put((prepare.id, prepare.payer, prepare.payee, prepare.amount, prepare.expiration))
        .put((prepare.currency, [0; 4], length(funding.len() + prepare.tail.len()), [0; 4]))
        .put((prepare.condition, prepare.hash))
        .bytes(&funding)
        .bytes(&prepare.tail)
        .finish();
}

/// The hash of this prepare with the digests of its ILP packet and extensions; zeros where there is none.
pub(crate) fn hash_of(prepare: &Prepare, ilp_packet: &[u8; 32], extensions: &[u8; 32]) -> [u8; 32] {
    let mut record = Vec::with_capacity(PREPARE_HASH.end);
    write_prepare(&Prepare { tail: Vec::new(), funding: None, ..prepare.clone() }, &mut record);
    payload_hash(&record, ilp_packet, extensions)
}

pub(super) fn read_fulfil(flags: u8, source: ParticipantId, from: &mut Bytes<'_>) -> Read<Fulfil> {
    let action = if flags & FLAG_RESERVE == 0 { FulfilAction::Commit } else { FulfilAction::Reserve };
    let (id, fulfilment) = take(from)?;
    let tail_length = take(from)?;
    zeros(from, 4)?;
    let tail = tail(from, tail_length)?.to_vec();
    Ok(Fulfil::new(source, id, action, fulfilment).with_tail(tail))
}

pub(super) fn write_fulfil(fulfil: &Fulfil, out: &mut Vec<u8>) {
    let flags = match fulfil.action {
        FulfilAction::Commit => 0,
        FulfilAction::Reserve => FLAG_RESERVE,
    };
    Writer::new(out, Kind::Fulfil, flags, fulfil.source)
        .put((fulfil.id, fulfil.fulfilment, length(fulfil.tail.len())))
        .pad_to(1)
        .bytes(&fulfil.tail)
        .finish();
}

pub(super) fn read_abort(source: ParticipantId, from: &mut Bytes<'_>) -> Read<Abort> {
    let (id, code): (TransferId, u16) = take(from)?;
    if !(1000..=9999).contains(&code) {
        return Err(Bad::new("error code", "is not of four digits"));
    }
    zeros(from, 2)?;
    let (tail_length, digest): (u32, [u8; 32]) = take(from)?;
    let abort = Abort::new(source, id, code, tail(from, tail_length)?.to_vec());
    // An edge that knows which part of the tail matters has written its own digest.
    Ok(if digest == [0; 32] { abort } else { abort.same_as(digest) })
}

pub(super) fn write_abort(abort: &Abort, out: &mut Vec<u8>) {
    let derived = Abort::new(abort.source, abort.id, abort.code, abort.tail.clone()).digest;
    let own_digest = if abort.digest == derived { [0; 32] } else { abort.digest };
    Writer::new(out, Kind::Abort, 0, abort.source)
        .put((abort.id, abort.code, [0; 2], length(abort.tail.len()), own_digest))
        .bytes(&abort.tail)
        .finish();
}
