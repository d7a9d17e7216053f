//! Sides that are outside: their messages are sent, their answers come back as commands, and a checkout stays open between.

use holdfast_domain::shop::Alarm;

use crate::shop_world::*;
use crate::world::*;

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
    let mut shop = World::shop_outside(0, 2, PAY);
    let (outcome, effects) = shop.decided(checkout("o"));
    is_open(answer_of(outcome), 1, PAY, false);
    assert_eq!(types(&effects), ["pay", "sub", "ssucc"]);
    let outside: Vec<bool> = effects.shop_messages().iter().map(|message| message.outside).collect();
    assert_eq!(outside, [true, false, false]);
    assert_eq!((shop.state("o"), shop.stock("i")), (OrderState::Pending(tr(1)), 0), "the stock is taken");
    is_open(shop.checkout("o"), 1, PAY, false);
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Taken));
    assert_eq!(outcome, ShopOutcome::Heard { counts: true, now: paid(1) });
    assert_eq!(types(&effects), ["psucc", "trsucc"]);
    assert!(effects.shop().iter().any(|effect| matches!(effect, ShopEffect::Closed(_))));
    assert!(shop.memory.checkouts.is_empty());
    // Again, and late.
    let again = shop.does(says("o", 1, Side::Pay, Said::Taken));
    assert_eq!(again, ShopOutcome::Heard { counts: false, now: paid(1) });
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Refused));
    assert_eq!(outcome, ShopOutcome::Heard { counts: false, now: paid(1) });
    assert!(
        matches!(effects.shop_alarms()[..], [Alarm::Contradiction { .. }]),
        "{:?}",
        effects.shop_alarms()
    );
}

#[test]
fn an_outside_no_gives_the_stock_back() {
    let mut shop = World::shop_outside(0, 2, PAY);
    shop.checkout("o");
    let (outcome, effects) = shop.decided(says("o", 1, Side::Pay, Said::Refused));
    assert_eq!(answer_of(outcome), failed(1, Why::Pay));
    assert_eq!(types(&effects), ["pfail", "trfail", "add", "asucc"]);
    assert_eq!(shop.stock("i"), 2);
}

#[test]
fn what_an_outside_side_took_is_waited_for_until_it_is_given_back() {
    let mut shop = World::shop_outside(10, 1, STOCK);
    is_open(shop.checkout("o"), 1, STOCK, false);
    assert_eq!(shop.credit("u"), 0);
    let (outcome, effects) = shop.decided(cancel("o"));
    is_open(answer_of(outcome), 1, STOCK, true);
    assert_eq!(types(&effects), ["trfail", "can", "add", "csucc"]);
    assert_eq!(shop.credit("u"), 10, "what is inside comes back at once");
    assert!(matches!(shop.refuses(add("o", "i", 1)), ShopRefusal::NotNow { .. }));
    let decided = shop.refuses(cancel("o"));
    assert!(matches!(decided, ShopRefusal::NotNow { .. }), "it is decided");
    assert!(decided.to_string().contains("(POST /hub/checkouts/o/retry) asks"), "{decided}");
    // A late yes changes nothing: it is being undone.
    is_open(answer_of(shop.does(says("o", 1, Side::Stock, Said::Taken))), 1, STOCK, true);
    assert_eq!(shop.sends(retry("o")), ["add"], "what was not answered is sent again");
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Stock, Said::Undone))), failed(1, Why::Cancelled));
    assert_eq!(shop.state("o"), OrderState::NotPaid(Some(tr(1))));
}

#[test]
fn a_refusal_that_is_known_is_the_reason_though_the_other_side_was_silent() {
    let mut shop = World::shop_outside(0, 1, STOCK);
    is_open(shop.checkout("o"), 1, STOCK, false);
    shop.now += i64::from(DEADLINE) + 1;
    shop.expire(10);
    assert_eq!(answer_of(shop.does(says("o", 1, Side::Stock, Said::Undone))), failed(1, Why::Pay));
}

#[test]
fn both_outside_and_silent_until_the_deadline() {
    let mut shop = World::shop_outside(0, 0, Sides::BOTH);
    is_open(shop.checkout("o"), 1, Sides::BOTH, false);
    shop.now += i64::from(DEADLINE);
    assert_eq!(shop.expire(10).outcome(0).subject.ended(), 0, "at the deadline it may still be decided");
    shop.now += 1;
    let effects = shop.expire(10);
    assert_eq!(effects.outcome(0).subject.ended(), 1);
    assert_eq!(types(&effects), ["trfail", "can", "add"]);
    is_open(shop.checkout("o"), 1, Sides::BOTH, true);
    assert_eq!(shop.expire(10).outcome(0).subject.ended(), 0, "it is cancelled once");
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
    let mut shop = World::shop_outside(0, 10, PAY);
    for name in ["p", "q"] {
        shop.sells(name, "u", "i", 3);
    }
    for name in ["o", "p", "q"] {
        shop.checkout(name);
    }
    assert_eq!(shop.stock("i"), 2);
    shop.now += i64::from(DEADLINE) + 1;
    assert_eq!(shop.expire(2).outcome(0).subject.ended(), 2, "within its budget, the oldest first");
    assert_eq!(shop.stock("i"), 7);
    assert_eq!(shop.state("q"), OrderState::Pending(tr(1)));
    shop.expire(2);
    assert_eq!(shop.stock("i"), 10);
}

/// A crowd of transfers that run out does not keep a checkout from its deadline.
#[test]
fn a_deadline_has_its_part_of_an_expiry() {
    let mut shop = World { offset: 100, ..World::roomy() };
    shop.does(user("u", 10));
    shop.does(item("i", 2, 5));
    shop.sells("o", "u", "i", 2);
    shop.does(ShopCommand::SetOutside { outside: PAY });
    let expiration = shop.now + i64::from(DEADLINE);
    let prepares: Vec<Command> =
        (0..12).map(|n| prepared(Prepare { expiration, ..prepare_of(n, 1) })).collect();
    let effects = shop.frame(&prepares);
    assert!(effects.outcomes().iter().all(|outcome| outcome.state == Some(TransferState::Reserved)));
    is_open(shop.checkout("o"), 1, PAY, false);
    shop.now += i64::from(DEADLINE) + 1;
    let effects = shop.expire(4);
    assert_eq!(effects.outcome(0).subject.ended(), 4);
    assert_eq!(shop.state("o"), OrderState::Cancelling(tr(1)), "in the first record, beside three holds");
    let ended = |shop: &mut World| shop.expire(4).outcome(0).subject.ended();
    assert_eq!(
        [(); 4].map(|()| ended(&mut shop)),
        [4, 4, 1, 0],
        "what the checkout does not need is the holds'"
    );
}

#[test]
fn an_open_checkout_keeps_the_sides_that_it_began_with() {
    let mut shop = World::shop_outside(10, 2, PAY);
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
    let mut shop = World::shop_outside(0, 2, PAY);
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
    let mut shop = World::shop_outside(0, 2, PAY);
    (0..16).for_each(|key| drop(shop.does(keyed("o", &format!("k{key}"), key))));
    assert!(matches!(shop.refuses(keyed("o", "one too many", 1)), ShopRefusal::Full { .. }));
}

#[test]
fn an_init_leaves_orders_alone_that_are_under_way() {
    let mut shop = World::shop_outside(0, 2, PAY);
    shop.sells("0", "u", "i", 1);
    shop.checkout("0");
    let init = ShopCommand::InitOrders { first: 0, count: 3, items: 1, users: 1, price: whole(1), seed: 1 };
    assert!(matches!(shop.refuses(init.clone()), ShopRefusal::NotNow { .. }));
    shop.does(says("0", 1, Side::Pay, Said::Refused));
    shop.does(init);
}

/// A give-back onto a row that an init replaced would make credit, or stock, out of nothing.
#[test]
fn an_init_replaces_nothing_while_a_checkout_is_open() {
    let mut shop = World::empty();
    let users = |first, count| ShopCommand::InitUsers { first, count, credit: whole(100) };
    let items = |first, count| ShopCommand::InitItems { first, count, stock: whole(50), price: whole(5) };
    let orders =
        |first| ShopCommand::InitOrders { first, count: 1, items: 1, users: 1, price: whole(5), seed: 1 };
    for command in [users(0, 1), items(0, 1), orders(0), orders(1)] {
        shop.does(command);
    }
    shop.does(ShopCommand::SetOutside { outside: STOCK });
    is_open(shop.checkout("0"), 1, STOCK, false);
    assert_eq!(shop.credit("0"), 90);
    for (command, kind) in [(users(0, 2), "users"), (items(0, 2), "items"), (orders(1), "orders")] {
        assert_eq!(shop.refuses(command), ShopRefusal::CheckoutsOpen { kind, open: 1 });
    }
    // What is new was taken from by nobody.
    for command in [users(1, 3), items(1, 3), orders(2)] {
        shop.does(command);
    }
    assert_eq!(answer_of(shop.does(says("0", 1, Side::Stock, Said::Refused))), failed(1, Why::Stock));
    assert_eq!(shop.credit("0"), 100, "what was taken came back, and no more");
    for command in [users(0, 2), items(0, 2), orders(1)] {
        shop.does(command);
    }
}

/// An order that an init put in the place of another has nothing to do with the answers about that one.
#[test]
fn what_was_said_of_an_order_is_not_said_of_the_one_in_its_place() {
    let init =
        || ShopCommand::InitOrders { first: 0, count: 1, items: 1, users: 1, price: whole(5), seed: 1 };
    let mut shop = World::empty();
    shop.does(ShopCommand::InitUsers { first: 0, count: 1, credit: whole(25) });
    shop.does(ShopCommand::InitItems { first: 0, count: 1, stock: whole(50), price: whole(5) });
    shop.does(init());
    shop.does(ShopCommand::SetOutside { outside: STOCK });
    shop.does(keyed("0", "paid", 1));
    shop.does(says("0", 1, Side::Stock, Said::Taken));
    assert_eq!(answer_of(shop.does(keyed("0", "paid", 1))), paid(1));
    shop.does(init());
    assert_eq!(
        shop.refuses(says("0", 1, Side::Stock, Said::Taken)),
        ShopRefusal::Replaced("0".parse().unwrap()),
        "a late repeat"
    );
    // The key is as one that was never used: the new order is checked out, and charged for.
    is_open(answer_of(shop.does(keyed("0", "paid", 1))), 2, STOCK, false);
    assert_eq!(shop.credit("0"), 5);
    is_open(answer_of(shop.does(keyed("0", "paid", 1))), 2, STOCK, false);
    assert!(matches!(shop.refuses(says("0", 1, Side::Stock, Said::Undone)), ShopRefusal::Replaced(_)));
    assert_eq!(answer_of(shop.does(says("0", 2, Side::Stock, Said::Refused))), failed(2, Why::Stock));
    assert_eq!(answer_of(shop.does(keyed("0", "paid", 1))), failed(2, Why::Stock));
    // So it is with one that failed.
    shop.does(init());
    is_open(answer_of(shop.does(keyed("0", "paid", 1))), 3, STOCK, false);
    assert!(matches!(shop.refuses(keyed("0", "paid", 2)), ShopRefusal::KeyReused), "another request");
    let late = shop.does(says("0", 3, Side::Stock, Said::Taken));
    assert_eq!(late, ShopOutcome::Heard { counts: true, now: paid(3) });
    assert_eq!(answer_of(shop.does(keyed("0", "paid", 1))), paid(3));
}

/// A user whose credit is at its bound cannot be given back to: the checkout waits, and goes on when it can.
#[test]
fn what_cannot_be_given_back_waits_for_an_operator() {
    let mut shop = World::shop_outside(10, 2, STOCK);
    shop.checkout("o");
    shop.does(funds("u", i64::MAX as u64));
    let (outcome, effects) = shop.decided(says("o", 1, Side::Stock, Said::Refused));
    is_open(answer_of(outcome), 1, PAY, true);
    assert!(matches!(effects.shop_alarms()[..], [Alarm::Stuck { .. }]));
    shop.does(ShopCommand::TakeFunds { user: "u".parse().unwrap(), amount: whole(20) });
    assert_eq!(answer_of(shop.does(retry("o"))), failed(1, Why::Stock));
    assert_eq!(shop.credit("u"), i64::MAX as u64 - 10);
}
