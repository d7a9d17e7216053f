//! Checkouts with both sides inside: each comes to its end within its own record.

use crate::shop_world::*;
use crate::world::*;

#[test]
fn both_sides_take_and_the_order_is_paid() {
    let mut shop = World::shop(10, 3);
    let (outcome, effects) = shop.decided(checkout("o"));
    assert_eq!(outcome, ShopOutcome::Checkout(paid(1)));
    assert_eq!(types(&effects), ["pay", "sub", "psucc", "ssucc", "trsucc"]);
    let (order, state) = ("o".parse().unwrap(), OrderState::Paid(tr(1)));
    assert_eq!(
        effects.shop(),
        [
            ShopEffect::Credit { user: "u".parse().unwrap(), credit: whole(0) },
            ShopEffect::Stock { item: "i".parse().unwrap(), stock: whole(1) },
            ShopEffect::Moved { order, state, failed: None },
        ]
    );
    assert_eq!((shop.credit("u"), shop.stock("i")), (0, 1));
}

#[test]
fn a_failure_gives_back_what_was_taken_and_says_why() {
    for (credit, stock, why, sent) in [
        (9, 2, Why::Pay, vec!["pay", "sub", "pfail", "ssucc", "trfail", "add", "asucc"]),
        (10, 1, Why::Stock, vec!["pay", "sub", "psucc", "sfail", "trfail", "can", "csucc"]),
        (9, 1, Why::Both, vec!["pay", "sub", "pfail", "sfail", "trfail"]),
    ] {
        let mut shop = World::shop(credit, stock);
        let (outcome, effects) = shop.decided(checkout("o"));
        assert_eq!(outcome, ShopOutcome::Checkout(failed(1, why)));
        assert_eq!(types(&effects), sent);
        let (order, state) = ("o".parse().unwrap(), OrderState::NotPaid(Some(tr(1))));
        let moved = ShopEffect::Moved { order, state, failed: Some(why) };
        assert_eq!(effects.shop(), [moved], "what came back leaves no trace");
        assert_eq!((shop.credit("u"), shop.stock("i")), (credit, stock));
    }
}

#[test]
fn after_a_failure_the_order_can_be_changed_and_tried_again() {
    let mut shop = World::shop(9, 2);
    assert_eq!(shop.checkout("o"), failed(1, Why::Pay));
    shop.does(funds("u", 6));
    assert_eq!(shop.checkout("o"), paid(2));
    assert_eq!((shop.credit("u"), shop.stock("i")), (5, 0));
    assert_eq!(shop.checkout("o"), CheckoutAnswer::AlreadyPaid { tr: tr(2) });
    assert!(shop.sends(checkout("o")).is_empty());
    assert_eq!(shop.credit("u"), 5, "nothing is charged twice");
    assert!(matches!(shop.refuses(add("o", "i", 1)), ShopRefusal::NotNow { .. }));
    for paid in [shop.refuses(cancel("o")), shop.refuses(retry("o"))] {
        assert!(matches!(paid, ShopRefusal::NotNow { .. }));
        assert!(
            paid.to_string().starts_with("order o is paid: that is final, there is nothing to cancel"),
            "{paid}"
        );
    }
}

#[test]
fn an_operator_can_retry_what_failed() {
    let mut shop = World::shop(9, 2);
    for untried in [shop.refuses(cancel("o")), shop.refuses(retry("o"))] {
        assert!(matches!(untried, ShopRefusal::NotNow { .. }));
        let said = untried.to_string();
        assert!(said.contains("never tried") && said.contains("POST /shop/orders/checkout"), "{said}");
    }
    shop.checkout("o");
    shop.does(funds("u", 1));
    assert_eq!(answer_of(shop.does(retry("o"))), paid(2));
}

/// In one frame, in the order of the log.
#[test]
fn a_thousand_orders_on_a_hundred_units_pay_exactly_a_hundred() {
    let mut shop = World::empty();
    shop.does(item("i", 100, 1));
    for number in 0..1_000 {
        // A few users come twice, with credit for once.
        let user = format!("u{}", number % 990);
        if number < 990 {
            shop.does(crate::shop_world::user(&user, 1));
        }
        shop.sells(&format!("o{number}"), &user, "i", 1);
    }
    let all: Vec<Command> =
        (0..1_000).map(|n| as_command(checkout(&format!("o{}", (n * 7) % 1_000)))).collect();
    let effects = shop.frame(&all);
    let outcomes =
        effects.all(|step| &step.outcomes).map(|outcome| ShopOutcome::clone(outcome.shop.as_ref().unwrap()));
    assert_eq!(outcomes.filter(|outcome| *outcome == ShopOutcome::Checkout(paid(1))).count(), 100);
    let credit: u64 = shop.memory.users.values().map(|row| row.credit.get()).sum();
    assert_eq!((shop.stock("i"), credit), (0, 890));
}

#[test]
fn lines_of_one_item_are_taken_together() {
    let mut shop = World::shop(100, 4);
    shop.does(add("o", "i", 3));
    assert_eq!(shop.checkout("o"), failed(1, Why::Stock));
    shop.does(ShopCommand::AddStock { item: "i".parse().unwrap(), amount: whole(1) });
    assert_eq!(shop.checkout("o"), paid(2));
    assert_eq!((shop.credit("u"), shop.stock("i")), (75, 0));
}

#[test]
fn an_order_of_a_user_that_is_not_there_cannot_be_paid() {
    let mut shop = World::shop(10, 3);
    shop.sells("p", "nobody", "i", 1);
    assert_eq!(shop.checkout("p"), failed(1, Why::Pay));
    assert_eq!(shop.stock("i"), 3);
}

#[test]
fn a_key_gets_the_stored_answer_for_a_day() {
    let mut shop = World::shop(9, 2);
    assert_eq!(answer_of(shop.does(keyed("o", "k", 1))), failed(1, Why::Pay));
    shop.does(funds("u", 1));
    assert_eq!(answer_of(shop.does(keyed("o", "k", 1))), failed(1, Why::Pay), "the stored answer");
    assert_eq!(shop.refuses(keyed("o", "k", 2)), ShopRefusal::KeyReused);
    assert_eq!(answer_of(shop.does(keyed("o", "other", 1))), paid(2));
    assert_eq!(answer_of(shop.does(keyed("o", "other", 1))), paid(2), "not merely already paid");
    shop.now += 86_400_000;
    assert_eq!(shop.expire(1).outcome(0).subject.ended(), 1, "within its budget");
    assert_eq!(shop.expire(10).outcome(0).subject.ended(), 1);
    assert!(shop.memory.keys.is_empty());
    assert_eq!(answer_of(shop.does(keyed("o", "k", 2))), CheckoutAnswer::AlreadyPaid { tr: tr(2) });
    // A key whose time is over is free, also before expiry has come to it.
    shop.now += 86_400_000;
    assert_eq!(answer_of(shop.does(keyed("o", "k", 3))), CheckoutAnswer::AlreadyPaid { tr: tr(2) });
}

#[test]
fn a_refused_checkout_takes_no_key() {
    let mut shop = World::shop(9, 2);
    assert!(matches!(shop.refuses(keyed("none", "k", 1)), ShopRefusal::UnknownOrder(_)));
    assert!(matches!(shop.refuses(checkout("none")), ShopRefusal::UnknownOrder(_)));
}

#[test]
fn numbers_are_bounded_and_ids_are_taken_once() {
    let mut shop = World::shop(9, 2);
    assert!(matches!(shop.refuses(user("u", 1)), ShopRefusal::Exists { kind: "user", .. }));
    assert!(matches!(shop.refuses(item("i", 1, 1)), ShopRefusal::Exists { kind: "item", .. }));
    assert!(matches!(shop.refuses(order("o", "u")), ShopRefusal::Exists { kind: "order", .. }));
    assert!(matches!(shop.refuses(funds("u", i64::MAX as u64)), ShopRefusal::TooLarge(_)));
    assert!(matches!(shop.refuses(funds("x", 1)), ShopRefusal::UnknownUser(_)));
    assert!(matches!(shop.refuses(add("o", "x", 1)), ShopRefusal::UnknownItem(_)));
    assert!(matches!(shop.refuses(add("o", "i", i64::MAX as u64)), ShopRefusal::TooLarge(_)));
    let take = ShopCommand::TakeFunds { user: "u".parse().unwrap(), amount: whole(10) };
    assert!(matches!(shop.refuses(take), ShopRefusal::InsufficientCredit { .. }));
    let take = ShopCommand::TakeStock { item: "i".parse().unwrap(), amount: whole(3) };
    assert!(matches!(shop.refuses(take), ShopRefusal::InsufficientStock { .. }));
}

fn init_orders(first: u64, count: u32, seed: u64) -> ShopCommand {
    ShopCommand::InitOrders { first, count, items: 3, users: 4, price: whole(5), seed }
}

#[test]
fn an_init_makes_rows_by_their_numbers_and_replaces_what_is_there() {
    let mut shop = World::empty();
    shop.does(ShopCommand::InitUsers { first: 0, count: 4, credit: whole(100) });
    shop.does(ShopCommand::InitItems { first: 0, count: 3, stock: whole(50), price: whole(5) });
    shop.does(init_orders(0, 10, 7));
    for row in shop.memory.orders.values() {
        assert_eq!((row.order.items.lines().len(), row.order.amount), (2, whole(10)));
        assert!(shop.memory.users.contains_key(&row.order.user_id));
        assert!(row.order.items.lines().iter().all(|line| shop.memory.items.contains_key(&line.id)));
    }
    let users: std::collections::BTreeSet<_> =
        shop.memory.orders.values().map(|row| row.order.user_id.clone()).collect();
    assert!(users.len() > 1, "they are drawn");
    assert_eq!(shop.checkout("7"), paid(1));
    shop.does(ShopCommand::InitUsers { first: 0, count: 2, credit: whole(1) });
    assert_eq!((shop.credit("0"), shop.credit("1")), (1, 1));
    shop.does(init_orders(5, 5, 8));
    let row = &shop.memory.orders[&"7".parse().unwrap()];
    assert_eq!((row.order.state, row.life), (OrderState::NotPaid(Some(tr(1))), 1), "its tries go on");
    let none = ShopCommand::InitOrders { first: 0, count: 1, items: 0, users: 1, price: whole(1), seed: 0 };
    assert!(matches!(shop.refuses(none), ShopRefusal::Invalid(_)));
    assert!(matches!(shop.refuses(init_orders(u64::MAX, 2, 0)), ShopRefusal::Invalid(_)));
}
