//! Shop commands on the wire: the fixed unit says how long the tail is, the tail holds the fields one after another, as those
//! of token commands. Numbers are of eight bytes unless said otherwise.
//!
//! A checkout is what there are many of, so its unit holds it whole, if its order's id is not longer than 47 bytes and it comes
//! without a key:
//!
//! | bytes | field |
//! | --- | --- |
//! | 8..12 | length of the tail |
//! | 12..16 | deadline in milliseconds |
//! | 16 | length of the order's id; 0: it is longer than 47 bytes and lies in the tail, as a text |
//! | 17..64 | the id, then zeros |
//!
//! With flag 1 there is a key: in the tail (after the id) as a text, then the content of the request in 16 bytes. With flag 2
//! tokens were chosen to pay: in the tail (after the key) in whose name, in 16 bytes, then their number and ids as in a lock.

use super::codec::{Cursor, Writer, bad, from_hub, only_flags};
use super::tokens::{Fields, put_list, put_text};
use super::{Kind, RecordError};
use crate::ids::{Currency, HUB, ParticipantId, TransferId};
use crate::money::Amount;
use crate::shop::limits::{DEADLINE_MS_MAX, INIT_ROWS_MAX, KEY_BYTES_MAX};
use crate::shop::{
    ByTokens, ByTransfers, Charging, CheckoutOrder, ChosenTokens, IdempotencyKey, Said, Secret, ShopCommand,
    Side, Sides, TrNum, TryKey, Whole,
};

const FLAG_KEY: u8 = 1;
const FLAG_CHOSEN: u8 = 2;
/// The longest id of an order that the unit of a checkout holds, in bytes.
pub const CHECKOUT_ORDER_BYTES_MAX: usize = 47;

pub(super) fn read(kind: Kind, cursor: &mut Cursor<'_>) -> Result<ShopCommand, RecordError> {
    let (flags, source) = cursor.header();
    from_hub(source)?;
    if kind == Kind::ShopCheckout {
        return read_checkout(flags, cursor).map(ShopCommand::Checkout);
    }
    only_flags(flags, 0)?;
    let length = cursor.u32();
    cursor.zeros(52)?;
    let mut fields = Fields { rest: cursor.tail(length)? };
    let from = &mut fields;
    let command = match kind {
        Kind::ShopCreateUser => ShopCommand::CreateUser { id: id(from)?, credit: whole(from)? },
        Kind::ShopCreateItem => {
            ShopCommand::CreateItem { id: id(from)?, stock: whole(from)?, price: whole(from)? }
        }
        Kind::ShopCreateOrder => ShopCommand::CreateOrder { id: id(from)?, user: id(from)? },
        Kind::ShopInitUsers => {
            ShopCommand::InitUsers { first: from.u64()?, count: rows(from)?, credit: whole(from)? }
        }
        Kind::ShopInitItems => ShopCommand::InitItems {
            first: from.u64()?,
            count: rows(from)?,
            stock: whole(from)?,
            price: whole(from)?,
        },
        Kind::ShopInitOrders => ShopCommand::InitOrders {
            first: from.u64()?,
            count: rows(from)?,
            items: from.u64()?,
            users: from.u64()?,
            price: whole(from)?,
            seed: from.u64()?,
        },
        Kind::ShopAddItem => {
            ShopCommand::AddItem { order: id(from)?, item: id(from)?, quantity: whole(from)? }
        }
        Kind::ShopAddFunds => ShopCommand::AddFunds { user: id(from)?, amount: whole(from)? },
        Kind::ShopTakeFunds => ShopCommand::TakeFunds { user: id(from)?, amount: whole(from)? },
        Kind::ShopAddStock => ShopCommand::AddStock { item: id(from)?, amount: whole(from)? },
        Kind::ShopTakeStock => ShopCommand::TakeStock { item: id(from)?, amount: whole(from)? },
        Kind::ShopAnswer => ShopCommand::Answer {
            key: TryKey { order_id: id(from)?, tr_num: try_number(from)? },
            side: side(from)?,
            said: said(from)?,
        },
        Kind::ShopCancel => ShopCommand::Cancel { order: id(from)? },
        Kind::ShopRetry => {
            ShopCommand::Retry { order: id(from)?, deadline_ms: deadline(u32::from_le_bytes(from.array()?))? }
        }
        Kind::ShopSetOutside => ShopCommand::SetOutside { outside: sides(from)? },
        Kind::ShopSetCharging => ShopCommand::SetCharging { charging: charging(from)? },
        _ => unreachable!("read by their own functions"),
    };
    at_end(&fields)?;
    Ok(command)
}

fn read_checkout(flags: u8, cursor: &mut Cursor<'_>) -> Result<CheckoutOrder, RecordError> {
    only_flags(flags, FLAG_KEY | FLAG_CHOSEN)?;
    let length = cursor.u32();
    let deadline_ms = deadline(cursor.u32())?;
    let [inline] = cursor.array();
    let bytes: [u8; CHECKOUT_ORDER_BYTES_MAX] = cursor.array();
    let mut fields = Fields { rest: cursor.tail(length)? };
    let order = match usize::from(inline) {
        0 if bytes != [0; CHECKOUT_ORDER_BYTES_MAX] => return Err(bad("order", "is of no length and there")),
        0 => {
            let text = fields.text()?;
            if text.len() <= CHECKOUT_ORDER_BYTES_MAX {
                return Err(bad("order", "is short enough for the unit and lies in the tail"));
            }
            parse(text)?
        }
        length => {
            let (text, rest) =
                bytes.split_at_checked(length).ok_or_else(|| bad("order", "is longer than its place"))?;
            if rest.iter().any(|byte| *byte != 0) {
                return Err(bad("padding", "must be zero"));
            }
            parse(std::str::from_utf8(text).map_err(|_| bad("text", "is not UTF-8"))?)?
        }
    };
    let key = if flags & FLAG_KEY == 0 { None } else { Some(key(&mut fields)?) };
    let chosen = if flags & FLAG_CHOSEN == 0 { None } else { Some(Box::new(chosen(&mut fields)?)) };
    at_end(&fields)?;
    Ok(CheckoutOrder { order, deadline_ms, key, chosen })
}

fn at_end(fields: &Fields<'_>) -> Result<(), RecordError> {
    if fields.rest.is_empty() { Ok(()) } else { Err(bad("tail", "goes on after its last field")) }
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, RecordError> {
    text.parse().map_err(|_| bad("id", "is not of 1 to 128 characters"))
}

fn id<T: std::str::FromStr>(from: &mut Fields<'_>) -> Result<T, RecordError> {
    parse(from.text()?)
}

fn whole(from: &mut Fields<'_>) -> Result<Whole, RecordError> {
    Whole::new(from.u64()?).map_err(|_| bad("number", "is too large"))
}

fn rows(from: &mut Fields<'_>) -> Result<u32, RecordError> {
    let count = u32::from_le_bytes(from.array()?);
    (count <= INIT_ROWS_MAX).then_some(count).ok_or_else(|| bad("count", "is too large"))
}

fn deadline(ms: u32) -> Result<u32, RecordError> {
    (1..=DEADLINE_MS_MAX).contains(&ms).then_some(ms).ok_or_else(|| bad("deadline", "is not 1 ms to a day"))
}

fn key(from: &mut Fields<'_>) -> Result<IdempotencyKey, RecordError> {
    let key = from.name()?;
    if key.len() > KEY_BYTES_MAX {
        return Err(bad("key", "is too long"));
    }
    Ok(IdempotencyKey { key, body: from.fingerprint()? })
}

fn chosen(from: &mut Fields<'_>) -> Result<ChosenTokens, RecordError> {
    let id = TransferId(u128::from_le_bytes(from.array()?));
    Ok(ChosenTokens::new(id, from.list(Fields::id)?))
}

fn try_number(from: &mut Fields<'_>) -> Result<TrNum, RecordError> {
    let number = u32::from_le_bytes(from.array()?);
    TrNum::try_from(u64::from(number)).map_err(|_| bad("try", "is 0"))
}

fn side(from: &mut Fields<'_>) -> Result<Side, RecordError> {
    let [number] = from.array()?;
    Side::ALL.into_iter().find(|side| *side as u8 == number).ok_or_else(|| bad("side", "is not 1 or 2"))
}

fn said(from: &mut Fields<'_>) -> Result<Said, RecordError> {
    let [number] = from.array()?;
    let known = [Said::Taken, Said::Refused, Said::Undone].into_iter().find(|said| *said as u8 == number);
    known.ok_or_else(|| bad("answer", "is not 1, 2 or 3"))
}

fn sides(from: &mut Fields<'_>) -> Result<Sides, RecordError> {
    match from.array()? {
        [bits @ 0..=3] => Ok(Sides { pay: bits & 1 != 0, stock: bits & 2 != 0 }),
        _ => Err(bad("sides", "hold a bit that is no side")),
    }
}

fn charging(from: &mut Fields<'_>) -> Result<Charging, RecordError> {
    match from.array()? {
        [0] => Ok(Charging::Credit),
        [1] => {
            let payee = ParticipantId(u32::from_le_bytes(from.array()?));
            let currency = Currency::from_letters(from.array()?);
            let unit = Amount(i64::from_le_bytes(from.array()?));
            let currency = currency.ok_or_else(|| bad("currency", "is not of three capital letters"))?;
            Ok(Charging::Transfers(ByTransfers { payee, currency, unit, secret: Secret(from.array()?) }))
        }
        [2] => {
            let wallet = from.name()?;
            let currency = Currency::from_letters(from.array()?);
            let currency = currency.ok_or_else(|| bad("currency", "is not of three capital letters"))?;
            let (unit, secret) = (from.u64()?, Secret(from.array()?));
            Ok(Charging::Tokens(ByTokens { wallet, currency, unit, secret }))
        }
        _ => Err(bad("charging", "is not 0, 1 or 2")),
    }
}

fn put_charging(tail: &mut Vec<u8>, charging: &Charging) {
    match charging {
        Charging::Credit => tail.push(0),
        Charging::Transfers(by) => {
            tail.push(1);
            tail.extend_from_slice(&by.payee.0.to_le_bytes());
            tail.extend_from_slice(&by.currency.letters());
            tail.extend_from_slice(&by.unit.0.to_le_bytes());
            tail.extend_from_slice(&by.secret.0);
        }
        Charging::Tokens(by) => {
            tail.push(2);
            put_text(tail, &by.wallet);
            tail.extend_from_slice(&by.currency.letters());
            tail.extend_from_slice(&by.unit.to_le_bytes());
            tail.extend_from_slice(&by.secret.0);
        }
    }
}

pub(super) fn write(command: &ShopCommand, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(64);
    let number = |tail: &mut Vec<u8>, number: u64| tail.extend_from_slice(&number.to_le_bytes());
    let kind = match command {
        ShopCommand::Checkout(command) => return write_checkout(command, out),
        ShopCommand::CreateUser { id, credit } => {
            put_text(&mut tail, id.as_str());
            number(&mut tail, credit.get());
            Kind::ShopCreateUser
        }
        ShopCommand::CreateItem { id, stock, price } => {
            put_text(&mut tail, id.as_str());
            [stock, price].into_iter().for_each(|value| number(&mut tail, value.get()));
            Kind::ShopCreateItem
        }
        ShopCommand::CreateOrder { id, user } => {
            put_text(&mut tail, id.as_str());
            put_text(&mut tail, user.as_str());
            Kind::ShopCreateOrder
        }
        ShopCommand::InitUsers { first, count, credit } => {
            number(&mut tail, *first);
            tail.extend_from_slice(&count.to_le_bytes());
            number(&mut tail, credit.get());
            Kind::ShopInitUsers
        }
        ShopCommand::InitItems { first, count, stock, price } => {
            number(&mut tail, *first);
            tail.extend_from_slice(&count.to_le_bytes());
            [stock, price].into_iter().for_each(|value| number(&mut tail, value.get()));
            Kind::ShopInitItems
        }
        ShopCommand::InitOrders { first, count, items, users, price, seed } => {
            number(&mut tail, *first);
            tail.extend_from_slice(&count.to_le_bytes());
            [*items, *users, price.get(), *seed].into_iter().for_each(|value| number(&mut tail, value));
            Kind::ShopInitOrders
        }
        ShopCommand::AddItem { order, item, quantity } => {
            put_text(&mut tail, order.as_str());
            put_text(&mut tail, item.as_str());
            number(&mut tail, quantity.get());
            Kind::ShopAddItem
        }
        ShopCommand::AddFunds { user, amount } | ShopCommand::TakeFunds { user, amount } => {
            put_text(&mut tail, user.as_str());
            number(&mut tail, amount.get());
            let adds = matches!(command, ShopCommand::AddFunds { .. });
            if adds { Kind::ShopAddFunds } else { Kind::ShopTakeFunds }
        }
        ShopCommand::AddStock { item, amount } | ShopCommand::TakeStock { item, amount } => {
            put_text(&mut tail, item.as_str());
            number(&mut tail, amount.get());
            let adds = matches!(command, ShopCommand::AddStock { .. });
            if adds { Kind::ShopAddStock } else { Kind::ShopTakeStock }
        }
        ShopCommand::Answer { key, side, said } => {
            put_text(&mut tail, key.order_id.as_str());
            tail.extend_from_slice(&key.tr_num.get().to_le_bytes());
            tail.extend_from_slice(&[*side as u8, *said as u8]);
            Kind::ShopAnswer
        }
        ShopCommand::Cancel { order } => {
            put_text(&mut tail, order.as_str());
            Kind::ShopCancel
        }
        ShopCommand::Retry { order, deadline_ms } => {
            put_text(&mut tail, order.as_str());
            tail.extend_from_slice(&deadline_ms.to_le_bytes());
            Kind::ShopRetry
        }
        ShopCommand::SetOutside { outside } => {
            tail.push(u8::from(outside.pay) | u8::from(outside.stock) << 1);
            Kind::ShopSetOutside
        }
        ShopCommand::SetCharging { charging } => {
            put_charging(&mut tail, charging);
            Kind::ShopSetCharging
        }
    };
    Writer::new(out, kind, 0, HUB).put(&length_of(&tail)).pad_to(1).put(&tail).finish();
}

fn length_of(tail: &[u8]) -> [u8; 4] {
    u32::try_from(tail.len()).expect("ids and keys are short").to_le_bytes()
}

fn write_checkout(CheckoutOrder { order, deadline_ms, key, chosen }: &CheckoutOrder, out: &mut Vec<u8>) {
    let mut tail = Vec::new();
    let order = order.as_str();
    let inline = if order.len() <= CHECKOUT_ORDER_BYTES_MAX { order } else { "" };
    if inline.is_empty() {
        put_text(&mut tail, order);
    }
    if let Some(IdempotencyKey { key, body }) = key {
        put_text(&mut tail, key);
        tail.extend_from_slice(&body.0.to_le_bytes());
    }
    if let Some(chosen) = chosen {
        tail.extend_from_slice(&chosen.id.0.to_le_bytes());
        put_list(&mut tail, &chosen.ids, |out, id| put_text(out, id.as_str()));
    }
    let key_flag = if key.is_some() { FLAG_KEY } else { 0 };
    let flags = key_flag | if chosen.is_some() { FLAG_CHOSEN } else { 0 };
    Writer::new(out, Kind::ShopCheckout, flags, HUB)
        .put(&length_of(&tail))
        .put(&deadline_ms.to_le_bytes())
        .put(&[u8::try_from(inline.len()).expect("at most 47")])
        .put(inline.as_bytes())
        .pad_to(1)
        .put(&tail)
        .finish();
}
