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
use super::tokens::{put, take};
use super::{Kind, RecordError};
use crate::codec::{Bad, Bytes, Plain, Put, Read};
use crate::ids::HUB;
use crate::shop::limits::{DEADLINE_MS_MAX, INIT_ROWS_MAX, KEY_BYTES_MAX};
use crate::shop::{CheckoutOrder, ChosenTokens, IdempotencyKey, OrderId, ShopCommand, TryKey};
use crate::tokens::Name;

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
    let mut tail = Bytes(cursor.tail(length)?);
    let command = read_tail(kind, &mut tail)?;
    tail.end()?;
    Ok(command)
}

fn read_tail(kind: Kind, from: &mut Bytes<'_>) -> Read<ShopCommand> {
    Ok(match kind {
        Kind::ShopCreateUser => ShopCommand::CreateUser { id: take(from)?, credit: take(from)? },
        Kind::ShopCreateItem => {
            ShopCommand::CreateItem { id: take(from)?, stock: take(from)?, price: take(from)? }
        }
        Kind::ShopCreateOrder => ShopCommand::CreateOrder { id: take(from)?, user: take(from)? },
        Kind::ShopInitUsers => {
            ShopCommand::InitUsers { first: take(from)?, count: rows(from)?, credit: take(from)? }
        }
        Kind::ShopInitItems => ShopCommand::InitItems {
            first: take(from)?,
            count: rows(from)?,
            stock: take(from)?,
            price: take(from)?,
        },
        Kind::ShopInitOrders => ShopCommand::InitOrders {
            first: take(from)?,
            count: rows(from)?,
            items: take(from)?,
            users: take(from)?,
            price: take(from)?,
            seed: take(from)?,
        },
        Kind::ShopAddItem => {
            ShopCommand::AddItem { order: take(from)?, item: take(from)?, quantity: take(from)? }
        }
        Kind::ShopAddFunds => ShopCommand::AddFunds { user: take(from)?, amount: take(from)? },
        Kind::ShopTakeFunds => ShopCommand::TakeFunds { user: take(from)?, amount: take(from)? },
        Kind::ShopAddStock => ShopCommand::AddStock { item: take(from)?, amount: take(from)? },
        Kind::ShopTakeStock => ShopCommand::TakeStock { item: take(from)?, amount: take(from)? },
        Kind::ShopAnswer => ShopCommand::Answer {
            key: TryKey { order_id: take(from)?, tr_num: take(from)? },
            side: take(from)?,
            said: take(from)?,
        },
        Kind::ShopCancel => ShopCommand::Cancel { order: take(from)? },
        Kind::ShopRetry => ShopCommand::Retry { order: take(from)?, deadline_ms: deadline(take(from)?)? },
        Kind::ShopSetOutside => ShopCommand::SetOutside { outside: take(from)? },
        Kind::ShopSetCharging => ShopCommand::SetCharging { charging: take(from)? },
        _ => unreachable!("read by their own functions"),
    })
}

fn read_checkout(flags: u8, cursor: &mut Cursor<'_>) -> Result<CheckoutOrder, RecordError> {
    only_flags(flags, FLAG_KEY | FLAG_CHOSEN)?;
    let length = cursor.u32();
    let deadline_ms = deadline(cursor.u32())?;
    let [inline] = cursor.array();
    let bytes: [u8; CHECKOUT_ORDER_BYTES_MAX] = cursor.array();
    let mut fields = Bytes(cursor.tail(length)?);
    let order = match usize::from(inline) {
        0 if bytes != [0; CHECKOUT_ORDER_BYTES_MAX] => return Err(bad("order", "is of no length and there")),
        0 => {
            let order: OrderId = take(&mut fields)?;
            if order.as_str().len() <= CHECKOUT_ORDER_BYTES_MAX {
                return Err(bad("order", "is short enough for the unit and lies in the tail"));
            }
            order
        }
        length => {
            let (text, rest) =
                bytes.split_at_checked(length).ok_or_else(|| bad("order", "is longer than its place"))?;
            if rest.iter().any(|byte| *byte != 0) {
                return Err(bad("padding", "must be zero"));
            }
            let text = std::str::from_utf8(text).map_err(|_| bad("text", "is not UTF-8"))?;
            text.parse().map_err(|_| bad("id", "is not of 1 to 128 characters"))?
        }
    };
    let key = if flags & FLAG_KEY == 0 { None } else { Some(key(&mut fields)?) };
    let chosen = if flags & FLAG_CHOSEN == 0 { None } else { Some(Box::new(chosen(&mut fields)?)) };
    fields.end()?;
    Ok(CheckoutOrder { order, deadline_ms, key, chosen })
}

fn rows(from: &mut Bytes<'_>) -> Read<u32> {
    let count = take(from)?;
    if count <= INIT_ROWS_MAX { Ok(count) } else { Err(Bad::new("count", "is too large")) }
}

fn deadline(ms: u32) -> Read<u32> {
    let known = (1..=DEADLINE_MS_MAX).contains(&ms);
    known.then_some(ms).ok_or(Bad::new("deadline", "is not 1 ms to a day"))
}

fn key(from: &mut Bytes<'_>) -> Read<IdempotencyKey> {
    let key: Name = take(from)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Bad::new("key", "is too long"));
    }
    Ok(IdempotencyKey { key, body: take(from)? })
}

fn chosen(from: &mut Bytes<'_>) -> Read<ChosenTokens> {
    let id = take(from)?;
    Ok(ChosenTokens::new(id, take(from)?))
}

pub(super) fn write(command: &ShopCommand, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(64);
    let kind = write_tail(command, &mut tail, out);
    if let Some(kind) = kind {
        Writer::new(out, kind, 0, HUB).put(&length_of(&tail)).pad_to(1).put(&tail).finish();
    }
}

/// Adds the fields of a command to its tail, and tells its kind; `None`: it was written whole.
fn write_tail(command: &ShopCommand, tail: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<Kind> {
    Some(match command {
        ShopCommand::Checkout(command) => {
            write_checkout(command, out);
            return None;
        }
        ShopCommand::CreateUser { id, credit } => put(Kind::ShopCreateUser, tail, (id, credit)),
        ShopCommand::CreateItem { id, stock, price } => put(Kind::ShopCreateItem, tail, (id, stock, price)),
        ShopCommand::CreateOrder { id, user } => put(Kind::ShopCreateOrder, tail, (id, user)),
        ShopCommand::InitUsers { first, count, credit } => {
            put(Kind::ShopInitUsers, tail, (first, count, credit))
        }
        ShopCommand::InitItems { first, count, stock, price } => {
            put(Kind::ShopInitItems, tail, (first, count, stock, price))
        }
        ShopCommand::InitOrders { first, count, items, users, price, seed } => {
            put(Kind::ShopInitOrders, tail, (first, count, items, users, price, seed))
        }
        ShopCommand::AddItem { order, item, quantity } => {
            put(Kind::ShopAddItem, tail, (order, item, quantity))
        }
        ShopCommand::AddFunds { user, amount } => put(Kind::ShopAddFunds, tail, (user, amount)),
        ShopCommand::TakeFunds { user, amount } => put(Kind::ShopTakeFunds, tail, (user, amount)),
        ShopCommand::AddStock { item, amount } => put(Kind::ShopAddStock, tail, (item, amount)),
        ShopCommand::TakeStock { item, amount } => put(Kind::ShopTakeStock, tail, (item, amount)),
        ShopCommand::Answer { key, side, said } => {
            put(Kind::ShopAnswer, tail, (&key.order_id, key.tr_num, side, said))
        }
        ShopCommand::Cancel { order } => put(Kind::ShopCancel, tail, order),
        ShopCommand::Retry { order, deadline_ms } => put(Kind::ShopRetry, tail, (order, deadline_ms)),
        ShopCommand::SetOutside { outside } => put(Kind::ShopSetOutside, tail, outside),
        ShopCommand::SetCharging { charging } => put(Kind::ShopSetCharging, tail, charging),
    })
}

fn length_of(tail: &[u8]) -> [u8; 4] {
    u32::try_from(tail.len()).expect("ids and keys are short").to_le_bytes()
}

fn write_checkout(CheckoutOrder { order, deadline_ms, key, chosen }: &CheckoutOrder, out: &mut Vec<u8>) {
    let mut tail = Vec::new();
    let order = order.as_str();
    let inline = if order.len() <= CHECKOUT_ORDER_BYTES_MAX { order } else { "" };
    if inline.is_empty() {
        order.put::<Plain>(&mut tail);
    }
    if let Some(IdempotencyKey { key, body }) = key {
        (key, body).put::<Plain>(&mut tail);
    }
    if let Some(chosen) = chosen {
        (chosen.id, &chosen.ids).put::<Plain>(&mut tail);
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
