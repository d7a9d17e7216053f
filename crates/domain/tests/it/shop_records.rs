//! The records of the shop: their bytes, which lie in logs and may never change, and what is refused of them.
//!
//! The golden ones are part of [`crate::golden_records`], whose tests run over all kinds.

use holdfast_domain::command::Command;
use holdfast_domain::ids::TransferId;
use holdfast_domain::records::{self, Kind, RecordError, UNIT};
use holdfast_domain::shop::{
    ByTokens, Charging, CheckoutOrder, ChosenTokens, IdempotencyKey, Said, ShopCommand, Side, Sides, TryKey,
};
use holdfast_domain::tokens::Fingerprint;
use proptest::prelude::*;

use crate::golden_records::{bad, bytes_of, record};
use crate::shop_world::{as_command, by_tokens, by_transfers, tr, whole};
use crate::world::written;

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn checkout(order: &str, key: Option<&str>, chosen: Option<&[&str]>) -> Command {
    let body = Fingerprint(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
    let key = key.map(|key| IdempotencyKey { key: key.into(), body });
    let number = TransferId(0x2021_2223_2425_8627_a829_2a2b_2c2d_2e2f);
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect();
    let chosen = chosen.map(|chosen| Box::new(ChosenTokens::new(number, ids(chosen))));
    let deadline_ms = 0x0102_0304;
    as_command(ShopCommand::Checkout(CheckoutOrder { order: id(order), deadline_ms, key, chosen }))
}

/// Every kind of record: its name, the command, its bytes.
pub fn golden() -> Vec<(&'static str, Command, Vec<u8>)> {
    let zeros = "00".repeat(52);
    let zeros = zeros.as_str();
    let (long, inline_zeros) = ("61".repeat(48), "00".repeat(47));
    const BODY: &str = "1f1e1d1c1b1a19181716151413121110";
    vec![
        (
            "shop create user",
            as_command(ShopCommand::CreateUser { id: id("u1"), credit: whole(0x0102) }),
            record(&["30 00 0200 00000000 0c000000", zeros, "0200 7531 0201000000000000"], 2),
        ),
        (
            "shop create item",
            as_command(ShopCommand::CreateItem { id: id("i1"), stock: whole(7), price: whole(9) }),
            record(
                &["31 00 0200 00000000 14000000", zeros, "0200 6931 0700000000000000 0900000000000000"],
                2,
            ),
        ),
        (
            "shop create order",
            as_command(ShopCommand::CreateOrder { id: id("o1"), user: id("u1") }),
            record(&["32 00 0200 00000000 08000000", zeros, "0200 6f31 0200 7531"], 2),
        ),
        (
            "shop init users",
            as_command(ShopCommand::InitUsers { first: 1, count: 0x0203, credit: whole(4) }),
            record(&["33 00 0200 00000000 14000000", zeros, "0100000000000000 03020000 0400000000000000"], 2),
        ),
        (
            "shop init items",
            as_command(ShopCommand::InitItems { first: 1, count: 2, stock: whole(3), price: whole(4) }),
            record(
                &[
                    "34 00 0200 00000000 1c000000",
                    zeros,
                    "0100000000000000 02000000 0300000000000000 0400000000000000",
                ],
                2,
            ),
        ),
        (
            "shop init orders",
            as_command(ShopCommand::InitOrders {
                first: 1,
                count: 2,
                items: 3,
                users: 4,
                price: whole(5),
                seed: 6,
            }),
            record(
                &[
                    "35 00 0200 00000000 2c000000",
                    zeros,
                    "0100000000000000 02000000 0300000000000000 0400000000000000 0500000000000000 0600000000000000",
                ],
                2,
            ),
        ),
        (
            "shop add item",
            as_command(ShopCommand::AddItem { order: id("o1"), item: id("i1"), quantity: whole(2) }),
            record(&["36 00 0200 00000000 10000000", zeros, "0200 6f31 0200 6931 0200000000000000"], 2),
        ),
        (
            "shop add funds",
            as_command(ShopCommand::AddFunds { user: id("u1"), amount: whole(2) }),
            record(&["37 00 0200 00000000 0c000000", zeros, "0200 7531 0200000000000000"], 2),
        ),
        (
            "shop take funds",
            as_command(ShopCommand::TakeFunds { user: id("u1"), amount: whole(2) }),
            record(&["38 00 0200 00000000 0c000000", zeros, "0200 7531 0200000000000000"], 2),
        ),
        (
            "shop add stock",
            as_command(ShopCommand::AddStock { item: id("i1"), amount: whole(2) }),
            record(&["39 00 0200 00000000 0c000000", zeros, "0200 6931 0200000000000000"], 2),
        ),
        (
            "shop take stock",
            as_command(ShopCommand::TakeStock { item: id("i1"), amount: whole(2) }),
            record(&["3a 00 0200 00000000 0c000000", zeros, "0200 6931 0200000000000000"], 2),
        ),
        (
            "shop answer",
            as_command(ShopCommand::Answer {
                key: TryKey { order_id: id("o1"), tr_num: tr(3) },
                side: Side::Stock,
                said: Said::Undone,
            }),
            record(&["3c 00 0200 00000000 0a000000", zeros, "0200 6f31 03000000 02 03"], 2),
        ),
        (
            "shop cancel",
            as_command(ShopCommand::Cancel { order: id("o1") }),
            record(&["3d 00 0200 00000000 04000000", zeros, "0200 6f31"], 2),
        ),
        (
            "shop retry",
            as_command(ShopCommand::Retry { order: id("o1"), deadline_ms: 0x0102 }),
            record(&["3e 00 0200 00000000 08000000", zeros, "0200 6f31 02010000"], 2),
        ),
        (
            "shop set outside",
            as_command(ShopCommand::SetOutside { outside: Sides { pay: false, stock: true } }),
            record(&["3f 00 0200 00000000 01000000", zeros, "02"], 2),
        ),
        (
            "shop set charging to credit",
            as_command(ShopCommand::SetCharging { charging: Charging::Credit }),
            record(&["40 00 0200 00000000 01000000", zeros, "00"], 2),
        ),
        (
            "shop set charging to transfers",
            as_command(ShopCommand::SetCharging { charging: by_transfers(3, 100, 9) }),
            record(
                &[
                    "40 00 0200 00000000 30000000",
                    zeros,
                    "01 03000000 555344 6400000000000000",
                    &"09".repeat(32),
                ],
                2,
            ),
        ),
        (
            "shop set charging to tokens",
            as_command(ShopCommand::SetCharging { charging: Charging::Tokens(by_tokens(100, 9)) }),
            record(
                &[
                    "40 00 0200 00000000 32000000",
                    zeros,
                    "02 0400 73686f70 555344 6400000000000000",
                    &"09".repeat(32),
                ],
                2,
            ),
        ),
        (
            "shop checkout",
            checkout("o1", None, None),
            record(&["3b 00 0100 00000000 00000000 04030201 02 6f31"], 1),
        ),
        (
            "shop checkout of the longest order that fits a unit",
            checkout(&"a".repeat(47), None, None),
            record(&["3b 00 0100 00000000 00000000 04030201 2f", &"61".repeat(47)], 1),
        ),
        (
            "shop checkout of a longer order",
            checkout(&"a".repeat(48), None, None),
            record(&["3b 00 0200 00000000 32000000 04030201 00", &inline_zeros, "3000", &long], 2),
        ),
        (
            "shop checkout with a key",
            checkout("o1", Some("k"), None),
            record(&["3b 01 0200 00000000 13000000 04030201 02 6f31", &"00".repeat(45), "0100 6b", BODY], 2),
        ),
        (
            "shop checkout with tokens",
            checkout("o1", None, Some(&["t1", "t"])),
            record(
                &[
                    "3b 02 0200 00000000 1b000000 04030201 02 6f31",
                    &"00".repeat(45),
                    "2f2e2d2c2b2a29a82786252423222120",
                    "02000000 0200 7431 0100 74",
                ],
                2,
            ),
        ),
        (
            "shop checkout with a key and no tokens to be had",
            checkout("o1", Some("k"), Some(&[])),
            record(
                &[
                    "3b 03 0200 00000000 27000000 04030201 02 6f31",
                    &"00".repeat(45),
                    "0100 6b",
                    BODY,
                    "2f2e2d2c2b2a29a82786252423222120",
                    "00000000",
                ],
                2,
            ),
        ),
    ]
}

#[test]
fn a_client_may_send_a_checkout_and_nothing_else_of_the_shop() {
    for (name, command, bytes) in golden() {
        let mut sent = bytes.clone();
        let sealed = records::seal(&mut sent);
        let kind = Kind::from_number(bytes[0]).unwrap();
        if kind != Kind::ShopCheckout {
            assert_eq!(sealed, Err(RecordError::NotForClients(kind)), "{name}");
        } else if bytes.len() == UNIT {
            assert_eq!(sealed, Ok((command, UNIT)), "{name}");
        } else {
            assert_eq!(sealed, Err(RecordError::WrongLength { kind, units: bytes.len() / UNIT }), "{name}");
        }
    }
}

#[test]
fn fields_that_hold_no_value_of_theirs_are_refused() {
    let named = |name: &str| golden().into_iter().find(|(of, ..)| *of == name).unwrap().2;
    let with = |name: &str, at: usize, hex: &str| {
        let (mut bytes, new) = (named(name), bytes_of(hex));
        bytes[at..at + new.len()].copy_from_slice(&new);
        records::read(&bytes).unwrap_err()
    };
    assert_eq!(with("shop create user", UNIT + 11, "80"), bad("number", "is too large"));
    assert_eq!(with("shop create user", UNIT, "0000"), bad("id", "is not of 1 to 128 characters"));
    assert_eq!(with("shop create user", UNIT + 2, "ff"), bad("text", "is not UTF-8"));
    assert_eq!(with("shop init users", UNIT + 8, "01100000"), bad("count", "is too large"));
    assert_eq!(with("shop answer", UNIT + 4, "00000000"), bad("try", "is 0"));
    assert_eq!(with("shop answer", UNIT + 8, "03"), bad("side", "is not 1 or 2"));
    assert_eq!(with("shop answer", UNIT + 9, "04"), bad("answer", "is not 1, 2 or 3"));
    assert_eq!(with("shop set outside", UNIT, "04"), bad("sides", "hold a bit that is no side"));
    assert_eq!(with("shop retry", UNIT + 4, "00000000"), bad("deadline", "is not 1 ms to a day"));
    assert_eq!(with("shop checkout", 12, "015c2605"), bad("deadline", "is not 1 ms to a day"));
    assert_eq!(with("shop checkout", 16, "00"), bad("order", "is of no length and there"));
    assert_eq!(with("shop checkout", 16, "01"), bad("padding", "must be zero"));
    assert_eq!(with("shop checkout", 16, "30"), bad("order", "is longer than its place"));
    assert_eq!(with("shop checkout", 17, "ff"), bad("text", "is not UTF-8"));
    assert_eq!(with("shop checkout", 1, "01"), bad("tail", "ends in the middle of a field"));
    assert_eq!(with("shop checkout", 1, "02"), bad("tail", "ends in the middle of a field"));
    assert_eq!(with("shop checkout", 1, "04"), bad("flags", "hold a bit that this kind does not have"));
    assert_eq!(with("shop checkout with a key", 1, "00"), bad("tail", "goes on after its last field"));
    assert_eq!(
        with("shop checkout of a longer order", UNIT, "2f00"),
        bad("order", "is short enough for the unit and lies in the tail")
    );
}

fn ids() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,60}", "[é中]{1,40}", Just("x".repeat(128))]
}

fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000_u64, Just(i64::MAX as u64)]
}

/// Any command of the shop.
pub fn shop_command() -> impl Strategy<Value = Command> {
    let texts = (ids(), ids(), proptest::option::of(("[a-z]{1,255}", any::<u128>())));
    let values = (numbers(), numbers(), any::<u64>(), 0..=4_096_u32, 1..=86_400_000_u32, 1..=u32::MAX);
    (0..17_u8, texts, values).prop_map(|(kind, (one, two, key), (a, b, n, count, deadline_ms, number))| {
        let key = key.map(|(key, body)| IdempotencyKey { key: key.into(), body: Fingerprint(body) });
        let chosen = (a % 2 == 0).then(|| {
            let ids = (0..b % 5).map(|number| format!("{two}{number}").as_str().into()).collect();
            Box::new(ChosenTokens::new(TransferId(u128::from(n)), ids))
        });
        as_command(match kind {
            0 => ShopCommand::CreateUser { id: id(&one), credit: whole(a) },
            1 => ShopCommand::CreateItem { id: id(&one), stock: whole(a), price: whole(b) },
            2 => ShopCommand::CreateOrder { id: id(&one), user: id(&two) },
            3 => ShopCommand::InitUsers { first: n, count, credit: whole(a) },
            4 => ShopCommand::InitItems { first: n, count, stock: whole(a), price: whole(b) },
            5 => ShopCommand::InitOrders { first: n, count, items: a, users: b, price: whole(a), seed: n },
            6 => ShopCommand::AddItem { order: id(&one), item: id(&two), quantity: whole(a) },
            7 => ShopCommand::AddFunds { user: id(&one), amount: whole(a) },
            8 => ShopCommand::TakeFunds { user: id(&one), amount: whole(a) },
            9 => ShopCommand::AddStock { item: id(&one), amount: whole(a) },
            10 => ShopCommand::TakeStock { item: id(&one), amount: whole(a) },
            11 => ShopCommand::Answer {
                key: TryKey { order_id: id(&one), tr_num: tr(u64::from(number)) },
                side: Side::ALL[count as usize % 2],
                said: [Said::Taken, Said::Refused, Said::Undone][count as usize % 3],
            },
            12 => ShopCommand::Cancel { order: id(&one) },
            13 => ShopCommand::Retry { order: id(&one), deadline_ms },
            14 => ShopCommand::SetOutside { outside: Sides { pay: n & 1 != 0, stock: n & 2 != 0 } },
            15 if count % 2 == 0 => ShopCommand::SetCharging {
                charging: Charging::Tokens(ByTokens { wallet: two.as_str().into(), ..by_tokens(n, 3) }),
            },
            15 => ShopCommand::SetCharging {
                charging: by_transfers(count, n.cast_signed(), number.to_le_bytes()[0]),
            },
            _ => ShopCommand::Checkout(CheckoutOrder { order: id(&one), deadline_ms, key, chosen }),
        })
    })
}

proptest! {
    /// What can be read is what would be written, and its length was foreseen.
    #[test]
    fn a_command_has_one_record(command in shop_command(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = written(&command);
        let Command::Shop(shop) = &command else { unreachable!() };
        prop_assert!(bytes.len() <= shop.record_bytes_max());
        prop_assert_eq!(records::read(&bytes), Ok((command, bytes.len())));
        *at.get_mut(&mut bytes) = byte;
        if let Ok((other, length)) = records::read(&bytes) {
            prop_assert_eq!(&written(&other)[..], &bytes[..length]);
        }
    }
}
