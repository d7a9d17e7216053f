//! The fields of the shop's rows and commands, once for every form of bytes. As rows of the store they are:
//!
//! | row | bytes |
//! | --- | --- |
//! | user | id (text), credit (varint) |
//! | item | id (text), stock, price (varints) |
//! | order | id, user (texts), number of lines (varint), each: item (text), quantity (varint); amount (varint); state (1: not paid, pending, paid, cancelling), try (varint, 0: none), why its last try failed (1, 0: it has not), life (varint) |
//! | life | order (text), life (varint) |
//! | open checkout | order (text), try, start (varints), started at, deadline, waits since (zigzag varints), outside (1: pay, stock from the lowest bit; then whether a transfer, then whether tokens follow), pay side, stock side (3 each: said, undone, rows), undo (1: as outside; 255: not decided), why (1), keys (their number as a varint, then texts), if a transfer pays: its id (16), fulfilment (32); if tokens do: in whose name they are locked (16) |
//! | charging | 0: credit; 1: transfers, payee (4), currency (3), unit (8), secret (32); 2: tokens, wallet (text), currency (3), unit (8), secret (32) |
//! | key | key (text), content of the request (16), order (text), answer (2: kind and why; 0 0: none), try (varint, if there is an answer), ends at (zigzag varint) |

use super::{
    ByTokens, ByTransfers, Charge, Charging, CheckoutAnswer, CheckoutRow, ItemId, ItemRow, Items, KeyRow,
    Line, Order, OrderId, OrderRow, OrderState, Said, Secret, Side, SideBranch, SideRow, SideSaid, Sides,
    TrNum, TryKey, UserId, UserRow, Whole, Why,
};
use crate::codec::{Bad, Bytes, Form, Put, Read, Readable, Take, byte, field, row};

row!(UserRow { id, credit });
row!(ItemRow { id, stock, price });
row!(Line { id, amnt });
row!(Order { order_id, user_id, items, amount, state });
row!(OrderRow { order, failed, life });
row!(TryKey { order_id, tr_num });
row!(KeyRow { key, body, order, answer, ends_at });
row!(ByTransfers { payee, currency, unit, secret });

macro_rules! ids {
    ($($id:ident),+) => {
        $(
            field!($id, F: |id, out| id.as_str().put::<F>(out), |from| {
                from.text::<F>()?.parse().map_err(|_| Bad::new("id", "is not of 1 to 128 characters"))
            });
        )+
    };
}

ids!(UserId, ItemId, OrderId);
field!(Whole, F: |whole, out| whole.get().put::<F>(out), |from| {
    Whole::new(u64::take::<F>(from)?).map_err(|_| Bad::new("number", "is too large"))
});
field!(TrNum, F: |tr, out| tr.get().put::<F>(out), |from| {
    TrNum::try_from(u64::from(u32::take::<F>(from)?)).map_err(|_| Bad::new("try", "is 0"))
});
field!(Items, F: |items, out| items.lines().put::<F>(out), |from| {
    Items::new(Vec::take::<F>(from)?).map_err(|_| Bad::new("lines", "are too many or too much"))
});
field!(OrderState, F: |state, out| {
    out.push(match state {
        OrderState::NotPaid(_) => 1,
        OrderState::Pending(_) => 2,
        OrderState::Paid(_) => 3,
        OrderState::Cancelling(_) => 4,
    });
    state.tr_num().map_or(0, TrNum::get).put::<F>(out);
}, |from| {
    let [state] = from.array()?;
    match (state, TrNum::try_from(u64::from(u32::take::<F>(from)?)).ok()) {
        (1, tr) => Ok(OrderState::NotPaid(tr)),
        (2, Some(tr)) => Ok(OrderState::Pending(tr)),
        (3, Some(tr)) => Ok(OrderState::Paid(tr)),
        (4, Some(tr)) => Ok(OrderState::Cancelling(tr)),
        _ => Err(Bad::new("state", "is none, or has no try")),
    }
});

byte!(Why, "why" "is none");
byte!(Side, "side" "is not 1 or 2");
byte!(Said, "answer" "is not 1, 2 or 3");
byte!(SideSaid, "side" "has said nothing that is known");
byte!(SideBranch, "side" "is in no known branch");

row!(SideRow { said, undone, branch });

pub(super) const fn sides_byte(sides: Sides) -> u8 {
    sides.pay as u8 | (sides.stock as u8) << 1
}

const fn sides_of(byte: u8) -> Read<Sides> {
    match byte {
        0..=3 => Ok(Sides { pay: byte & 1 != 0, stock: byte & 2 != 0 }),
        _ => Err(Bad::new("sides", "hold a bit that is no side")),
    }
}

field!(Sides, F: |sides, out| out.push(sides_byte(*sides)), |from| {
    let [byte] = from.array()?;
    sides_of(byte)
});

pub(super) const UNDECIDED: u8 = u8::MAX;
/// In the byte of the sides that are outside: a charge follows the keys.
const HAS_TRANSFER: u8 = 4;
const HAS_TOKENS: u8 = 8;

impl Put for CheckoutRow {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        (&self.order, self.tr, self.start, self.started_at, self.deadline, self.waits_since).put::<F>(out);
        let charged = match self.charge {
            None => 0,
            Some(Charge::Transfer { .. }) => HAS_TRANSFER,
            Some(Charge::Tokens { .. }) => HAS_TOKENS,
        };
        out.push(sides_byte(self.outside) | charged);
        (&self.pay, &self.stock).put::<F>(out);
        out.push(self.undo.map_or(UNDECIDED, sides_byte));
        (self.why, &self.keys).put::<F>(out);
        if let Some(charge) = &self.charge {
            charge.id().put::<F>(out);
            if let Charge::Transfer { fulfilment, .. } = charge {
                fulfilment.put::<F>(out);
            }
        }
    }
}

impl Take for CheckoutRow {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<CheckoutRow> {
        let (order, tr) = Take::take::<F>(from)?;
        let (start, started_at) = Take::take::<F>(from)?;
        let (deadline, waits_since) = Take::take::<F>(from)?;
        let [outside] = from.array()?;
        let (pay, stock) = Take::take::<F>(from)?;
        let [undo] = from.array()?;
        Ok(CheckoutRow {
            order,
            tr,
            start,
            started_at,
            deadline,
            outside: sides_of(outside & !(HAS_TRANSFER | HAS_TOKENS))?,
            pay,
            stock,
            undo: if undo == UNDECIDED { None } else { Some(sides_of(undo)?) },
            why: Take::take::<F>(from)?,
            waits_since,
            keys: Take::take::<F>(from)?,
            charge: match outside & (HAS_TRANSFER | HAS_TOKENS) {
                0 => None,
                HAS_TRANSFER => {
                    let (transfer, fulfilment) = Take::take::<F>(from)?;
                    Some(Charge::Transfer { transfer, fulfilment })
                }
                HAS_TOKENS => Some(Charge::Tokens { spender: Take::take::<F>(from)? }),
                _ => return Err(Bad::new("charge", "is by a transfer and by tokens")),
            },
        })
    }
}

field!(Secret, F: |secret, out| secret.0.put::<F>(out), |from| from.array().map(Secret));
field!(ByTokens, F: |by, out| {
    (&by.wallet, by.currency).put::<F>(out);
    out.extend_from_slice(&by.unit.to_le_bytes());
    by.secret.put::<F>(out);
}, |from| {
    let (wallet, currency) = Take::take::<F>(from)?;
    let unit = from.array().map(u64::from_le_bytes)?;
    Ok(ByTokens { wallet, currency, unit, secret: Take::take::<F>(from)? })
});
field!(Charging, F: |charging, out| match charging {
    Charging::Credit => out.push(0),
    Charging::Transfers(by) => {
        out.push(1);
        by.put::<F>(out);
    }
    Charging::Tokens(by) => {
        out.push(2);
        by.put::<F>(out);
    }
}, |from| match from.array()? {
    [0] => Ok(Charging::Credit),
    [1] => Take::take::<F>(from).map(Charging::Transfers),
    [2] => Take::take::<F>(from).map(Charging::Tokens),
    _ => Err(Bad::new("charging", "is not 0, 1 or 2")),
});

/// A stored answer: one that is final. Where there is none, a kind of 0 says so.
impl Put for CheckoutAnswer {
    fn put<F: Form>(&self, out: &mut Vec<u8>) {
        CheckoutAnswer::put_if::<F>(Some(self), out);
    }

    fn put_if<F: Form>(it: Option<&CheckoutAnswer>, out: &mut Vec<u8>) {
        let (kind, why) = match it {
            None => (0, None),
            Some(CheckoutAnswer::Paid { .. }) => (1, None),
            Some(CheckoutAnswer::AlreadyPaid { .. }) => (2, None),
            Some(CheckoutAnswer::Failed { why, .. }) => (3, Some(*why)),
            Some(CheckoutAnswer::Open { .. }) => unreachable!("an open checkout is no stored answer"),
        };
        out.push(kind);
        why.put::<F>(out);
        it.iter().for_each(|answer| answer.tr().put::<F>(out));
    }
}

impl Take for CheckoutAnswer {
    fn take<F: Readable>(from: &mut Bytes<'_>) -> Read<CheckoutAnswer> {
        CheckoutAnswer::take_if::<F>(from)?.ok_or(Bad::new("answer", "is none"))
    }

    fn take_if<F: Readable>(from: &mut Bytes<'_>) -> Read<Option<CheckoutAnswer>> {
        let [kind] = from.array()?;
        Ok(match (kind, Take::take::<F>(from)?) {
            (0, None) => None,
            (1, None) => Some(CheckoutAnswer::Paid { tr: Take::take::<F>(from)? }),
            (2, None) => Some(CheckoutAnswer::AlreadyPaid { tr: Take::take::<F>(from)? }),
            (3, Some(why)) => Some(CheckoutAnswer::Failed { tr: Take::take::<F>(from)?, why }),
            _ => return Err(Bad::new("answer", "is none")),
        })
    }
}
