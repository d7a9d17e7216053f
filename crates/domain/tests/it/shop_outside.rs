//! Sides that are outside: their messages are sent, their answers come back as commands, and a checkout stays open between.

use holdfast_domain::shop::{
    Alarm, CheckoutAnswer, OrderState, Said, ShopCommand, ShopEffect, ShopOutcome, ShopRefusal, Side, Sides,
    Why,
};

use crate::shop_world::*;

const PAY: Sides = Sides { pay: true, stock: false };
const STOCK: Sides = Sides { pay: false, stock: true };

#[track_caller]
fn is_open(answer: CheckoutAnswer, number: u64, sides: Sides, cancelling: bool) {
    match answer {
        CheckoutAnswer::Open { tr: open, waits } => {
            assert_eq!((open, waits.sides, waits.cancelling), (tr(number), sides, cancelling));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_outside_payment_is_asked_and_its_yes_pays() {
    let mut shop = Shop::outside(0, 2, PAY);
    let (outcome, effects) = shop.decided(checkout("o"));
    is_open(answer_of(outcome), 1, PAY, false);
    assert_eq!(types(&effects), ["pay", "sub", "ssucc"]);
    let outside: Vec<bool> = effects.shop_messages.iter().map(|message| message.outside).collect();
    assert_eq!(outside, [true, false, false]);
    assert_eq!((shop.state("o"), shop.stock("i")), (OrderState::Pending(tr(1)), 0), "the stock is taken");
    is_open(shop.checkout("o"), 1, PAY, false);
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Taken));
    assert_eq!(outcome, ShopOutcome::Heard { counts: true, now: paid(1) });
    assert_eq!(types(&effects), ["psucc", "trsucc"]);
    assert!(effects.shop.iter().any(|effect| matches!(effect, ShopEffect::Closed(_))));
    assert!(shop.memory.checkouts.is_empty());
    // Again, and late.
    let again = shop.does(says("o", 1, Side::Pay, Said::Taken));
    assert_eq!(again, ShopOutcome::Heard { counts: false, now: paid(1) });
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Refused));
    assert_eq!(outcome, ShopOutcome::Heard { counts: false, now: paid(1) });
    assert!(matches!(effects.shop_alarms[..], [Alarm::Contradiction { .. }]), "{:?}", effects.shop_alarms);
}

#[test]
fn an_outside_no_gives_the_stock_back() {
    let mut shop = Shop::outside(0, 2, PAY);
    shop.checkout("o");
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Refused));
    assert_eq!(answer_of(outcome), failed(1, Why::Pay));
    assert_eq!(types(&effects), ["pfail", "trfail", "add", "asucc"]);
    assert_eq!(shop.stock("i"), 2);
}

#[test]
fn what_an_outside_side_took_is_waited_for_until_it_is_given_back() {
    let mut shop = Shop::outside(10, 1, STOCK);
    is_open(shop.checkout("o"), 1, STOCK, false);
    assert_eq!(shop.credit("u"), 0);
    let (outcome, effects) = shop.decided(cancel("o"));
    is_open(answer_of(outcome), 1, STOCK, true);
    assert_eq!(types(&effects), ["trfail", "can", "add", "csucc"]);
    assert_eq!(shop.credit("u"), 10, "what is inside comes back at once");
    assert!(matches!(shop.refuses(add("o", "i", 1)), ShopRefusal::NotNow { .. }));
    assert!(matches!(shop.refuses(cancel("o")), ShopRefusal::NotNow { .. }), "it is decided");
    // A late yes changes nothing: it is being undone.
    is_open(answer_of(shop.does(says("o", 1, Side::Stock, Said::Taken))), 1, STOCK, true);
    assert_eq!(shop.sends(retry("o")), ["add"], "what was not answered is sent again");
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Stock, Said::Undone))), failed(1, Why::Cancelled));
    assert_eq!(shop.state("o"), OrderState::NotPaid(Some(tr(1))));
}

#[test]
fn both_outside_and_silent_until_the_deadline() {
    let mut shop = Shop::outside(0, 0, Sides::BOTH);
    is_open(shop.checkout("o"), 1, Sides::BOTH, false);
    shop.now += i64::from(DEADLINE);
    assert_eq!(shop.expire(10).outcomes[0].subject, 0, "at the deadline it may still be decided");
    shop.now += 1;
    let effects = shop.expire(10);
    assert_eq!(effects.outcomes[0].subject, 1);
    assert_eq!(types(&effects), ["trfail", "can", "add"]);
    is_open(shop.checkout("o"), 1, Sides::BOTH, true);
    assert_eq!(shop.expire(10).outcomes[0].subject, 0, "it is cancelled once");
    is_open(answer_of(shop.does(says("o", 1, Side::Pay, Said::Undone))), 1, STOCK, true);
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Stock, Said::Undone))), failed(1, Why::Deadline));
    // The next try is another one: messages of the first do not touch it.
    is_open(shop.checkout("o"), 2, Sides::BOTH, false);
    let late = shop.does(says("o", 1, Side::Pay, Said::Taken));
    assert!(matches!(late, ShopOutcome::Heard { counts: false, .. }));
    is_open(shop.checkout("o"), 2, Sides::BOTH, false);
    assert!(matches!(shop.refuses(says("o", 3, Side::Pay, Said::Taken)), ShopRefusal::UnknownTry(_)));
}

/// Two due checkouts of one record give back to the same item: the second sees the first.
#[test]
fn deadlines_of_one_record_see_each_other() {
    let mut shop = Shop::outside(0, 10, PAY);
    for name in ["p", "q"] {
        shop.does(order(name, "u"));
        shop.does(add(name, "i", 3));
    }
    for name in ["o", "p", "q"] {
        shop.checkout(name);
    }
    assert_eq!(shop.stock("i"), 2);
    shop.now += i64::from(DEADLINE) + 1;
    assert_eq!(shop.expire(2).outcomes[0].subject, 2, "within its budget, the oldest first");
    assert_eq!(shop.stock("i"), 7);
    assert_eq!(shop.state("q"), OrderState::Pending(tr(1)));
    shop.expire(2);
    assert_eq!(shop.stock("i"), 10);
}

#[test]
fn an_open_checkout_keeps_the_sides_that_it_began_with() {
    let mut shop = Shop::outside(10, 2, PAY);
    shop.checkout("o");
    shop.does(ShopCommand::SetOutside { outside: STOCK });
    assert!(matches!(
        shop.refuses(says("o", 1, Side::Stock, Said::Taken)),
        ShopRefusal::NotOutside(Side::Stock)
    ));
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Pay, Said::Taken))), paid(1));
    assert_eq!(shop.credit("u"), 10, "the payment was outside");
}

#[test]
fn keys_that_join_an_open_checkout_get_its_answer() {
    let mut shop = Shop::outside(0, 2, PAY);
    shop.does(keyed("o", "first", 1));
    shop.does(keyed("o", "second", 2));
    is_open(answer_of(shop.does(keyed("o", "first", 1))), 1, PAY, false);
    assert_eq!(shop.refuses(keyed("o", "second", 1)), ShopRefusal::KeyReused);
    shop.does(says("o", 1, Side::Pay, Said::Refused));
    shop.does(ShopCommand::SetOutside { outside: Sides::NONE });
    shop.does(funds("u", 100));
    assert_eq!(answer_of(shop.does(keyed("o", "second", 2))), failed(1, Why::Pay));
    assert_eq!(answer_of(shop.does(keyed("o", "third", 3))), paid(2));
    assert_eq!(answer_of(shop.does(keyed("o", "first", 1))), failed(1, Why::Pay));
    let mut shop = Shop::outside(0, 2, PAY);
    (0..16).for_each(|key| drop(shop.does(keyed("o", &format!("k{key}"), key))));
    assert!(matches!(shop.refuses(keyed("o", "one too many", 1)), ShopRefusal::Full { .. }));
}

#[test]
fn an_init_leaves_orders_alone_that_are_under_way() {
    let mut shop = Shop::outside(0, 2, PAY);
    shop.does(order("0", "u"));
    shop.does(add("0", "i", 1));
    shop.checkout("0");
    let init = ShopCommand::InitOrders { first: 0, count: 3, items: 1, users: 1, price: whole(1), seed: 1 };
    assert!(matches!(shop.refuses(init.clone()), ShopRefusal::NotNow { .. }));
    shop.does(says("0", 1, Side::Pay, Said::Refused));
    shop.does(init);
}

/// A user whose credit is at its bound cannot be given back to: the checkout waits, and goes on when it can.
#[test]
fn what_cannot_be_given_back_waits_for_an_operator() {
    let mut shop = Shop::outside(10, 2, STOCK);
    shop.checkout("o");
    shop.does(funds("u", i64::MAX as u64));
    let (outcome, effects) = shop.decided(says("o", 1, Side::Stock, Said::Refused));
    is_open(answer_of(outcome), 1, PAY, true);
    assert!(matches!(effects.shop_alarms[..], [Alarm::Stuck { .. }]));
    shop.does(ShopCommand::TakeFunds { user: "u".parse().unwrap(), amount: whole(20) });
    assert_eq!(answer_of(shop.does(retry("o"))), failed(1, Why::Stock));
    assert_eq!(shop.credit("u"), i64::MAX as u64 - 10);
}
