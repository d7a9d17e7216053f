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

use crate::golden_records::with_bytes;
use crate::shop_world::{as_command, by_tokens, by_transfers, tr, whole};
use crate::world::written;

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

fn checkout(order: &str, key: Option<&str>, chosen: Option<&[&str]>) -> ShopCommand {
    let body = Fingerprint(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f);
    let key = key.map(|key| IdempotencyKey { key: key.into(), body });
    let number = TransferId(0x2021_2223_2425_8627_a829_2a2b_2c2d_2e2f);
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect();
    let chosen = chosen.map(|chosen| Box::new(ChosenTokens::new(number, ids(chosen))));
    let deadline_ms = 0x0102_0304;
    ShopCommand::Checkout(CheckoutOrder { order: id(order), deadline_ms, key, chosen })
}

/// Every kind of record: its name, the command, its bytes.
pub fn golden() -> Vec<(&'static str, Command, Vec<u8>)> {
    use ShopCommand as C;
    let two = whole(2);
    let key = TryKey { order_id: id("o1"), tr_num: tr(3) };
    let init_orders = C::InitOrders { first: 1, count: 2, items: 3, users: 4, price: whole(5), seed: 6 };
    let commands = vec![
        ("shop create user", C::CreateUser { id: id("u1"), credit: whole(0x0102) }),
        ("shop create item", C::CreateItem { id: id("i1"), stock: whole(7), price: whole(9) }),
        ("shop create order", C::CreateOrder { id: id("o1"), user: id("u1") }),
        ("shop init users", C::InitUsers { first: 1, count: 0x0203, credit: whole(4) }),
        ("shop init items", C::InitItems { first: 1, count: 2, stock: whole(3), price: whole(4) }),
        ("shop init orders", init_orders),
        ("shop add item", C::AddItem { order: id("o1"), item: id("i1"), quantity: two }),
        ("shop add funds", C::AddFunds { user: id("u1"), amount: two }),
        ("shop take funds", C::TakeFunds { user: id("u1"), amount: two }),
        ("shop add stock", C::AddStock { item: id("i1"), amount: two }),
        ("shop take stock", C::TakeStock { item: id("i1"), amount: two }),
        ("shop answer", C::Answer { key, side: Side::Stock, said: Said::Undone }),
        ("shop cancel", C::Cancel { order: id("o1") }),
        ("shop retry", C::Retry { order: id("o1"), deadline_ms: 0x0102 }),
        ("shop set outside", C::SetOutside { outside: Sides { pay: false, stock: true } }),
        ("shop set charging to credit", C::SetCharging { charging: Charging::Credit }),
        ("shop set charging to transfers", C::SetCharging { charging: by_transfers(3, 100, 9) }),
        ("shop set charging to tokens", C::SetCharging { charging: Charging::Tokens(by_tokens(100, 9)) }),
        ("shop checkout", checkout("o1", None, None)),
        ("shop checkout of the longest order that fits a unit", checkout(&"a".repeat(47), None, None)),
        ("shop checkout of a longer order", checkout(&"a".repeat(48), None, None)),
        ("shop checkout with a key", checkout("o1", Some("k"), None)),
        ("shop checkout with tokens", checkout("o1", None, Some(&["t1", "t"]))),
        ("shop checkout with a key and no tokens to be had", checkout("o1", Some("k"), Some(&[]))),
    ];
    with_bytes(commands.into_iter().map(|(name, command)| (name, as_command(command))).collect())
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
    /// What can be read is what would be written, and the length of a checkout was foreseen.
    #[test]
    fn a_command_has_one_record(command in shop_command(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = written(&command);
        let Command::Shop(shop) = &command else { unreachable!() };
        if let ShopCommand::Checkout(checkout) = &**shop {
            prop_assert!(bytes.len() <= checkout.record_bytes_max());
        }
        prop_assert_eq!(records::read(&bytes), Ok((command, bytes.len())));
        *at.get_mut(&mut bytes) = byte;
        if let Ok((other, length)) = records::read(&bytes) {
            prop_assert_eq!(&written(&other)[..], &bytes[..length]);
        }
    }
}
