//! What was spent, consumed and paid, for ever: spends found by their spender, consumed tokens by their id, paid orders by
//! theirs.
//!
//! All are texts that clients choose, so the archive knows them by keyed hashes of 128 bits: the first 16 bytes of BLAKE3,
//! keyed with the log's id twice over, of a byte `T` and the token's id, or `S` and the spender, or `O`, the number of the
//! order's life in four bytes and its id. A collision would make a
//! token pass for a consumed one; nobody can aim at it without the key, and with the key it takes 2^64 tries.
//!
//! A record is at most as long as a block, and a spend may have thousands of tokens. A longer one is cut in pieces; the
//! last is written first, so that each can tell the place of the one after it.
//!
//! | first byte | record |
//! | --- | --- |
//! | 0, 16, 32 | whole |
//! | 1, 17, 33 | the first piece: the place of the next (8 bytes), bytes |
//! | 2 | the last piece: bytes |
//! | 3 | a piece between them, as the first |
//!
//! With 16 it is a spend, with 32 a paid order, else the id of a token that was consumed without a spend.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_disk::LogId;
use holdfast_domain::codec::{self, Packed, Put};
use holdfast_domain::shop::{OrderId, OrderRow};
use holdfast_domain::tokens::{Name, SpendRow, TokenId};

use crate::StoreError;
use crate::archive::{Archive, Which};
use crate::blocks::RECORD_MAX;
use crate::folder::StoreFolder;
use crate::token_rows;

const WHOLE: u8 = 0;
const FIRST: u8 = 1;
const LAST: u8 = 2;
const BETWEEN: u8 = 3;
const SPEND: u8 = 16;
const ORDER: u8 = 32;
/// The first byte and the place of the next piece.
const PIECE_HEADER: usize = 9;

/// Gives token ids and spenders their ids in the archive.
#[derive(Clone, Copy)]
pub(super) struct SpentIds {
    key: [u8; 32],
}

impl SpentIds {
    pub(super) fn of(log_id: LogId) -> SpentIds {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&log_id.0);
        key[16..].copy_from_slice(&log_id.0);
        SpentIds { key }
    }

    fn hash(&self, tag: &[u8], text: &str) -> u128 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(tag).update(text.as_bytes());
        u128::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("32 bytes"))
    }

    pub(super) fn token(&self, id: &TokenId) -> u128 {
        self.hash(b"T", id.as_str())
    }

    pub(super) fn spender(&self, spender: &str) -> u128 {
        self.hash(b"S", spender)
    }

    pub(super) fn order(&self, order: &str, life: u32) -> u128 {
        let [a, b, c, d] = life.to_le_bytes();
        self.hash(&[b'O', a, b, c, d], order)
    }
}

/// A record of the archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    Consumed(TokenId),
    Spend(SpendRow),
    Order(Box<OrderRow>),
    /// A piece of a spend or an order that begins elsewhere.
    Piece,
}

impl Record {
    /// The record of all these bytes, if they are one of that kind.
    fn of(what: u8, bytes: &[u8]) -> Option<Record> {
        match what {
            SPEND => token_rows::read_spend(bytes).map(Record::Spend),
            ORDER => codec::read::<Packed, OrderRow>(bytes).ok().map(|row| Record::Order(Box::new(row))),
            0 => std::str::from_utf8(bytes).ok().map(|id| Record::Consumed(id.into())),
            _ => None,
        }
    }
}

/// What the frame at hand knows of the past, and what it adds to it.
pub(super) struct Spent {
    pub(super) ids: SpentIds,
    /// Consumed tokens that the frame names or has consumed, by their ids in the archive.
    consumed: BTreeSet<u128>,
    /// Spends whose spender the frame names, or that it made.
    pub(super) spends: BTreeMap<Name, Arc<SpendRow>>,
    /// Paid orders that the frame names, or that it paid.
    pub(super) orders: HashMap<OrderId, OrderRow, foldhash::fast::RandomState>,
    /// Orders that it has paid, in order.
    new_orders: Vec<OrderRow>,
    /// Tokens that it has consumed, in order.
    new_consumed: Vec<(u128, TokenId)>,
    /// Spends that it has made, in order.
    new_spends: Vec<Arc<SpendRow>>,
    /// Tokens that are still to be looked for on the disk, with their hashes.
    asked_tokens: Vec<(u64, u128)>,
    /// Spends and paid orders likewise.
    asked_records: Vec<(u64, u128)>,
    scratch: Vec<u8>,
}

impl Spent {
    pub(super) fn new(log_id: LogId) -> Spent {
        Spent {
            ids: SpentIds::of(log_id),
            consumed: BTreeSet::new(),
            spends: BTreeMap::new(),
            orders: HashMap::default(),
            new_orders: Vec::new(),
            new_consumed: Vec::new(),
            new_spends: Vec::new(),
            asked_tokens: Vec::new(),
            asked_records: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn is_consumed(&self, id: &TokenId) -> bool {
        !self.consumed.is_empty() && self.consumed.contains(&self.ids.token(id))
    }

    /// The frame has paid an order.
    pub(super) fn pay(&mut self, row: OrderRow) {
        self.orders.insert(row.order.order_id.clone(), row.clone());
        self.new_orders.push(row);
    }

    /// Notes an order that the frame names and that is not in memory.
    pub(super) fn ask_order(&mut self, archive: &Archive, order: &str, life: u32) -> Result<(), StoreError> {
        self.ask(archive, self.ids.order(order, life))
    }

    /// The frame consumes a token. A token that is known to be consumed stays so.
    pub(super) fn consume(&mut self, id: &TokenId) {
        let hash = self.ids.token(id);
        if self.consumed.insert(hash) {
            self.new_consumed.push((hash, id.clone()));
        }
    }

    /// The frame has made a spend.
    pub(super) fn remember(&mut self, row: &Arc<SpendRow>) {
        let before = self.spends.insert(row.transaction.spender.clone(), Arc::clone(row));
        assert!(before.is_none(), "{} has spent already", row.transaction.spender);
        self.new_spends.push(Arc::clone(row));
    }

    /// Notes a token that the frame names and that does not live.
    pub(super) fn ask_token(&mut self, archive: &Archive, id: &TokenId) {
        let id = self.ids.token(id);
        let hash = archive.hash(id);
        match archive.unsealed(hash, id) {
            Some(_) => drop(self.consumed.insert(id)),
            None => self.asked_tokens.push((hash, id)),
        }
    }

    /// Notes a spender that the frame names.
    pub(super) fn ask_spender(&mut self, archive: &Archive, spender: &str) -> Result<(), StoreError> {
        if self.spends.contains_key(spender) {
            return Ok(());
        }
        self.ask(archive, self.ids.spender(spender))
    }

    fn ask(&mut self, archive: &Archive, id: u128) -> Result<(), StoreError> {
        let hash = archive.hash(id);
        match archive.unsealed(hash, id) {
            Some(at) => self.bring_record(archive, id, at)?,
            None => self.asked_records.push((hash, id)),
        }
        Ok(())
    }

    /// Brings in what is on the disk of all that was noted.
    pub(super) fn bring(&mut self, archive: &Archive) -> Result<(), StoreError> {
        let (tokens, records) = (archive.sealed(&self.asked_tokens), archive.sealed(&self.asked_records));
        self.asked_tokens.clear();
        self.asked_records.clear();
        // That a token's id is in the index is all there is to know.
        self.consumed.extend(tokens?.into_iter().map(|(id, _)| id));
        records?.into_iter().try_for_each(|(id, at)| self.bring_record(archive, id, at))
    }

    /// Brings in the spend or the order of that id.
    fn bring_record(&mut self, archive: &Archive, id: u128, at: u64) -> Result<(), StoreError> {
        match read(&archive.place, at, |at, out| archive.records.read_into(at, out))? {
            Record::Spend(row) if self.ids.spender(&row.transaction.spender) == id => {
                self.spends.insert(row.transaction.spender.clone(), Arc::new(row));
            }
            Record::Order(row) if self.ids.order(row.order.order_id.as_str(), row.life) == id => {
                self.orders.insert(row.order.order_id.clone(), *row);
            }
            _ => return Err(damaged(&archive.place, at, "the index says that another record stands there")),
        }
        Ok(())
    }

    /// The frame is done: what it spent and consumed goes to the archive.
    pub(super) fn settle(&mut self, archive: &mut Archive) {
        self.consumed.clear();
        self.spends.clear();
        self.orders.clear();
        if self.new_consumed.is_empty() && self.new_spends.is_empty() && self.new_orders.is_empty() {
            return;
        }
        let mut places = HashMap::with_capacity(self.new_consumed.len());
        let mut bytes = std::mem::take(&mut self.scratch);
        for row in self.new_spends.drain(..) {
            bytes.clear();
            token_rows::write_spend(&row, &mut bytes);
            let at = append(archive, SPEND, &bytes);
            archive.index(self.ids.spender(&row.transaction.spender), at);
            places.extend(row.transaction.consumed.iter().map(|id| (self.ids.token(id), at)));
        }
        for (hash, id) in self.new_consumed.drain(..) {
            let at = places.get(&hash).copied();
            let at = at.unwrap_or_else(|| append(archive, 0, id.as_str().as_bytes()));
            archive.index(hash, at);
        }
        for row in self.new_orders.drain(..) {
            bytes.clear();
            row.put::<Packed>(&mut bytes);
            let at = append(archive, ORDER, &bytes);
            archive.index(self.ids.order(row.order.order_id.as_str(), row.life), at);
        }
        bytes.clear();
        self.scratch = bytes;
        archive.records.publish();
    }
}

/// The ids under which a record is found.
pub(super) fn ids_of(log_id: LogId, record: &Record) -> Vec<u128> {
    let ids = SpentIds::of(log_id);
    match record {
        Record::Consumed(id) => vec![ids.token(id)],
        Record::Spend(row) => {
            let consumed = row.transaction.consumed.iter().map(|id| ids.token(id));
            consumed.chain([ids.spender(&row.transaction.spender)]).collect()
        }
        Record::Order(row) => vec![ids.order(row.order.order_id.as_str(), row.life)],
        Record::Piece => Vec::new(),
    }
}

/// A record in words.
pub(super) fn describe(bytes: &[u8]) -> String {
    let whole = bytes.split_first().filter(|(first, _)| **first & !(SPEND | ORDER) == WHOLE);
    let Some((what, record)) = whole else { return format!("a piece of {} bytes", bytes.len()) };
    match Record::of(*what, record) {
        Some(Record::Consumed(id)) => format!("consumed token {id}"),
        Some(Record::Spend(row)) => format!("the spend of {}", row.transaction.spender),
        Some(Record::Order(row)) => format!("order {}", row.order.order_id),
        _ => "no record".to_owned(),
    }
}

/// Adds a record, in pieces if it must be; tells the place of the first.
fn append(archive: &mut Archive, what: u8, bytes: &[u8]) -> u64 {
    if bytes.len() < RECORD_MAX {
        return archive.records.append(&[&[what | WHOLE], bytes].concat());
    }
    let mut pieces = bytes.chunks(RECORD_MAX - PIECE_HEADER).rev();
    let last = pieces.next().expect("longer than one record");
    let mut next = archive.records.append(&[&[LAST], last].concat());
    let left = pieces.len();
    for (piece, before) in pieces.zip((0..left).rev()) {
        let first = if before == 0 { what | FIRST } else { BETWEEN };
        next = archive.records.append(&[&[first], &next.to_le_bytes()[..], piece].concat());
    }
    next
}

/// The record at that place; `read_into` reads one by its place.
pub(super) fn read(
    place: &StoreFolder,
    at: u64,
    read_into: impl Fn(u64, &mut Vec<u8>) -> Result<bool, StoreError>,
) -> Result<Record, StoreError> {
    let mut first = Vec::new();
    read_into(at, &mut first)?;
    read_from(place, at, first, read_into)
}

/// The record of which these are the bytes at its place.
pub(super) fn read_from(
    place: &StoreFolder,
    at: u64,
    first: Vec<u8>,
    read_into: impl Fn(u64, &mut Vec<u8>) -> Result<bool, StoreError>,
) -> Result<Record, StoreError> {
    let none = |at: u64| damaged(place, at, "no spend, no consumed token and no paid order stands there");
    let take = |at: u64| {
        let mut bytes = Vec::new();
        let there = read_into(at, &mut bytes)?;
        if there && !bytes.is_empty() { Ok(bytes) } else { Err(none(at)) }
    };
    let mut piece = first;
    let what = piece.first().ok_or_else(|| none(at))? & (SPEND | ORDER);
    let (mut whole, mut here) = (Vec::new(), at);
    match piece[0] & !(SPEND | ORDER) {
        WHOLE => {}
        FIRST => {
            while piece[0] != LAST {
                let next = piece.get(1..).and_then(<[u8]>::first_chunk).map(|next| u64::from_le_bytes(*next));
                // A piece was written before the one that tells its place.
                let next = next.filter(|next| *next < here).ok_or_else(|| none(here))?;
                whole.extend_from_slice(&piece[PIECE_HEADER..]);
                (piece, here) = (take(next)?, next);
                if !matches!(piece[0], LAST | BETWEEN) {
                    return Err(none(here));
                }
            }
        }
        LAST | BETWEEN if what == 0 => return Ok(Record::Piece),
        _ => return Err(none(at)),
    }
    whole.extend_from_slice(&piece[1..]);
    Record::of(what, &whole).ok_or_else(|| none(at))
}

pub(super) fn damaged(place: &StoreFolder, at: u64, found: &str) -> StoreError {
    Which::Spent.damaged(place, at, found)
}
