//! The parts of a checkpoint and their bytes.

use holdfast_domain::codec::{Bytes, Packed, Plain, Put, Take, put_count, read};
use holdfast_domain::command::SetEndpoint;
use holdfast_domain::ids::TransferNo;
use holdfast_domain::participants::{Account, FundsMovement, Participant};
use holdfast_domain::shop::{Charging, CheckoutRow, ItemRow, KeyRow, OrderId, OrderRow, Sides, UserRow};
use holdfast_domain::tokens::LockRow;
use holdfast_domain::transfers::Transfer;

use crate::archive::Which;
use crate::blocks::End;
use crate::row;
use crate::runs::RunName;
use crate::token_rows::{self, StoredToken};

/// One thing that a checkpoint holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// How far the log was taken in, in the words of whoever drives the store.
    Progress(Vec<u8>),
    Participant(Participant),
    Account(Account),
    Funds(FundsMovement),
    Endpoint(SetEndpoint),
    /// The number of the next transfer; comes before the open ones.
    Next(TransferNo),
    /// A transfer that has not ended.
    Open(Transfer),
    /// A lock; comes before the tokens that it holds.
    Lock(LockRow),
    /// How many tokens live; comes before them.
    TokenCount(u64),
    /// A live token.
    Token(StoredToken),
    /// A user of the shop.
    User(UserRow),
    /// An item of the shop.
    Item(ItemRow),
    /// An order that is not paid.
    Order(Box<OrderRow>),
    /// The newest life of an order's id.
    Life(OrderId, u32),
    /// An open checkout.
    Checkout(CheckoutRow),
    /// An idempotency key.
    Key(KeyRow),
    /// The sides of checkouts that are outside.
    Outside(Sides),
    /// What the payment side of checkouts charges, if it is not credit.
    Charging(Charging),
    /// A run of an archive's ids, oldest first.
    Run(Which, RunName),
    /// The name that the next run of the archive gets.
    NextRun(Which, RunName),
    /// Where the records of the archive end.
    Records(Which, End),
    /// Where the callbacks end.
    Callbacks(End),
}

/// Tags as written. A tag never changes its meaning.
impl Part {
    pub(super) const OPEN: u32 = 7;
    pub(super) const LOCK: u32 = 15;
    pub(super) const TOKEN: u32 = 16;
    pub(super) const USER: u32 = 18;
    pub(super) const ITEM: u32 = 19;
    pub(super) const ORDER: u32 = 20;
    pub(super) const END: u32 = 0xFFFF_FFFF;

    pub(crate) const fn tag(&self) -> u32 {
        match self {
            Part::Progress(_) => 1,
            Part::Participant(_) => 2,
            Part::Account(_) => 3,
            Part::Funds(_) => 4,
            Part::Endpoint(_) => 5,
            Part::Next(_) => 6,
            Part::Open(_) => Part::OPEN,
            Part::Run(Which::Ended, _) => 8,
            Part::NextRun(Which::Ended, _) => 9,
            Part::Records(Which::Ended, _) => 10,
            Part::Callbacks(_) => 11,
            Part::Run(Which::Spent, _) => 12,
            Part::NextRun(Which::Spent, _) => 13,
            Part::Records(Which::Spent, _) => 14,
            Part::Lock(_) => Part::LOCK,
            Part::Token(_) => Part::TOKEN,
            Part::TokenCount(_) => 17,
            Part::User(_) => Part::USER,
            Part::Item(_) => Part::ITEM,
            Part::Order(_) => Part::ORDER,
            Part::Life(..) => 21,
            Part::Checkout(_) => 22,
            Part::Key(_) => 23,
            Part::Outside(_) => 24,
            Part::Charging(_) => 25,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Part::Progress(bytes) => out.extend_from_slice(bytes),
            Part::Participant(participant) => participant.put::<Plain>(out),
            Part::Account(account) => account.put::<Plain>(out),
            Part::Funds(movement) => movement.put::<Plain>(out),
            Part::Endpoint(endpoint) => {
                endpoint.participant().put::<Plain>(out);
                put_count::<Plain>(out, endpoint.kind().len());
                out.extend_from_slice(endpoint.kind().as_bytes());
                out.extend_from_slice(endpoint.value().as_bytes());
            }
            Part::Next(no) => no.put::<Plain>(out),
            Part::TokenCount(count) => count.put::<Plain>(out),
            Part::Open(transfer) => row::write(transfer, out),
            Part::Lock(row) => token_rows::write_lock(row, out),
            Part::User(row) => row.put::<Packed>(out),
            Part::Item(row) => row.put::<Packed>(out),
            Part::Order(row) => row.put::<Packed>(out),
            Part::Life(order, life) => (order, life).put::<Packed>(out),
            Part::Checkout(row) => row.put::<Packed>(out),
            Part::Key(row) => row.put::<Packed>(out),
            Part::Outside(sides) => sides.put::<Packed>(out),
            Part::Charging(charging) => charging.put::<Packed>(out),
            Part::Token(StoredToken { id, quantity, holder, kind }) => {
                token_rows::write_stored(id.as_str(), *quantity, holder.as_deref(), kind, out);
            }
            Part::Run(_, name) | Part::NextRun(_, name) => name.0.put::<Plain>(out),
            Part::Records(_, end) | Part::Callbacks(end) => {
                end.position.put::<Plain>(out);
                out.extend_from_slice(&end.tail);
            }
        }
    }

    /// The part of that tag and these bytes; `None` if they are not one.
    pub(super) fn read(tag: u32, bytes: &[u8]) -> Option<Part> {
        let from = &mut Bytes(bytes);
        let part = match tag {
            1 => Part::Progress(rest(from).to_vec()),
            2 => Part::Participant(plain(from)?),
            3 => Part::Account(plain(from)?),
            4 => Part::Funds(plain(from)?),
            5 => {
                let (participant, kind): (_, u32) = plain(from)?;
                let kind = std::str::from_utf8(from.bytes(kind as usize).ok()?).ok()?.to_owned();
                let value = from.rest_as_text().ok()?.to_owned();
                Part::Endpoint(SetEndpoint::new(participant, kind, value)?)
            }
            6 => Part::Next(plain(from)?),
            Part::OPEN => Part::Open(row::read(rest(from))?),
            8 => Part::Run(Which::Ended, RunName(plain(from)?)),
            9 => Part::NextRun(Which::Ended, RunName(plain(from)?)),
            10 => Part::Records(Which::Ended, read_end(from)?),
            11 => Part::Callbacks(read_end(from)?),
            12 => Part::Run(Which::Spent, RunName(plain(from)?)),
            13 => Part::NextRun(Which::Spent, RunName(plain(from)?)),
            14 => Part::Records(Which::Spent, read_end(from)?),
            Part::LOCK => Part::Lock(token_rows::read_lock(rest(from))?),
            17 => Part::TokenCount(plain(from)?),
            Part::TOKEN => Part::Token(token_rows::read_token(rest(from))?),
            Part::USER => Part::User(packed(rest(from))?),
            Part::ITEM => Part::Item(packed(rest(from))?),
            Part::ORDER => Part::Order(Box::new(packed(rest(from))?)),
            21 => {
                let (order, life) = packed(rest(from))?;
                Part::Life(order, life)
            }
            22 => Part::Checkout(packed(rest(from))?),
            23 => Part::Key(packed(rest(from))?),
            24 => Part::Outside(packed(rest(from))?),
            25 => Part::Charging(packed(rest(from))?),
            _ => return None,
        };
        from.end().is_ok().then_some(part)
    }
}

fn read_end(from: &mut Bytes<'_>) -> Option<End> {
    Some(End { position: plain(from)?, tail: rest(from).to_vec() })
}

fn packed<T: Take>(bytes: &[u8]) -> Option<T> {
    read::<Packed, T>(bytes).ok()
}

fn plain<T: Take>(from: &mut Bytes<'_>) -> Option<T> {
    T::take::<Plain>(from).ok()
}

fn rest<'a>(from: &mut Bytes<'a>) -> &'a [u8] {
    std::mem::take(&mut from.0)
}
