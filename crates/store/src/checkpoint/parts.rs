//! The parts of a checkpoint and their bytes.

use holdfast_domain::codec::{Bytes, Form, Packed, Plain, Put, Read, Readable, Take, put_count, read};
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
#[derive(Debug)]
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

/// Tags as written; where there are two, one of each archive. A tag never changes its meaning.
pub(crate) mod tag {
    pub(crate) const PROGRESS: u32 = 1;
    pub(crate) const PARTICIPANT: u32 = 2;
    pub(crate) const ACCOUNT: u32 = 3;
    pub(crate) const FUNDS: u32 = 4;
    pub(crate) const ENDPOINT: u32 = 5;
    pub(crate) const NEXT: u32 = 6;
    pub(crate) const OPEN: u32 = 7;
    pub(crate) const RUN: [u32; 2] = [8, 12];
    pub(crate) const NEXT_RUN: [u32; 2] = [9, 13];
    pub(crate) const RECORDS: [u32; 2] = [10, 14];
    pub(crate) const CALLBACKS: u32 = 11;
    pub(crate) const LOCK: u32 = 15;
    pub(crate) const TOKEN: u32 = 16;
    pub(crate) const TOKEN_COUNT: u32 = 17;
    pub(crate) const USER: u32 = 18;
    pub(crate) const ITEM: u32 = 19;
    pub(crate) const ORDER: u32 = 20;
    pub(crate) const LIFE: u32 = 21;
    pub(crate) const CHECKOUT: u32 = 22;
    pub(crate) const KEY: u32 = 23;
    pub(crate) const OUTSIDE: u32 = 24;
    pub(crate) const CHARGING: u32 = 25;
    pub(crate) const END: u32 = 0xFFFF_FFFF;
}

impl Part {
    /// The part of that tag and these bytes; `None` if they are not one.
    pub(super) fn read(tag: u32, bytes: &[u8]) -> Option<Part> {
        let from = &mut Bytes(bytes);
        let part = match tag {
            tag::PROGRESS => Part::Progress(rest(from).to_vec()),
            tag::PARTICIPANT => Part::Participant(plain(from)?),
            tag::ACCOUNT => Part::Account(plain(from)?),
            tag::FUNDS => Part::Funds(plain(from)?),
            tag::ENDPOINT => {
                let (participant, kind): (_, u32) = plain(from)?;
                let kind = std::str::from_utf8(from.bytes(kind as usize).ok()?).ok()?.to_owned();
                let value = from.rest_as_text().ok()?.to_owned();
                Part::Endpoint(SetEndpoint::new(participant, kind, value)?)
            }
            tag::NEXT => Part::Next(plain(from)?),
            tag::OPEN => Part::Open(row::read(rest(from))?),
            tag::CALLBACKS => Part::Callbacks(plain(from)?),
            tag::LOCK => Part::Lock(token_rows::read_lock(rest(from))?),
            tag::TOKEN_COUNT => Part::TokenCount(plain(from)?),
            tag::TOKEN => Part::Token(token_rows::read_token(rest(from))?),
            tag::USER => Part::User(packed(rest(from))?),
            tag::ITEM => Part::Item(packed(rest(from))?),
            tag::ORDER => Part::Order(Box::new(packed(rest(from))?)),
            tag::LIFE => {
                let (order, life) = packed(rest(from))?;
                Part::Life(order, life)
            }
            tag::CHECKOUT => Part::Checkout(packed(rest(from))?),
            tag::KEY => Part::Key(packed(rest(from))?),
            tag::OUTSIDE => Part::Outside(packed(rest(from))?),
            tag::CHARGING => Part::Charging(packed(rest(from))?),
            _ => Part::of_archive(tag, from)?,
        };
        from.end().is_ok().then_some(part)
    }

    fn of_archive(tag: u32, from: &mut Bytes<'_>) -> Option<Part> {
        let which = |tags: [u32; 2]| Which::ALL.into_iter().find(|which| tags[*which as usize] == tag);
        if let Some(which) = which(tag::RUN) {
            return Some(Part::Run(which, RunName(plain(from)?)));
        }
        if let Some(which) = which(tag::NEXT_RUN) {
            return Some(Part::NextRun(which, RunName(plain(from)?)));
        }
        Some(Part::Records(which(tag::RECORDS)?, plain(from)?))
    }
}

pub(crate) fn write_endpoint(endpoint: &SetEndpoint, out: &mut Vec<u8>) {
    endpoint.participant().put::<Plain>(out);
    put_count::<Plain>(out, endpoint.kind().len());
    out.extend_from_slice(endpoint.kind().as_bytes());
    out.extend_from_slice(endpoint.value().as_bytes());
}

impl Put for End {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        self.position.put::<F>(out);
        out.extend_from_slice(&self.tail);
    }
}

impl Take for End {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<End> {
        Ok(End { position: u64::take::<F>(from)?, tail: rest(from).to_vec() })
    }
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
