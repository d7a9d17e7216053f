//! Users, items, orders, open checkouts and idempotency keys in few bytes, for the disk. [`crate::bytes`] tells what varints and
//! texts are.
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
//!
//! Every row has exactly one form; what is not that form is refused.

use holdfast_domain::ids::{Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::shop::{
    ByTokens, ByTransfers, Charge, Charging, CheckoutAnswer, CheckoutRow, ItemRow, Items, KeyRow, Line,
    Order, OrderId, OrderRow, OrderState, Secret, SideBranch, SideRow, SideSaid, Sides, TrNum, UserRow,
    Whole, Why,
};
use holdfast_domain::tokens::{Fingerprint, Name};

use crate::bytes::{Cursor, put, put_text, zigzag};

const UNDECIDED: u8 = u8::MAX;
/// In the byte of the sides that are outside: a charge follows the keys.
const HAS_TRANSFER: u8 = 4;
const HAS_TOKENS: u8 = 8;

pub(crate) fn write_user(row: &UserRow, out: &mut Vec<u8>) {
    put_text(out, row.id.as_str());
    put(out, row.credit.get());
}

pub(crate) fn read_user(bytes: &[u8]) -> Option<UserRow> {
    let mut from = Cursor(bytes);
    let row = UserRow { id: id(&mut from)?, credit: whole(&mut from)? };
    from.0.is_empty().then_some(row)
}

pub(crate) fn write_item(row: &ItemRow, out: &mut Vec<u8>) {
    put_text(out, row.id.as_str());
    put(out, row.stock.get());
    put(out, row.price.get());
}

pub(crate) fn read_item(bytes: &[u8]) -> Option<ItemRow> {
    let mut from = Cursor(bytes);
    let row = ItemRow { id: id(&mut from)?, stock: whole(&mut from)?, price: whole(&mut from)? };
    from.0.is_empty().then_some(row)
}

pub(crate) fn write_order(row: &OrderRow, out: &mut Vec<u8>) {
    let OrderRow { order, failed, life } = row;
    put_text(out, order.order_id.as_str());
    put_text(out, order.user_id.as_str());
    put(out, order.items.lines().len() as u64);
    for line in order.items.lines() {
        put_text(out, line.id.as_str());
        put(out, line.amnt.get());
    }
    put(out, order.amount.get());
    out.push(match order.state {
        OrderState::NotPaid(_) => 1,
        OrderState::Pending(_) => 2,
        OrderState::Paid(_) => 3,
        OrderState::Cancelling(_) => 4,
    });
    put(out, order.state.tr_num().map_or(0, |tr| u64::from(tr.get())));
    out.push(failed.map_or(0, |why| why as u8));
    put(out, u64::from(*life));
}

pub(crate) fn read_order(bytes: &[u8]) -> Option<OrderRow> {
    let mut from = Cursor(bytes);
    let (order_id, user_id) = (id(&mut from)?, id(&mut from)?);
    let lines = from.list(|from| Some(Line { id: id(from)?, amnt: whole(from)? }))?;
    let (items, amount) = (Items::new(lines).ok()?, whole(&mut from)?);
    let [state] = from.array()?;
    let tr = match from.varint::<u64>()? {
        0 => None,
        number => Some(TrNum::try_from(number).ok()?),
    };
    let state = match (state, tr) {
        (1, tr) => OrderState::NotPaid(tr),
        (2, Some(tr)) => OrderState::Pending(tr),
        (3, Some(tr)) => OrderState::Paid(tr),
        (4, Some(tr)) => OrderState::Cancelling(tr),
        _ => return None,
    };
    let failed = why(&mut from)?;
    let order = Order { order_id, user_id, items, amount, state };
    let row = OrderRow { order, failed, life: from.varint()? };
    from.0.is_empty().then_some(row)
}

pub(crate) fn write_life(order: &OrderId, life: u32, out: &mut Vec<u8>) {
    put_text(out, order.as_str());
    put(out, u64::from(life));
}

pub(crate) fn read_life(bytes: &[u8]) -> Option<(OrderId, u32)> {
    let mut from = Cursor(bytes);
    let row = (id(&mut from)?, from.varint()?);
    from.0.is_empty().then_some(row)
}

pub(crate) fn sides_byte(sides: Sides) -> u8 {
    u8::from(sides.pay) | u8::from(sides.stock) << 1
}

pub(crate) const fn sides_of(byte: u8) -> Option<Sides> {
    match byte {
        0..=3 => Some(Sides { pay: byte & 1 != 0, stock: byte & 2 != 0 }),
        _ => None,
    }
}

fn side_bytes(row: &SideRow) -> [u8; 3] {
    [row.said.map_or(0, |said| said as u8), u8::from(row.undone), row.branch.map_or(0, |branch| branch as u8)]
}

fn read_side(from: &mut Cursor<'_>) -> Option<SideRow> {
    use SideBranch::{CancelledFirst, CancelledThenRefused, GivenBack, Refused, RefusedUndone, Taken};
    let [said, undone, branch] = from.array()?;
    let said = match said {
        0 => None,
        1 => Some(SideSaid::Taken),
        2 => Some(SideSaid::Refused),
        _ => return None,
    };
    let all = [Taken, Refused, GivenBack, RefusedUndone, CancelledFirst, CancelledThenRefused];
    let branch = match branch {
        0 => None,
        number => Some(all.into_iter().find(|branch| *branch as u8 == number)?),
    };
    (undone <= 1).then_some(SideRow { said, undone: undone == 1, branch })
}

pub(crate) fn write_checkout(row: &CheckoutRow, out: &mut Vec<u8>) {
    put_text(out, row.order.as_str());
    put(out, u64::from(row.tr.get()));
    put(out, row.start);
    for time in [row.started_at, row.deadline, row.waits_since] {
        put(out, zigzag(time));
    }
    let charged = match row.charge {
        None => 0,
        Some(Charge::Transfer { .. }) => HAS_TRANSFER,
        Some(Charge::Tokens { .. }) => HAS_TOKENS,
    };
    out.push(sides_byte(row.outside) | charged);
    out.extend_from_slice(&side_bytes(&row.pay));
    out.extend_from_slice(&side_bytes(&row.stock));
    out.push(row.undo.map_or(UNDECIDED, sides_byte));
    out.push(row.why.map_or(0, |why| why as u8));
    put(out, row.keys.len() as u64);
    row.keys.iter().for_each(|key| put_text(out, key));
    if let Some(charge) = &row.charge {
        out.extend_from_slice(&charge.id().0.to_le_bytes());
        if let Charge::Transfer { fulfilment, .. } = charge {
            out.extend_from_slice(&fulfilment.0);
        }
    }
}

/// What `outside` says that there is: `Some(None)` if nothing, `None` if it is torn.
fn read_charge(outside: u8, from: &mut Cursor<'_>) -> Option<Option<Charge>> {
    let charged = outside & (HAS_TRANSFER | HAS_TOKENS);
    if charged == 0 {
        return Some(None);
    }
    let id = TransferId(u128::from_le_bytes(from.array()?));
    match charged {
        HAS_TRANSFER => Some(Some(Charge::Transfer { transfer: id, fulfilment: Secret(from.array()?) })),
        HAS_TOKENS => Some(Some(Charge::Tokens { spender: id })),
        _ => None,
    }
}

pub(crate) fn write_charging(charging: &Charging, out: &mut Vec<u8>) {
    match charging {
        Charging::Credit => out.push(0),
        Charging::Transfers(by) => {
            out.push(1);
            out.extend_from_slice(&by.payee.0.to_le_bytes());
            out.extend_from_slice(&by.currency.letters());
            out.extend_from_slice(&by.unit.0.to_le_bytes());
            out.extend_from_slice(&by.secret.0);
        }
        Charging::Tokens(by) => {
            out.push(2);
            put_text(out, &by.wallet);
            out.extend_from_slice(&by.currency.letters());
            out.extend_from_slice(&by.unit.to_le_bytes());
            out.extend_from_slice(&by.secret.0);
        }
    }
}

pub(crate) fn read_charging(bytes: &[u8]) -> Option<Charging> {
    let mut from = Cursor(bytes);
    let charging = match from.array()? {
        [0] => Charging::Credit,
        [1] => Charging::Transfers(ByTransfers {
            payee: ParticipantId(u32::from_le_bytes(from.array()?)),
            currency: Currency::from_letters(from.array()?)?,
            unit: Amount(i64::from_le_bytes(from.array()?)),
            secret: Secret(from.array()?),
        }),
        [2] => Charging::Tokens(ByTokens {
            wallet: Name::from(from.text()?),
            currency: Currency::from_letters(from.array()?)?,
            unit: u64::from_le_bytes(from.array()?),
            secret: Secret(from.array()?),
        }),
        _ => return None,
    };
    from.0.is_empty().then_some(charging)
}

pub(crate) fn read_checkout(bytes: &[u8]) -> Option<CheckoutRow> {
    let mut from = Cursor(bytes);
    let (order, tr, start) = (id(&mut from)?, try_number(&mut from)?, from.varint()?);
    let (started_at, deadline, waits_since) = (from.signed()?, from.signed()?, from.signed()?);
    let [outside] = from.array()?;
    let (pay, stock) = (read_side(&mut from)?, read_side(&mut from)?);
    let [undo] = from.array()?;
    let undo = if undo == UNDECIDED { None } else { Some(sides_of(undo)?) };
    let row = CheckoutRow {
        order,
        tr,
        start,
        started_at,
        deadline,
        outside: sides_of(outside & !(HAS_TRANSFER | HAS_TOKENS))?,
        pay,
        stock,
        undo,
        why: why(&mut from)?,
        waits_since,
        keys: from.list(|from| from.text().map(Name::from))?,
        charge: read_charge(outside, &mut from)?,
    };
    from.0.is_empty().then_some(row)
}

pub(crate) fn write_key(row: &KeyRow, out: &mut Vec<u8>) {
    put_text(out, &row.key);
    out.extend_from_slice(&row.body.0.to_le_bytes());
    put_text(out, row.order.as_str());
    out.extend_from_slice(&match row.answer {
        None => [0, 0],
        Some(CheckoutAnswer::Paid { .. }) => [1, 0],
        Some(CheckoutAnswer::AlreadyPaid { .. }) => [2, 0],
        Some(CheckoutAnswer::Failed { why, .. }) => [3, why as u8],
        Some(CheckoutAnswer::Open { .. }) => unreachable!("an open checkout is no stored answer"),
    });
    row.answer.iter().for_each(|answer| put(out, u64::from(answer.tr().get())));
    put(out, zigzag(row.ends_at));
}

pub(crate) fn read_key(bytes: &[u8]) -> Option<KeyRow> {
    let mut from = Cursor(bytes);
    let key = Name::from(from.text()?);
    let body = Fingerprint(u128::from_le_bytes(from.array()?));
    let order = id(&mut from)?;
    let [kind] = from.array()?;
    let why = why(&mut from)?;
    let answer = match (kind, why) {
        (0, None) => None,
        (1, None) => Some(CheckoutAnswer::Paid { tr: try_number(&mut from)? }),
        (2, None) => Some(CheckoutAnswer::AlreadyPaid { tr: try_number(&mut from)? }),
        (3, Some(why)) => Some(CheckoutAnswer::Failed { tr: try_number(&mut from)?, why }),
        _ => return None,
    };
    let row = KeyRow { key, body, order, answer, ends_at: from.signed()? };
    from.0.is_empty().then_some(row)
}

fn id<T: std::str::FromStr>(from: &mut Cursor<'_>) -> Option<T> {
    from.text()?.parse().ok()
}

fn whole(from: &mut Cursor<'_>) -> Option<Whole> {
    Whole::new(from.varint()?).ok()
}

fn try_number(from: &mut Cursor<'_>) -> Option<TrNum> {
    TrNum::try_from(from.varint::<u64>()?).ok()
}

#[allow(clippy::option_option, reason = "none and not readable are different")]
fn why(from: &mut Cursor<'_>) -> Option<Option<Why>> {
    match from.array()? {
        [0] => Some(None),
        [number] => Why::ALL.into_iter().find(|why| *why as u8 == number).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn ids<T: std::str::FromStr<Err: std::fmt::Debug> + std::fmt::Debug>() -> impl Strategy<Value = T> {
        "[a-zé0-9-]{1,40}".prop_map(|text| text.parse().unwrap())
    }

    fn wholes() -> impl Strategy<Value = Whole> {
        (0..=i64::MAX as u64).prop_map(|number| Whole::new(number).unwrap())
    }

    fn tries() -> impl Strategy<Value = TrNum> {
        (1..=u64::from(u32::MAX)).prop_map(|number| TrNum::try_from(number).unwrap())
    }

    fn whys() -> impl Strategy<Value = Why> {
        select(Why::ALL.to_vec())
    }

    prop_compose! {
        fn orders()(
            (order_id, user_id, amount) in (ids(), ids(), wholes()),
            lines in vec((ids(), 0..1_000_u64), 0..12),
            (kind, tr, failed, life) in (0..5_u8, tries(), option::of(whys()), any::<u32>()),
        ) -> OrderRow {
            let line = |(id, amnt)| Line { id, amnt: Whole::new(amnt).unwrap() };
            let items = Items::new(lines.into_iter().map(line).collect()).unwrap();
            let state = match kind {
                0 => OrderState::NotPaid(None),
                1 => OrderState::NotPaid(Some(tr)),
                2 => OrderState::Pending(tr),
                3 => OrderState::Paid(tr),
                _ => OrderState::Cancelling(tr),
            };
            OrderRow { order: Order { order_id, user_id, items, amount, state }, failed, life }
        }
    }

    fn all_sides() -> impl Strategy<Value = Sides> {
        any::<(bool, bool)>().prop_map(|(pay, stock)| Sides { pay, stock })
    }

    prop_compose! {
        fn side_rows()(bytes in (0..3_u8, 0..2_u8, 0..7_u8)) -> SideRow {
            read_side(&mut Cursor(&[bytes.0, bytes.1, bytes.2])).unwrap()
        }
    }

    prop_compose! {
        fn charges()(id in any::<u128>(), fulfilment in option::of(any::<[u8; 32]>())) -> Charge {
            let id = TransferId(id);
            match fulfilment {
                Some(secret) => Charge::Transfer { transfer: id, fulfilment: Secret(secret) },
                None => Charge::Tokens { spender: id },
            }
        }
    }

    prop_compose! {
        fn chargings()(
            (payee, unit, secret) in any::<(u32, i64, [u8; 32])>(),
            (kind, wallet) in (0..3_u8, "[a-z]{1,30}"),
        ) -> Charging {
            let currency = "EUR".parse().unwrap();
            let (payee, unit, secret) = (ParticipantId(payee), Amount(unit), Secret(secret));
            match kind {
                0 => Charging::Credit,
                1 => Charging::Transfers(ByTransfers { payee, currency, unit, secret }),
                _ => {
                    let unit = unit.0.unsigned_abs();
                    Charging::Tokens(ByTokens { wallet: wallet.as_str().into(), currency, unit, secret })
                }
            }
        }
    }

    prop_compose! {
        fn checkouts()(
            (order, tr, start) in (ids(), tries(), any::<u64>()),
            (started_at, deadline, waits_since) in any::<(i64, i64, i64)>(),
            (outside, pay, stock) in (all_sides(), side_rows(), side_rows()),
            (undo, why) in (option::of(all_sides()), option::of(whys())),
            keys in vec("[a-z]{1,20}".prop_map(Name::from), 0..4),
            charge in option::of(charges()),
        ) -> CheckoutRow {
            CheckoutRow { order, tr, start, started_at, deadline, outside, pay, stock, undo, why, waits_since, keys, charge }
        }
    }

    prop_compose! {
        fn keys()(
            (key, body, order) in ("[a-z]{1,20}".prop_map(Name::from), any::<u128>(), ids()),
            (kind, tr, why, ends_at) in (0..4_u8, tries(), whys(), any::<i64>()),
        ) -> KeyRow {
            let answer = match kind {
                0 => None,
                1 => Some(CheckoutAnswer::Paid { tr }),
                2 => Some(CheckoutAnswer::AlreadyPaid { tr }),
                _ => Some(CheckoutAnswer::Failed { tr, why }),
            };
            KeyRow { key, body: Fingerprint(body), order, answer, ends_at }
        }
    }

    /// It comes back, no part of it does, and whatever can be read is what would be written.
    fn comes_back<T: PartialEq + std::fmt::Debug>(
        row: &T,
        write: impl Fn(&T, &mut Vec<u8>),
        read: impl Fn(&[u8]) -> Option<T>,
        (at, byte): (prop::sample::Index, u8),
    ) {
        let mut bytes = Vec::new();
        write(row, &mut bytes);
        assert_eq!(read(&bytes).as_ref(), Some(row));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None, "cut at {length}");
        }
        *at.get_mut(&mut bytes) = byte;
        if let Some(other) = read(&bytes) {
            let mut again = Vec::new();
            write(&other, &mut again);
            assert_eq!(again, bytes);
        }
    }

    /// These bytes lie in checkpoints and archives: a change here makes them unreadable.
    #[test]
    fn rows_are_written_as_they_always_were() {
        fn hex<T>(row: &T, write: impl Fn(&T, &mut Vec<u8>)) -> String {
            let mut bytes = Vec::new();
            write(row, &mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
        let number = |number| Whole::new(number).unwrap();
        let tr = |number| TrNum::try_from(number).unwrap();
        let line = |id: &str, amnt| Line { id: id.parse().unwrap(), amnt: number(amnt) };
        let user = UserRow { id: "u1".parse().unwrap(), credit: number(300) };
        assert_eq!(hex(&user, write_user), "027531ac02");
        let item = ItemRow { id: "i1".parse().unwrap(), stock: number(7), price: number(9) };
        assert_eq!(hex(&item, write_item), "0269310709");
        let order = Order {
            order_id: "o1".parse().unwrap(),
            user_id: "u1".parse().unwrap(),
            items: Items::new(vec![line("a", 1), line("b", 2)]).unwrap(),
            amount: number(500),
            state: OrderState::Cancelling(tr(3)),
        };
        let row = OrderRow { order, failed: Some(Why::Stock), life: 1 };
        assert_eq!(hex(&row, write_order), "026f3102753102016101016202f40304030201");
        let life = |_: &(), out: &mut Vec<u8>| write_life(&row.order.order_id, 300, out);
        assert_eq!(hex(&(), life), "026f31ac02");
        let given_back = Some(SideBranch::GivenBack);
        let checkout = CheckoutRow {
            order: "o1".parse().unwrap(),
            tr: tr(3),
            start: 1_000,
            started_at: 10,
            deadline: 20,
            outside: Sides { pay: false, stock: true },
            pay: SideRow { said: Some(SideSaid::Taken), undone: true, branch: given_back },
            stock: SideRow::default(),
            undo: Some(Sides::BOTH),
            why: Some(Why::Cancelled),
            waits_since: -1,
            keys: vec!["k".into()],
            charge: None,
        };
        assert_eq!(hex(&checkout, write_checkout), "026f3103e80714280102010103000000030401016b");
        let charge = Charge::Transfer { transfer: TransferId(0x0102), fulfilment: Secret([7; 32]) };
        let charged = CheckoutRow { charge: Some(charge), ..checkout.clone() };
        let tail = format!("0201{}{}", "00".repeat(14), "07".repeat(32));
        let bytes = format!("026f3103e80714280106010103000000030401016b{tail}");
        assert_eq!(hex(&charged, write_checkout), bytes);
        let charge = Charge::Tokens { spender: TransferId(0x0102) };
        let charged = CheckoutRow { charge: Some(charge), ..checkout };
        let bytes = format!("026f3103e8071428010a010103000000030401016b0201{}", "00".repeat(14));
        assert_eq!(hex(&charged, write_checkout), bytes);
        let by = ByTransfers {
            payee: ParticipantId(3),
            currency: "EUR".parse().unwrap(),
            unit: Amount(100),
            secret: Secret([9; 32]),
        };
        let bytes = format!("01030000004555526400000000000000{}", "09".repeat(32));
        assert_eq!(hex(&Charging::Transfers(by), write_charging), bytes);
        let (wallet, currency) = ("shop".into(), "EUR".parse().unwrap());
        let by = ByTokens { wallet, currency, unit: 100, secret: Secret([9; 32]) };
        let bytes = format!("020473686f704555526400000000000000{}", "09".repeat(32));
        assert_eq!(hex(&Charging::Tokens(by), write_charging), bytes);
        let body = Fingerprint(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100);
        let answer = Some(CheckoutAnswer::Failed { tr: tr(2), why: Why::Deadline });
        let key = KeyRow { key: "k".into(), body, order: "o1".parse().unwrap(), answer, ends_at: 77 };
        assert_eq!(hex(&key, write_key), "016b000102030405060708090a0b0c0d0e0f026f310305029a01");
        let key = KeyRow { answer: None, ..key };
        assert_eq!(hex(&key, write_key), "016b000102030405060708090a0b0c0d0e0f026f3100009a01");
    }

    proptest! {
        #[test]
        fn every_row_comes_back(
            (order, checkout, key, charging) in (orders(), checkouts(), keys(), chargings()),
            (user, item) in ((ids(), wholes()), (ids(), wholes(), wholes())),
            change in any::<(prop::sample::Index, u8)>(),
        ) {
            comes_back(&order, write_order, read_order, change);
            comes_back(&checkout, write_checkout, read_checkout, change);
            comes_back(&key, write_key, read_key, change);
            comes_back(&charging, write_charging, read_charging, change);
            let user = UserRow { id: user.0, credit: user.1 };
            comes_back(&user, write_user, read_user, change);
            let item = ItemRow { id: item.0, stock: item.1, price: item.2 };
            comes_back(&item, write_item, read_item, change);
            let life = (order.order.order_id.clone(), order.life);
            comes_back(&life, |(order, life), out| write_life(order, *life, out), read_life, change);
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
            let _ = (read_user(&bytes), read_item(&bytes), read_order(&bytes));
            let _ = (read_checkout(&bytes), read_key(&bytes), read_life(&bytes));
        }
    }
}
