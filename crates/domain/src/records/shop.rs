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

use super::Kind;
use super::codec::{Writer, length, listed, read_tail, tail, take};
use crate::codec::{Bad, Bytes, Plain, Put, Read, Take};
use crate::ids::HUB;
use crate::shop::limits::{DEADLINE_MS_MAX, INIT_ROWS_MAX, KEY_BYTES_MAX};
use crate::shop::{CheckoutOrder, ChosenTokens, IdempotencyKey, OrderId, ShopCommand};
use crate::tokens::Name;

pub(super) const FLAG_KEY: u8 = 1;
pub(super) const FLAG_CHOSEN: u8 = 2;
/// The longest id of an order that the unit of a checkout holds, in bytes.
pub const CHECKOUT_ORDER_BYTES_MAX: usize = 47;

listed!(ShopCommand in Plain but for Checkout; {
    ShopCreateUser = CreateUser { id, credit },
    ShopCreateItem = CreateItem { id, stock, price },
    ShopCreateOrder = CreateOrder { id, user },
    ShopInitUsers = InitUsers { first, count: rows, credit },
    ShopInitItems = InitItems { first, count: rows, stock, price },
    ShopInitOrders = InitOrders { first, count: rows, items, users, price, seed },
    ShopAddItem = AddItem { order, item, quantity },
    ShopAddFunds = AddFunds { user, amount },
    ShopTakeFunds = TakeFunds { user, amount },
    ShopAddStock = AddStock { item, amount },
    ShopTakeStock = TakeStock { item, amount },
    ShopAnswer = Answer { key, side, said },
    ShopCancel = Cancel { order },
    ShopRetry = Retry { order, deadline_ms: deadline },
    ShopSetOutside = SetOutside { outside },
    ShopSetCharging = SetCharging { charging },
});

pub(super) fn read(kind: Kind, flags: u8, from: &mut Bytes<'_>) -> Read<ShopCommand> {
    match kind {
        Kind::ShopCheckout => read_checkout(flags, from).map(ShopCommand::Checkout),
        kind => read_tail(from, |fields| read_fields(kind, fields)),
    }
}

fn read_checkout(flags: u8, from: &mut Bytes<'_>) -> Read<CheckoutOrder> {
    let length = take(from)?;
    let deadline_ms = deadline(take(from)?)?;
    let [inline] = from.array()?;
    let bytes: [u8; CHECKOUT_ORDER_BYTES_MAX] = from.array()?;
    let mut fields = Bytes(tail(from, length)?);
    let order = match usize::from(inline) {
        0 if bytes != [0; CHECKOUT_ORDER_BYTES_MAX] => {
            return Err(Bad::new("order", "is of no length and there"));
        }
        0 => {
            let order = OrderId::take::<Plain>(&mut fields)?;
            if order.as_str().len() <= CHECKOUT_ORDER_BYTES_MAX {
                return Err(Bad::new("order", "is short enough for the unit and lies in the tail"));
            }
            order
        }
        length => {
            let (text, rest) =
                bytes.split_at_checked(length).ok_or(Bad::new("order", "is longer than its place"))?;
            if rest.iter().any(|byte| *byte != 0) {
                return Err(Bad::new("padding", "must be zero"));
            }
            let text = std::str::from_utf8(text).map_err(|_| Bad::new("text", "is not UTF-8"))?;
            text.parse().map_err(|_| Bad::new("id", "is not of 1 to 128 characters"))?
        }
    };
    let key = if flags & FLAG_KEY == 0 { None } else { Some(key(&mut fields)?) };
    let chosen = if flags & FLAG_CHOSEN == 0 { None } else { Some(Box::new(chosen(&mut fields)?)) };
    fields.end()?;
    Ok(CheckoutOrder { order, deadline_ms, key, chosen })
}

fn rows(count: u32) -> Read<u32> {
    if count <= INIT_ROWS_MAX { Ok(count) } else { Err(Bad::new("count", "is too large")) }
}

fn deadline(ms: u32) -> Read<u32> {
    let known = (1..=DEADLINE_MS_MAX).contains(&ms);
    known.then_some(ms).ok_or(Bad::new("deadline", "is not 1 ms to a day"))
}

fn key(from: &mut Bytes<'_>) -> Read<IdempotencyKey> {
    let key = Name::take::<Plain>(from)?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Bad::new("key", "is too long"));
    }
    Ok(IdempotencyKey { key, body: Take::take::<Plain>(from)? })
}

fn chosen(from: &mut Bytes<'_>) -> Read<ChosenTokens> {
    let (id, ids) = Take::take::<Plain>(from)?;
    Ok(ChosenTokens::new(id, ids))
}

pub(super) fn write(command: &ShopCommand, out: &mut Vec<u8>) {
    if let ShopCommand::Checkout(command) = command {
        return write_checkout(command, out);
    }
    let mut tail = Vec::with_capacity(64);
    let kind = put_fields(command, &mut tail);
    Writer::new(out, kind, 0, HUB).put(length(tail.len())).pad_to(1).bytes(&tail).finish();
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
        .put((length(tail.len()), deadline_ms, [u8::try_from(inline.len()).expect("at most 47")]))
        .bytes(inline.as_bytes())
        .pad_to(1)
        .bytes(&tail)
        .finish();
}
