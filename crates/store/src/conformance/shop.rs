//! The shop in every store: what is there, what is open, what is paid and found again.

use std::sync::Arc;

use holdfast_domain::command::{Command, Expire, Key};
use holdfast_domain::ids::Millis;
use holdfast_domain::shop::limits::KEY_MS;
use holdfast_domain::shop::{
    CheckoutAnswer, CheckoutOrder, IdempotencyKey, OrderId, OrderRow, OrderState, Said, ShopCommand,
    ShopOutcome, Side, Sides, TrNum, TryKey, Whole, Why,
};
use holdfast_domain::tokens::Fingerprint;

use super::frame;
use crate::Store;

pub(super) fn run_all<S: Store>(empty: impl Fn() -> S) {
    an_empty_store_has_no_shop(&empty());
    users_items_and_orders_are_found(&mut empty());
    a_paid_order_is_found_again(&mut empty());
    a_paid_order_can_be_made_anew_any_number_of_times(&mut empty());
    an_order_paid_and_made_anew_in_one_frame_is_there_twice(&mut empty());
    the_longest_order_comes_back_whole(&mut empty());
    open_checkouts_come_by_age_and_by_deadline(&mut empty());
    keys_end_in_their_order(&mut empty());
}

pub(crate) fn whole(number: u64) -> Whole {
    Whole::new(number).expect("a small number")
}

pub(crate) fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a short text")
}

fn tell<S: Store>(store: &mut S, time: Millis, command: ShopCommand) -> ShopOutcome {
    let effects = frame(store, time, &[Command::Shop(Box::new(command))]);
    effects.outcome(0).shop.as_deref().expect("a shop command has a shop answer").clone()
}

fn expire<S: Store>(store: &mut S, time: Millis, holds_max: u32) -> u64 {
    frame(store, time, &[Command::Expire(Expire { holds_max })]).outcome(0).subject.ended()
}

fn checkout(order: &str, deadline_ms: u32, key: Option<&str>) -> ShopCommand {
    let key = key.map(|key| IdempotencyKey { key: key.into(), body: Fingerprint(5) });
    ShopCommand::Checkout(CheckoutOrder { order: id(order), deadline_ms, key, chosen: None })
}

/// A user with credit, an item, and orders of that names, each of one of it.
fn fill<S: Store>(store: &mut S, orders: &[&str]) {
    tell(store, 1, ShopCommand::CreateUser { id: id("u"), credit: whole(1_000) });
    tell(store, 2, ShopCommand::CreateItem { id: id("i"), stock: whole(100), price: whole(3) });
    for order in orders {
        tell(store, 3, ShopCommand::CreateOrder { id: id(order), user: id("u") });
        let add = ShopCommand::AddItem { order: id(order), item: id("i"), quantity: whole(1) };
        tell(store, 4, add);
    }
}

/// The order, also if it is paid.
fn find<S: Store>(store: &mut S, order: &str) -> Option<OrderRow> {
    let order: OrderId = id(order);
    store.load(&mut std::iter::once(Key::Order(&order))).expect("nothing is wrong with the disk");
    store.order(&order).cloned()
}

fn paid(number: u64) -> ShopOutcome {
    let tr = TrNum::try_from(number).expect("a try");
    ShopOutcome::Checkout(CheckoutAnswer::Paid { tr })
}

fn an_empty_store_has_no_shop<S: Store>(store: &S) {
    assert!(store.user(&id("u")).is_none() && store.item(&id("i")).is_none());
    assert!(store.order(&id("o")).is_none() && store.checkout(&id("o")).is_none());
    assert!(store.request_key("k").is_none() && store.open_checkouts(None, 10).is_empty());
    assert_eq!((store.outside(), store.shop_counts()), (Sides::NONE, Default::default()));
    assert_eq!(store.next_expiration(), None);
}

fn users_items_and_orders_are_found<S: Store>(store: &mut S) {
    fill(store, &["o", "p"]);
    assert_eq!(store.user(&id("u")).map(|row| row.credit), Some(whole(1_000)));
    assert_eq!(store.item(&id("i")).map(|row| (row.stock, row.price)), Some((whole(100), whole(3))));
    assert_eq!(store.order(&id("p")).map(|row| row.order.amount), Some(whole(3)));
    let (mut users, mut items) = (0, 0);
    store.users(&mut |_| users += 1);
    store.items(&mut |_| items += 1);
    let counts = store.shop_counts();
    assert_eq!((users, items, counts.orders), (1, 1, 2));
    tell(store, 5, ShopCommand::SetOutside { outside: Sides::BOTH });
    assert_eq!(store.outside(), Sides::BOTH);
}

fn a_paid_order_is_found_again<S: Store>(store: &mut S) {
    fill(store, &["o", "p"]);
    assert_eq!(tell(store, 10, checkout("o", 100, None)), paid(1));
    assert_eq!(store.user(&id("u")).map(|row| row.credit), Some(whole(997)));
    assert_eq!(store.item(&id("i")).map(|row| row.stock), Some(whole(99)));
    assert_eq!(store.shop_counts().orders, 1, "a paid order counts no longer");
    let row = find(store, "o").expect("it is found");
    assert_eq!((row.is_paid(), row.order.items.lines().len()), (true, 1));
    let again = tell(store, 11, checkout("o", 100, None));
    assert!(matches!(again, ShopOutcome::Checkout(CheckoutAnswer::AlreadyPaid { .. })), "{again:?}");
    let taken = tell(store, 12, ShopCommand::CreateOrder { id: id("o"), user: id("u") });
    assert!(matches!(taken, ShopOutcome::Refused(_)), "{taken:?}");
    assert!(find(store, "q").is_none());
}

fn init(count: u32) -> ShopCommand {
    ShopCommand::InitOrders { first: 0, count, items: 1, users: 1, price: whole(1), seed: 1 }
}

fn fill_numbered<S: Store>(store: &mut S) {
    tell(store, 1, ShopCommand::InitUsers { first: 0, count: 1, credit: whole(1_000) });
    tell(store, 2, ShopCommand::InitItems { first: 0, count: 1, stock: whole(1_000), price: whole(1) });
}

fn a_paid_order_can_be_made_anew_any_number_of_times<S: Store>(store: &mut S) {
    fill_numbered(store);
    for life in 0..5 {
        let time = 10 + Millis::from(life) * 10;
        assert_eq!(tell(store, time, init(3)), ShopOutcome::Initialised(3));
        let row = find(store, "1").expect("made anew");
        assert_eq!((row.is_paid(), row.life), (false, life));
        assert_eq!(tell(store, time + 1, checkout("1", 100, None)), paid(u64::from(life) + 1));
        let row = find(store, "1").expect("paid");
        assert_eq!((row.is_paid(), row.life), (true, life));
        assert_eq!(find(store, "2").map(|row| row.life), Some(0), "an order that was not paid lives on");
    }
}

fn an_order_paid_and_made_anew_in_one_frame_is_there_twice<S: Store>(store: &mut S) {
    fill_numbered(store);
    tell(store, 3, init(1));
    let commands = [checkout("0", 9, None), init(1), checkout("0", 9, None), checkout("0", 9, None)];
    let commands = commands.map(|command| Command::Shop(Box::new(command)));
    frame(store, 10, &commands);
    let row = find(store, "0").expect("paid twice");
    assert_eq!((row.is_paid(), row.life, row.order.state.tr_num().map(TrNum::get)), (true, 1, Some(2)));
    assert_eq!(store.user(&id("0")).map(|row| row.credit), Some(whole(996)));
    frame(store, 11, &[Command::Shop(Box::new(init(1)))]);
    assert_eq!(find(store, "0").map(|row| row.life), Some(2));
}

/// Longer than any block of a file.
fn the_longest_order_comes_back_whole<S: Store>(store: &mut S) {
    fill(store, &["o"]);
    let long = "x".repeat(128);
    tell(store, 5, ShopCommand::CreateItem { id: id(&long), stock: whole(5_000), price: whole(0) });
    let add = || {
        let add = ShopCommand::AddItem { order: id("o"), item: id(&long), quantity: whole(1) };
        Command::Shop(Box::new(add))
    };
    frame(store, 6, &std::iter::repeat_with(add).take(999).collect::<Vec<_>>());
    let before = find(store, "o").expect("there");
    assert_eq!(tell(store, 7, checkout("o", 100, None)), paid(1));
    let after = find(store, "o").expect("paid");
    assert_eq!((after.order.items, after.order.amount), (before.order.items, before.order.amount));
}

fn open_checkouts_come_by_age_and_by_deadline<S: Store>(store: &mut S) {
    let names = ["a", "b", "c", "d"];
    fill(store, &names);
    tell(store, 5, ShopCommand::SetOutside { outside: Sides { pay: true, stock: false } });
    for ((time, name), deadline) in (10..).zip(names).zip([400, 100, 300, 200]) {
        tell(store, time, checkout(name, deadline, None));
    }
    let of = |rows: Vec<Arc<holdfast_domain::shop::CheckoutRow>>| -> Vec<String> {
        rows.iter().map(|row| row.order.to_string()).collect()
    };
    assert_eq!(of(store.open_checkouts(None, 10)), names);
    let second = store.checkout(&id("b")).expect("open").start;
    assert_eq!(of(store.open_checkouts(Some(second), 1)), ["c"]);
    assert_eq!(store.next_expiration(), Some(111));
    assert!(store.due_checkouts(111, 10).is_empty(), "at its deadline it is not due");
    assert_eq!(of(store.due_checkouts(1_000, 10)), ["b", "d", "c", "a"]);
    assert_eq!(of(store.due_checkouts(1_000, 2)), ["b", "d"]);
    assert_eq!(expire(store, 112, 10), 1);
    assert_eq!(store.order(&id("b")).map(|row| row.order.state.name()), Some("cancelling"));
    assert_eq!(of(store.due_checkouts(1_000, 10)), ["d", "c", "a"], "it is cancelled once");
    assert_eq!(of(store.open_checkouts(None, 10)), names, "and open until all is given back");
    let key = TryKey { order_id: id("b"), tr_num: TrNum::FIRST };
    let said = ShopCommand::Answer { key, side: Side::Pay, said: Said::Undone };
    let heard = tell(store, 113, said);
    let why = Why::Deadline;
    let now = CheckoutAnswer::Failed { tr: TrNum::FIRST, why };
    assert_eq!(heard, ShopOutcome::Heard { counts: true, now });
    assert_eq!(of(store.open_checkouts(None, 10)), ["a", "c", "d"]);
    let key = TryKey { order_id: id("c"), tr_num: TrNum::FIRST };
    let said = ShopCommand::Answer { key, side: Side::Pay, said: Said::Taken };
    tell(store, 114, said);
    assert!(matches!(find(store, "c").map(|row| row.order.state), Some(OrderState::Paid(_))));
    assert_eq!(
        (of(store.open_checkouts(None, 10)), store.shop_counts().checkouts),
        (vec!["a".into(), "d".into()], 2)
    );
}

fn keys_end_in_their_order<S: Store>(store: &mut S) {
    fill(store, &["a", "b"]);
    tell(store, 10, checkout("a", 100, Some("y")));
    tell(store, 10, checkout("a", 100, Some("x")));
    tell(store, 20, checkout("b", 100, Some("w")));
    let answer = store.request_key("y").and_then(|row| row.answer);
    assert_eq!(answer, Some(CheckoutAnswer::Paid { tr: TrNum::FIRST }));
    assert_eq!((store.shop_counts().keys, store.next_expiration()), (3, Some(10 + KEY_MS - 1)));
    let of = |rows: Vec<Arc<holdfast_domain::shop::KeyRow>>| -> Vec<String> {
        rows.iter().map(|row| row.key.to_string()).collect()
    };
    assert!(store.due_keys(9 + KEY_MS, 10).is_empty());
    assert_eq!(of(store.due_keys(10 + KEY_MS, 10)), ["x", "y"]);
    assert_eq!(of(store.due_keys(Millis::MAX, 2)), ["x", "y"]);
    // A key whose time is over may be taken again before it is ended.
    tell(store, 10 + KEY_MS, checkout("a", 100, Some("x")));
    assert_eq!(of(store.due_keys(Millis::MAX, 10)), ["y", "w", "x"]);
    assert_eq!(expire(store, 20 + KEY_MS, 10), 2);
    assert_eq!((store.shop_counts().keys, store.request_key("y").is_none()), (1, true));
}
