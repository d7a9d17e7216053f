//! The bytes of the shop's rows as they lie in checkpoints and archives. `holdfast_domain::codec` makes them.

use crate::conformance::shop::{id, whole};
use crate::held::{self, Change};
use holdfast_domain::codec::{Packed, Put, Take, read};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::shop::{
    ByTokens, ByTransfers, Charge, Charging, CheckoutAnswer, CheckoutRow, ItemRow, Items, KeyRow, Line,
    Order, OrderId, OrderRow, OrderState, Secret, SideBranch, SideRow, SideSaid, Sides, TrNum, UserRow,
    Whole, Why,
};
use holdfast_domain::tokens::{Fingerprint, Name};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

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
        read::<Packed, SideRow>(&[bytes.0, bytes.1, bytes.2]).unwrap()
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

fn bytes_of(row: &impl Put) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.put::<Packed>(&mut bytes);
    bytes
}

fn comes_back<T: Put + Take + PartialEq + std::fmt::Debug>(row: &T, change: Change) {
    held::comes_back(row, change, |row, out| row.put::<Packed>(out), |bytes| read::<Packed, T>(bytes).ok());
}

/// These bytes lie in checkpoints and archives: a change here makes them unreadable.
#[test]
fn rows_are_written_as_they_always_were() {
    fn hex(row: &impl Put) -> String {
        bytes_of(row).iter().map(|byte| format!("{byte:02x}")).collect()
    }
    let tr = |number| TrNum::try_from(number).unwrap();
    let line = |name: &str, amnt| Line { id: id(name), amnt: whole(amnt) };
    let user = UserRow { id: id("u1"), credit: whole(300) };
    assert_eq!(hex(&user), "027531ac02");
    let item = ItemRow { id: id("i1"), stock: whole(7), price: whole(9) };
    assert_eq!(hex(&item), "0269310709");
    let order = Order {
        order_id: id("o1"),
        user_id: id("u1"),
        items: Items::new(vec![line("a", 1), line("b", 2)]).unwrap(),
        amount: whole(500),
        state: OrderState::Cancelling(tr(3)),
    };
    let row = OrderRow { order, failed: Some(Why::Stock), life: 1 };
    assert_eq!(hex(&row), "026f3102753102016101016202f40304030201");
    assert_eq!(hex(&(&row.order.order_id, 300_u32)), "026f31ac02");
    let given_back = Some(SideBranch::GivenBack);
    let checkout = CheckoutRow {
        order: id("o1"),
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
    assert_eq!(hex(&checkout), "026f3103e80714280102010103000000030401016b");
    let charge = Charge::Transfer { transfer: TransferId(0x0102), fulfilment: Secret([7; 32]) };
    let charged = CheckoutRow { charge: Some(charge), ..checkout.clone() };
    let tail = format!("0201{}{}", "00".repeat(14), "07".repeat(32));
    let bytes = format!("026f3103e80714280106010103000000030401016b{tail}");
    assert_eq!(hex(&charged), bytes);
    let charge = Charge::Tokens { spender: TransferId(0x0102) };
    let charged = CheckoutRow { charge: Some(charge), ..checkout };
    let bytes = format!("026f3103e8071428010a010103000000030401016b0201{}", "00".repeat(14));
    assert_eq!(hex(&charged), bytes);
    let by = ByTransfers {
        payee: ParticipantId(3),
        currency: "EUR".parse().unwrap(),
        unit: Amount(100),
        secret: Secret([9; 32]),
    };
    let bytes = format!("01030000004555526400000000000000{}", "09".repeat(32));
    assert_eq!(hex(&Charging::Transfers(by)), bytes);
    let (wallet, currency) = ("shop".into(), "EUR".parse().unwrap());
    let by = ByTokens { wallet, currency, unit: 100, secret: Secret([9; 32]) };
    let bytes = format!("020473686f704555526400000000000000{}", "09".repeat(32));
    assert_eq!(hex(&Charging::Tokens(by)), bytes);
    let body = Fingerprint(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100);
    let answer = Some(CheckoutAnswer::Failed { tr: tr(2), why: Why::Deadline });
    let key = KeyRow { key: "k".into(), body, order: id("o1"), answer, ends_at: 77 };
    assert_eq!(hex(&key), "016b000102030405060708090a0b0c0d0e0f026f310305029a01");
    let key = KeyRow { answer: None, ..key };
    assert_eq!(hex(&key), "016b000102030405060708090a0b0c0d0e0f026f3100009a01");
}

proptest! {
    #[test]
    fn every_row_comes_back(
        (order, checkout, key, charging) in (orders(), checkouts(), keys(), chargings()),
        (user, item) in ((ids(), wholes()), (ids(), wholes(), wholes())),
        change in any::<Change>(),
    ) {
        comes_back(&order, change);
        comes_back(&checkout, change);
        comes_back(&key, change);
        comes_back(&charging, change);
        let user = UserRow { id: user.0, credit: user.1 };
        comes_back(&user, change);
        let item = ItemRow { id: item.0, stock: item.1, price: item.2 };
        comes_back(&item, change);
        let life = (order.order.order_id.clone(), order.life);
        comes_back(&life, change);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        let _ = (read::<Packed, UserRow>(&bytes), read::<Packed, ItemRow>(&bytes));
        let _ = (read::<Packed, OrderRow>(&bytes), read::<Packed, CheckoutRow>(&bytes));
        let _ = (read::<Packed, KeyRow>(&bytes), read::<Packed, (OrderId, u32)>(&bytes));
    }
}
