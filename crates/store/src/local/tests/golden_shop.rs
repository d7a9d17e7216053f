//! What a store with a shop writes, committed, as `golden` does it for tokens: every part of a checkpoint that the shop has (18 to
//! 25), a paid order in the archive, and both ways to charge that are no credit. `HOLDFAST_BLESS=1` writes the fixtures for a
//! new version.

use holdfast_domain::effects::{Effects, ShopRows};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::shop::{
    ByTokens, ByTransfers, Charge, Charging, CheckoutAnswer, CheckoutRow, ItemRow, Items, KeyRow, Line,
    Order, OrderRow, OrderState, Secret, ShopCounts, ShopEffect, SideBranch, SideRow, SideSaid, Sides, TrNum,
    UserRow, Why,
};
use holdfast_domain::tokens::Fingerprint;
use holdfast_domain::view::{Checkouts, Items as _, KeyEnds, Orders, ShopSettings, ShopSize, Users};

use super::golden::{assert_committed, read_committed, written_by};
use super::*;
use crate::conformance::shop::{id, whole};
use crate::held::committed;

const BEGUN: Millis = 1_790_000_000_000;

/// Files of the store, and the fixtures that they must equal.
const FILES: [(&str, &str); 3] = [
    ("checkpoints/00000000000000000077.ckp", "v1-shop.ckp"),
    ("spends/00000000000000000000.blk", "v1-shop-spends.blk"),
    ("spent-ids/00000000000000000001.run", "v1-shop-spent.run"),
];
/// A checkpoint has one way to charge; this is the other.
const BY_TOKENS: (&str, &str) = ("checkpoints/00000000000000000077.ckp", "v1-shop-by-tokens.ckp");

fn tr(number: u64) -> TrNum {
    TrNum::try_from(number).unwrap()
}

fn order(name: &str, state: OrderState, failed: Option<Why>, life: u32) -> OrderRow {
    let line = |item: &str, amnt| Line { id: id(item), amnt: whole(amnt) };
    let items = Items::new(vec![line("item-1", 2), line("item-2", 1), line("item-1", 3)]).unwrap();
    let (order_id, user_id, amount) = (id(name), id("user-1"), whole(300));
    OrderRow { order: Order { order_id, user_id, items, amount, state }, failed, life }
}

/// Orders that are not paid at the end, one of each state; the last took the place of one that was.
fn unpaid() -> Vec<OrderRow> {
    vec![
        order("order-new", OrderState::NotPaid(None), None, 0),
        order("order-failed", OrderState::NotPaid(Some(tr(3))), Some(Why::Stock), 0),
        order("order-pending", OrderState::Pending(tr(1)), None, 0),
        order("order-by-tokens", OrderState::Pending(tr(2)), None, 0),
        order("order-cancelling", OrderState::Cancelling(tr(300)), None, 0),
        order("order-again", OrderState::NotPaid(Some(tr(4))), None, 4),
    ]
}

/// Orders that were paid, and by which try: more than a block of the archive, since the last block lies in the checkpoint.
fn once_paid() -> Vec<(String, u64)> {
    let more = (0..150).map(|number| (format!("order-{number}"), 1));
    let first = [("order-paid".to_owned(), 2), ("order-again".to_owned(), 4)];
    first.into_iter().chain(more).collect()
}

fn side(said: Option<SideSaid>, undone: bool, branch: Option<SideBranch>) -> SideRow {
    SideRow { said, undone, branch }
}

/// Open ones, the oldest first: paid by a transfer, by tokens, and by credit that is being given back.
fn checkouts() -> Vec<Arc<CheckoutRow>> {
    let row = |name: &str, number: u64, start: u64| CheckoutRow {
        order: id(name),
        tr: tr(number),
        start,
        started_at: BEGUN,
        deadline: BEGUN + 10_000,
        outside: Sides { pay: false, stock: true },
        pay: side(Some(SideSaid::Taken), false, Some(SideBranch::Taken)),
        stock: side(None, false, None),
        undo: None,
        why: None,
        waits_since: BEGUN,
        keys: Vec::new(),
        charge: None,
    };
    let transfer = Charge::Transfer { transfer: TransferId(0x0102 << 64), fulfilment: Secret([7; 32]) };
    let tokens = Charge::Tokens { spender: TransferId(0x0304 << 64) };
    vec![
        Arc::new(CheckoutRow { charge: Some(transfer), ..row("order-pending", 1, 40) }),
        Arc::new(CheckoutRow {
            charge: Some(tokens),
            keys: vec!["key-open".into()],
            ..row("order-by-tokens", 2, 41)
        }),
        Arc::new(CheckoutRow {
            outside: Sides::BOTH,
            pay: side(Some(SideSaid::Taken), true, None),
            stock: side(Some(SideSaid::Refused), false, None),
            undo: Some(Sides { pay: true, stock: false }),
            why: Some(Why::Deadline),
            waits_since: BEGUN + 10_001,
            ..row("order-cancelling", 300, 42)
        }),
    ]
}

fn keys() -> Vec<Arc<KeyRow>> {
    let row = |key: &str, name: &str, answer: Option<CheckoutAnswer>, after: Millis| {
        let (key, body) = (key.into(), Fingerprint(0xfeed));
        Arc::new(KeyRow { key, body, order: id(name), answer, ends_at: BEGUN + after })
    };
    vec![
        row("key-open", "order-by-tokens", None, 1),
        row("key-paid", "order-paid", Some(CheckoutAnswer::Paid { tr: tr(2) }), 2),
        row("key-before", "order-paid", Some(CheckoutAnswer::AlreadyPaid { tr: tr(2) }), 3),
        row(
            "key-failed",
            "order-failed",
            Some(CheckoutAnswer::Failed { tr: tr(3), why: Why::Stock }),
            86_400_000,
        ),
    ]
}

fn by_transfers() -> Charging {
    let (payee, currency) = (ParticipantId(5), "EUR".parse().unwrap());
    Charging::Transfers(ByTransfers { payee, currency, unit: Amount(100), secret: Secret([9; 32]) })
}

fn by_tokens() -> Charging {
    let (wallet, currency) = ("the shop".into(), "EUR".parse().unwrap());
    Charging::Tokens(ByTokens { wallet, currency, unit: 100, secret: Secret([9; 32]) })
}

fn users() -> [UserRow; 2] {
    let row = |name: &str, credit| UserRow { id: id(name), credit: whole(credit) };
    [row("user-1", 0), row("user-2", i64::MAX as u64)]
}

fn items() -> [ItemRow; 2] {
    let row = |name: &str, stock, price| ItemRow { id: id(name), stock: whole(stock), price: whole(price) };
    [row("item-1", 10, 50), row("item-2", 1_000_000, 0)]
}

/// Two frames: what was paid is archived with the first, and one of its ids is made anew in the second.
fn frames(charging: Charging) -> [Vec<ShopEffect>; 2] {
    let is_paid = |name: &str, number| ShopEffect::Moved {
        order: id(name),
        state: OrderState::Paid(tr(number)),
        failed: None,
    };
    let put = |row: OrderRow| ShopEffect::Order(Box::new(row));
    let mut first = Vec::new();
    for (name, number) in once_paid() {
        first.push(put(order(&name, OrderState::Pending(tr(number)), None, 0)));
        first.push(is_paid(&name, number));
    }
    let mut second: Vec<ShopEffect> = users().into_iter().map(ShopEffect::User).collect();
    second.extend(items().into_iter().map(ShopEffect::Item));
    second.extend(unpaid().into_iter().map(put));
    second.extend(checkouts().into_iter().map(ShopEffect::Opened));
    second.extend(keys().into_iter().map(ShopEffect::KeyPut));
    second.push(ShopEffect::Outside(Sides { pay: false, stock: true }));
    second.push(ShopEffect::Charging(charging));
    [first, second]
}

fn written(charging: Charging) -> SimFs {
    written_by(|store| {
        for frame in frames(charging) {
            frame.iter().for_each(|effect| store.shop_effect(effect));
            store.settle(&Effects::default());
        }
    })
}

#[test]
fn todays_code_writes_the_committed_shop() {
    let fs = written(by_transfers());
    FILES.into_iter().for_each(|file| assert_committed(&fs, file));
    assert_committed(&written(by_tokens()), BY_TOKENS);
}

#[test]
fn todays_code_reads_the_committed_shop() {
    let mut store = read_committed(&FILES);
    let counts = ShopCounts { users: 2, items: 2, orders: 6, checkouts: 3, keys: 4 };
    assert_eq!(store.shop_counts(), counts);
    users().iter().for_each(|row| assert_eq!(store.user(&row.id), Some(row)));
    items().iter().for_each(|row| assert_eq!(store.item(&row.id), Some(row)));
    for row in unpaid() {
        let order = &row.order.order_id;
        store.load(&mut std::iter::once(Key::Order(order))).unwrap();
        assert_eq!(store.order(order), Some(&row), "{order}");
    }
    assert_eq!(store.open_checkouts(None, 10), checkouts());
    assert_eq!(store.due_checkouts(Millis::MAX, 10).len(), 2, "one is decided");
    assert_eq!(store.due_keys(Millis::MAX, 10), keys());
    assert_eq!(store.outside(), Sides { pay: false, stock: true });
    assert_eq!(store.charging(), by_transfers());
    // Those that are paid lie in the archive.
    for (name, number) in once_paid().into_iter().filter(|(name, _)| name != "order-again") {
        let row = order(&name, OrderState::Paid(tr(number)), None, 0);
        assert_eq!(store.order(&row.order.order_id), None, "{name}");
        store.load(&mut std::iter::once(Key::Order(&row.order.order_id))).unwrap();
        assert_eq!(store.order(&row.order.order_id), Some(&row), "{name}");
    }

    let by_tokens_instead = read_committed(&[BY_TOKENS, FILES[1], FILES[2]]);
    assert_eq!(by_tokens_instead.charging(), by_tokens());
    assert_eq!(by_tokens_instead.shop_counts(), counts);
}

/// The tables of the document, independent of the code that writes them.
#[test]
fn the_shop_stands_where_the_document_says() {
    let checkpoint = committed("v1-shop.ckp");
    let holds = |part: &[u8]| {
        let with_length = [&u32::try_from(part.len()).unwrap().to_le_bytes()[..], part].concat();
        checkpoint.windows(with_length.len()).any(|bytes| bytes == with_length)
    };
    assert!(holds(b"\x06user-1\x00"), "18: a user");
    assert!(holds(b"\x06item-1\x0a\x32"), "19: an item");
    let lines = b"\x03\x06item-1\x02\x06item-2\x01\x06item-1\x03\xac\x02";
    let failed = [&b"\x0corder-failed\x06user-1"[..], lines, &[1, 3, Why::Stock as u8, 0]].concat();
    assert!(holds(&failed), "20: an order that is not paid");
    assert!(holds(b"\x0border-again\x04"), "21: the newest life of an id");
    assert!(holds(&[&b"\x01\x05\x00\x00\x00EUR"[..], &100_i64.to_le_bytes(), &[9; 32]].concat()), "25");
    // The sides that are outside: stock.
    assert!(holds(&[2]), "24");
    let checkpoint = committed("v1-shop-by-tokens.ckp");
    let charging = [&b"\x02\x08the shopEUR"[..], &100_u64.to_le_bytes(), &[9; 32]].concat();
    assert!(checkpoint.windows(charging.len()).any(|bytes| bytes == charging), "25: tokens");
    // A paid order in the archive begins with 32, of which the rest is its row.
    let block = committed("v1-shop-spends.blk");
    let length = usize::from(u16::from_le_bytes([block[16], block[17]]));
    let row = [&b"\x0aorder-paid\x06user-1"[..], lines, &[3, 2, 0, 0]].concat();
    assert!(block[18..18 + length].ends_with(&row), "{:?}", &block[18..18 + length]);
    assert_eq!(block[18], 32);
}
