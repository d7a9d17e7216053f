//! What edges change and ask, and whether it still adds up.

use std::sync::Barrier;

use holdfast_domain::shop::limits::INIT_ROWS_MAX;
use holdfast_domain::shop::{
    CheckoutAnswer, OrderState, ShopCommand, ShopOutcome, ShopRefusal, TrNum, UserRow,
};

use crate::shop_world::*;
use crate::world::*;

fn refused(shop: &mut Shop, command: &ShopCommand) -> ShopRefusal {
    match shop.store.shop(command).unwrap() {
        ShopOutcome::Refused(refusal) => refusal,
        other => panic!("{command:?}: {other:?}"),
    }
}

#[test]
fn rows_are_made_and_changed_as_in_an_embedded_shop() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 5)], &[("i", 3, 7)], &[("o", "u", "i", 2)]);
    let user = ShopCommand::CreateUser { id: id("u"), credit: whole(9) };
    assert_eq!(refused(&mut shop, &user), ShopRefusal::Exists { kind: "user", id: "u".into() });
    let take = |amount| ShopCommand::TakeFunds { user: id("u"), amount: whole(amount) };
    let short = ShopRefusal::InsufficientCredit { user: id("u"), credit: whole(5) };
    assert_eq!(refused(&mut shop, &take(6)), short);
    let left = shop.does(&take(5));
    assert_eq!(left, ShopOutcome::User(UserRow { id: id("u"), credit: whole(0) }));
    shop.does(&ShopCommand::AddFunds { user: id("u"), amount: whole(8) });
    let most = ShopCommand::AddFunds { user: id("u"), amount: whole(u64::MAX >> 1) };
    assert!(matches!(refused(&mut shop, &most), ShopRefusal::TooLarge(_)));
    let take = |amount| ShopCommand::TakeStock { item: id("i"), amount: whole(amount) };
    assert!(matches!(refused(&mut shop, &take(4)), ShopRefusal::InsufficientStock { .. }));
    shop.does(&take(1));
    shop.does(&ShopCommand::AddStock { item: id("i"), amount: whole(4) });
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (8, 6));
    for (command, wanted) in [
        (ShopCommand::AddFunds { user: id("x"), amount: whole(1) }, ShopRefusal::UnknownUser(id("x"))),
        (ShopCommand::AddStock { item: id("x"), amount: whole(1) }, ShopRefusal::UnknownItem(id("x"))),
        (
            ShopCommand::AddItem { order: id("x"), item: id("i"), quantity: whole(1) },
            ShopRefusal::UnknownOrder(id("x")),
        ),
        (
            ShopCommand::AddItem { order: id("o"), item: id("x"), quantity: whole(1) },
            ShopRefusal::UnknownItem(id("x")),
        ),
        (
            ShopCommand::CreateOrder { id: id("o"), user: id("u") },
            ShopRefusal::Exists { kind: "order", id: "o".into() },
        ),
    ] {
        assert_eq!(refused(&mut shop, &command), wanted);
    }
    assert!(matches!(refused(&mut shop, &ShopCommand::Cancel { order: id("o") }), ShopRefusal::Invalid(_)));
    shop.does(&ShopCommand::AddItem { order: id("o"), item: id("i"), quantity: whole(1) });
    let (row, open) = shop.store.find_order(&id("o")).unwrap().unwrap();
    assert_eq!((row.order.amount.get(), row.order.items.lines().len(), open), (21, 2, None));
    assert_eq!(
        (shop.store.find_user(&id("x")).unwrap(), shop.store.find_item(&id("x")).unwrap()),
        (None, None)
    );
    assert_eq!(shop.store.find_order(&id("x")).unwrap(), None);
    assert!(shop.store.shop(&ShopCommand::CreateUser { id: id("\0"), credit: whole(1) }).is_err());
    shop.is_at_rest(&world);

    // Items change only while the order is not paid and nothing is under way.
    shop.asks("o", checkout(), &[Orders]);
    let add = ShopCommand::AddItem { order: id("o"), item: id("i"), quantity: whole(1) };
    let state = OrderState::Pending(TrNum::FIRST);
    assert_eq!(refused(&mut shop, &add), ShopRefusal::NotNow { order: id("o"), state });
}

/// Two nodes make the same user at once: one of them is told that it is there.
#[test]
fn an_id_is_made_once() {
    let Some(world) = World::new() else { return };
    let barrier = Barrier::new(4);
    let made: Vec<bool> = std::thread::scope(|scope| {
        let make = |credit: u64| {
            let (mut store, barrier) = (world.store(), &barrier);
            scope.spawn(move || {
                let mut made = 0;
                for number in 0..20 {
                    barrier.wait();
                    let id = id(&format!("user-{number}"));
                    let outcome = store.shop(&ShopCommand::CreateUser { id, credit: whole(credit) }).unwrap();
                    made += usize::from(!matches!(outcome, ShopOutcome::Refused(_)));
                }
                made
            })
        };
        let threads: Vec<_> = (1..=4).map(make).collect();
        let made: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        vec![made == 20]
    });
    assert_eq!(made, [true]);
    assert_eq!(world.rows("users"), 20);
    world.verify();
}

#[test]
fn many_rows_are_made_and_replaced_but_not_while_a_checkout_is_open() {
    let Some((world, mut shop)) = Shop::open(2) else { return };
    let users = |credit| ShopCommand::InitUsers { first: 0, count: 50, credit: whole(credit) };
    let items = |stock| ShopCommand::InitItems { first: 0, count: 20, stock: whole(stock), price: whole(3) };
    let orders =
        ShopCommand::InitOrders { first: 0, count: 200, items: 20, users: 50, price: whole(3), seed: 7 };
    for command in [users(100), items(100), orders.clone()] {
        shop.does(&command);
    }
    assert_eq!(world.rows("orders WHERE amount = 6 AND tr_num IS NULL"), 200);
    let too_many = ShopCommand::InitUsers { first: 0, count: INIT_ROWS_MAX + 1, credit: whole(1) };
    assert!(matches!(refused(&mut shop, &too_many), ShopRefusal::Full { .. }));
    for number in 0..200 {
        shop.ask(&number.to_string(), checkout());
    }
    shop.drain();
    assert_eq!(world.rows("orders WHERE paid"), 200);
    assert_eq!(world.count("SELECT 5000 - sum(credit)::bigint FROM users"), 1_200);
    shop.is_at_rest(&world);

    shop.stocked(&[], &[], &[("open", "1", "1", 1)]);
    shop.ask("open", checkout());
    for partition in 0..2 {
        shop.turn(partition, Orders);
    }
    for command in [users(7), items(7), orders.clone()] {
        assert!(matches!(refused(&mut shop, &command), ShopRefusal::CheckoutsOpen { open: 1, .. }));
    }
    shop.does(&ShopCommand::InitUsers { first: 1_000, count: 5, credit: whole(1) });
    shop.drain();
    for command in [users(7), items(7), orders] {
        shop.does(&command);
    }
    assert_eq!(world.count("SELECT sum(credit)::bigint FROM users WHERE user_id::int < 1000"), 350);
    assert_eq!(world.rows("orders WHERE state = 'not_paid' AND life = 1"), 200);
    shop.is_at_rest(&world);
    // Tries are counted on: a late message of the old order's try is not taken for one of the new.
    assert_eq!(shop.run("3", checkout()).1, "paid");
    assert_eq!(shop.ends("3").last().map(CheckoutAnswer::tr).map(TrNum::get), Some(2));
    shop.is_at_rest(&world);
}

#[test]
fn open_checkouts_are_listed_page_by_page() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 100)], &[("i", 100, 1)], &[]);
    let names: Vec<String> = (0..7).map(|number| format!("o{number}")).collect();
    for (number, order) in (0..).zip(&names) {
        shop.stocked(&[], &[], &[(order, "u", "i", 1)]);
        // Two of each instant, so that the id decides.
        world.set_clock(2_000_000_000_000 + number / 2);
        shop.asks(order, checkout(), &[Orders]);
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = shop.store.open_checkouts(None, after.as_ref(), 3).unwrap();
        seen.extend(page.checkouts.iter().map(|open| open.order.order.order_id.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, names);
    shop.drain();
    assert!(shop.store.open_checkouts(None, None, 3).unwrap().checkouts.is_empty());
}

/// Whoever changes what must not change is found out.
#[test]
fn tampering_is_found() {
    for (tamper, table) in [
        ("UPDATE users SET credit = credit + 1", "users"),
        ("DELETE FROM pay_transaction", "users"),
        ("UPDATE items SET stock = stock - 1", "items"),
        ("UPDATE stock_transaction SET items = '[{\"id\":\"i\",\"amnt\":1}]' WHERE order_id = 'o'", "items"),
        ("UPDATE orders SET state = 'not_paid' WHERE order_id = 'o'", "pay_transaction"),
        ("UPDATE orders SET state = 'paid', tr_num = 1 WHERE order_id = 'never'", "orders"),
        ("UPDATE orders SET deadline = NULL WHERE state = 'pending'", "orders"),
        ("UPDATE idempotency_key SET answer = NULL", "idempotency_key"),
        ("DELETE FROM orders WHERE order_id = 'o'", "pay_transaction"),
    ] {
        let Some((world, mut shop)) = Shop::open(1) else { return };
        shop.stocked(
            &[("u", 100)],
            &[("i", 100, 1)],
            &[("o", "u", "i", 2), ("never", "u", "i", 2), ("open", "u", "i", 1)],
        );
        let (answer, state) = shop.run("o", checkout_under("k", 1));
        assert!(state == "paid" && answer != Err(ShopRefusal::KeyReused));
        shop.asks("open", checkout(), &[Orders]);
        world.verify();
        world.notices(tamper, table);
    }
}
