//! The parts of a checkpoint and their bytes.

use holdfast_domain::command::SetEndpoint;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::{Account, AccountKind, FundsMovement, FundsState, Name, Participant};
use holdfast_domain::shop::{Charging, CheckoutRow, ItemRow, KeyRow, OrderId, OrderRow, Sides, UserRow};
use holdfast_domain::tokens::LockRow;
use holdfast_domain::transfers::Transfer;

use crate::archive::Which;
use crate::blocks::End;
use crate::row;
use crate::runs::RunName;
use crate::shop_rows;
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
            Part::Participant(participant) => write_participant(participant, out),
            Part::Account(account) => write_account(account, out),
            Part::Funds(movement) => {
                out.extend_from_slice(&movement.id.0.to_le_bytes());
                out.extend_from_slice(&movement.account.0.to_le_bytes());
                out.extend_from_slice(&movement.amount.0.to_le_bytes());
                out.push(movement.state as u8);
            }
            Part::Endpoint(endpoint) => {
                out.extend_from_slice(&endpoint.participant().0.to_le_bytes());
                let kind = u32::try_from(endpoint.kind().len()).expect("a type is short");
                out.extend_from_slice(&kind.to_le_bytes());
                out.extend_from_slice(endpoint.kind().as_bytes());
                out.extend_from_slice(endpoint.value().as_bytes());
            }
            Part::Next(no) => out.extend_from_slice(&no.0.to_le_bytes()),
            Part::TokenCount(count) => out.extend_from_slice(&count.to_le_bytes()),
            Part::Open(transfer) => row::write(transfer, out),
            Part::Lock(row) => token_rows::write_lock(row, out),
            Part::User(row) => shop_rows::write_user(row, out),
            Part::Item(row) => shop_rows::write_item(row, out),
            Part::Order(row) => shop_rows::write_order(row, out),
            Part::Life(order, life) => shop_rows::write_life(order, *life, out),
            Part::Checkout(row) => shop_rows::write_checkout(row, out),
            Part::Key(row) => shop_rows::write_key(row, out),
            Part::Outside(sides) => out.push(shop_rows::sides_byte(*sides)),
            Part::Charging(charging) => shop_rows::write_charging(charging, out),
            Part::Token(StoredToken { id, quantity, holder, kind }) => {
                token_rows::write_stored(id.as_str(), *quantity, holder.as_deref(), kind, out);
            }
            Part::Run(_, name) | Part::NextRun(_, name) => out.extend_from_slice(&name.0.to_le_bytes()),
            Part::Records(_, end) | Part::Callbacks(end) => {
                out.extend_from_slice(&end.position.to_le_bytes());
                out.extend_from_slice(&end.tail);
            }
        }
    }

    /// The part of that tag and these bytes; `None` if they are not one.
    pub(super) fn read(tag: u32, bytes: &[u8]) -> Option<Part> {
        let mut taker = Taker(bytes);
        let part = match tag {
            1 => Part::Progress(taker.rest().to_vec()),
            2 => Part::Participant(read_participant(&mut taker)?),
            3 => Part::Account(read_account(&mut taker)?),
            4 => Part::Funds(FundsMovement {
                id: TransferId(u128::from_le_bytes(taker.array()?)),
                account: AccountId(u32::from_le_bytes(taker.array()?)),
                amount: Amount(i64::from_le_bytes(taker.array()?)),
                state: read_funds_state(taker.byte()?)?,
            }),
            5 => {
                let participant = ParticipantId(u32::from_le_bytes(taker.array()?));
                let kind = u32::from_le_bytes(taker.array()?);
                let kind = std::str::from_utf8(taker.take(kind as usize)?).ok()?.to_owned();
                let value = std::str::from_utf8(taker.rest()).ok()?.to_owned();
                Part::Endpoint(SetEndpoint::new(participant, kind, value)?)
            }
            6 => Part::Next(TransferNo(u64::from_le_bytes(taker.array()?))),
            Part::OPEN => Part::Open(row::read(taker.rest())?),
            8 => Part::Run(Which::Ended, RunName(u64::from_le_bytes(taker.array()?))),
            9 => Part::NextRun(Which::Ended, RunName(u64::from_le_bytes(taker.array()?))),
            10 => Part::Records(Which::Ended, read_end(&mut taker)?),
            11 => Part::Callbacks(read_end(&mut taker)?),
            12 => Part::Run(Which::Spent, RunName(u64::from_le_bytes(taker.array()?))),
            13 => Part::NextRun(Which::Spent, RunName(u64::from_le_bytes(taker.array()?))),
            14 => Part::Records(Which::Spent, read_end(&mut taker)?),
            Part::LOCK => Part::Lock(token_rows::read_lock(taker.rest())?),
            17 => Part::TokenCount(u64::from_le_bytes(taker.array()?)),
            Part::TOKEN => Part::Token(token_rows::read_token(taker.rest())?),
            Part::USER => Part::User(shop_rows::read_user(taker.rest())?),
            Part::ITEM => Part::Item(shop_rows::read_item(taker.rest())?),
            Part::ORDER => Part::Order(Box::new(shop_rows::read_order(taker.rest())?)),
            21 => {
                let (order, life) = shop_rows::read_life(taker.rest())?;
                Part::Life(order, life)
            }
            22 => Part::Checkout(shop_rows::read_checkout(taker.rest())?),
            23 => Part::Key(shop_rows::read_key(taker.rest())?),
            24 => Part::Outside(shop_rows::sides_of(taker.byte()?)?),
            25 => Part::Charging(shop_rows::read_charging(taker.rest())?),
            _ => return None,
        };
        taker.0.is_empty().then_some(part)
    }
}

fn write_participant(participant: &Participant, out: &mut Vec<u8>) {
    out.extend_from_slice(&participant.id.0.to_le_bytes());
    out.extend_from_slice(&participant.name.padded());
    out.push(u8::from(participant.active));
    out.extend_from_slice(&participant.created_at.to_le_bytes());
    for (currency, account) in &participant.accounts {
        out.extend_from_slice(&currency.letters());
        out.extend_from_slice(&account.0.to_le_bytes());
    }
}

fn read_participant(taker: &mut Taker<'_>) -> Option<Participant> {
    let id = ParticipantId(u32::from_le_bytes(taker.array()?));
    let name = Name::from_padded(taker.array()?)?;
    let active = taker.flag()?;
    let created_at = i64::from_le_bytes(taker.array()?);
    let mut accounts = Vec::new();
    while !taker.0.is_empty() {
        let currency = Currency::from_letters(taker.array()?)?;
        accounts.push((currency, AccountId(u32::from_le_bytes(taker.array()?))));
    }
    Some(Participant { id, name, active, accounts, created_at })
}

fn write_account(account: &Account, out: &mut Vec<u8>) {
    out.extend_from_slice(&account.id.0.to_le_bytes());
    out.extend_from_slice(&account.participant.0.to_le_bytes());
    out.extend_from_slice(&account.currency.letters());
    out.push(match account.kind {
        AccountKind::Position => 1,
        AccountKind::Settlement => 2,
    });
    out.push(u8::from(account.active));
    out.extend_from_slice(&account.value.0.to_le_bytes());
    out.extend_from_slice(&account.reserved.0.to_le_bytes());
    out.push(u8::from(account.net_debit_cap.is_some()));
    out.extend_from_slice(&account.net_debit_cap.unwrap_or(Amount::ZERO).0.to_le_bytes());
    out.extend_from_slice(&account.alarm_percentage.to_le_bytes());
    out.extend_from_slice(&account.created_at.to_le_bytes());
    out.extend_from_slice(&account.changed_at.to_le_bytes());
}

fn read_account(taker: &mut Taker<'_>) -> Option<Account> {
    let id = AccountId(u32::from_le_bytes(taker.array()?));
    let participant = ParticipantId(u32::from_le_bytes(taker.array()?));
    let currency = Currency::from_letters(taker.array()?)?;
    let kind = match taker.byte()? {
        1 => AccountKind::Position,
        2 => AccountKind::Settlement,
        _ => return None,
    };
    let active = taker.flag()?;
    let value = Balance(i128::from_le_bytes(taker.array()?));
    let reserved = Balance(i128::from_le_bytes(taker.array()?));
    let has_cap = taker.flag()?;
    let cap = Amount(i64::from_le_bytes(taker.array()?));
    Some(Account {
        id,
        participant,
        currency,
        kind,
        active,
        value,
        reserved,
        net_debit_cap: has_cap.then_some(cap),
        alarm_percentage: u16::from_le_bytes(taker.array()?),
        created_at: i64::from_le_bytes(taker.array()?),
        changed_at: i64::from_le_bytes(taker.array()?),
    })
}

fn read_funds_state(number: u8) -> Option<FundsState> {
    use FundsState::{OutAborted, OutCommitted, OutReserved, ReceivedIn};
    [ReceivedIn, OutReserved, OutCommitted, OutAborted].into_iter().find(|state| *state as u8 == number)
}

fn read_end(taker: &mut Taker<'_>) -> Option<End> {
    let position = u64::from_le_bytes(taker.array()?);
    Some(End { position, tail: taker.rest().to_vec() })
}

/// Takes bytes from the front.
struct Taker<'a>(&'a [u8]);

impl<'a> Taker<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
