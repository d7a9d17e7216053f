//! Checkouts over topics: both sides take, or neither does, however often and in whatever order messages come.

use holdfast_domain::shop::{CheckoutAnswer, ShopCommand, ShopRefusal, TrNum, Why};
use holdfast_messages::{Message, Notification, PayMessage, StockMessage, Topic, TraceId};
use holdfast_postgres::{Batch, Incoming, Source};

use crate::shop_world::*;
use crate::world::*;

const FIRST: TrNum = TrNum::FIRST;

fn paid() -> CheckoutAnswer {
    CheckoutAnswer::Paid { tr: FIRST }
}

#[test]
fn a_checkout_takes_credit_and_stock() {
    let Some((world, mut shop)) = Shop::with_an_order(3) else { return };
    let (answer, state) = shop.run("o", checkout());
    assert!(matches!(answer, Ok(CheckoutAnswer::Open { tr: FIRST, .. })), "{answer:?}");
    assert_eq!((state.as_str(), shop.credit("u"), shop.stock_of("i")), ("paid", 79, 7));
    assert_eq!(shop.ends("o"), [paid()]);
    let partition = partition_of("o", 3);
    // psucc, ssucc and trsucc lie in the log, and nothing is open any more.
    assert_eq!(shop.offsets[&partition].last(), Some(&3));
    assert_eq!(shop.store.outcome_offset(partition).unwrap(), Some(3));
    assert_eq!(shop.coordinators[partition as usize].open_count(), 0);
    // A paid order answers so, and charges nothing.
    let (again, _) = shop.run("o", checkout());
    assert_eq!(again, Ok(CheckoutAnswer::AlreadyPaid { tr: FIRST }));
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (79, 7));
    let rows = "SELECT count(*) FROM pay_transaction WHERE outcome = 'taken' AND user_id = 'u' AND amnt = 21";
    assert_eq!(world.count(rows), 1);
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid AND tr_num = 1 AND amount = 21"), 1);
    shop.is_at_rest(&world);
}

/// Fails if a refusal keeps what the other side took, or if the order is tried again by itself.
#[test]
fn what_one_side_refuses_the_other_gives_back() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = Shop::open(2) else { return };
        shop.delivery = delivery;
        shop.stocked(
            &[("rich", 1_000), ("poor", 5)],
            &[("there", 100, 10), ("gone", 0, 10)],
            &[
                ("by-stock", "rich", "gone", 1),
                ("by-credit", "poor", "there", 2),
                ("by-both", "poor", "gone", 1),
                ("by-nobody", "rich", "there", 4),
                ("no-user", "nobody", "there", 1),
            ],
        );
        for (order, why) in [
            ("by-stock", Some(Why::Stock)),
            ("by-credit", Some(Why::Pay)),
            ("by-both", Some(Why::Both)),
            ("by-nobody", None),
            ("no-user", Some(Why::Pay)),
        ] {
            let (_, state) = shop.run(order, checkout());
            let end = why.map_or_else(paid, failed);
            assert_eq!(shop.ends(order).first(), Some(&end), "{order}");
            assert_eq!(state, if why.is_some() { "not_paid" } else { "paid" }, "{order}");
            let named = world.sql().query_one("SELECT why_failed FROM orders WHERE order_id = $1", &[&order]);
            assert_eq!(named.unwrap().get::<_, Option<String>>(0).as_deref(), why.map(Why::name));
        }
        let left = (shop.credit("rich"), shop.credit("poor"), shop.stock_of("there"), shop.stock_of("gone"));
        assert_eq!(left, (960, 5, 96, 0));
        assert_eq!(world.count("SELECT coalesce(max(tr_num), 0) FROM orders"), 1, "nobody tried again");
        assert_eq!(shop.alarms, []);
        shop.is_at_rest(&world);

        // With enough of both it is paid by its second try.
        shop.does(&ShopCommand::AddStock { item: id("gone"), amount: whole(1) });
        let (_, state) = shop.run("by-stock", checkout());
        assert_eq!(state, "paid");
        assert_eq!(shop.ends("by-stock").last().map(CheckoutAnswer::tr).map(TrNum::get), Some(2));
        assert_eq!((shop.credit("rich"), shop.stock_of("gone")), (950, 0));
        shop.is_at_rest(&world);
    }
}

/// A command that comes again after its try has failed is told how that ended, and begins no other.
#[test]
fn a_repeated_command_begins_no_second_try() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 1)], &[("i", 9, 5)], &[("o", "u", "i", 1)]);
    let trace = shop.ask("o", checkout());
    shop.drain();
    assert_eq!(shop.ends("o"), [failed(Why::Pay)]);
    shop.does(&ShopCommand::AddFunds { user: id("u"), amount: whole(100) });
    shop.ask_as(trace, "o", checkout());
    shop.drain();
    let answers: Vec<_> = shop.told.iter().filter(|(of, _, _)| *of == trace).collect();
    assert_eq!(answers.last().unwrap().2, Ok(failed(Why::Pay)));
    assert_eq!((shop.state("o").as_str(), shop.credit("u")), ("not_paid", 101));
    let (_, state) = shop.run("o", checkout());
    assert_eq!((state.as_str(), shop.credit("u")), ("paid", 96));
    shop.is_at_rest(&world);
}

#[test]
fn a_rollback_that_comes_first_is_kept_and_its_forward_message_refused() {
    let Some((world, mut shop)) = Shop::with_an_order(1) else { return };
    shop.asks("o", checkout(), &[Orders]);
    let forward = shop.store.unsent(&shop.orders[0].claim, 10).unwrap();
    shop.asks("o", CANCEL, &[Orders]);
    // Of the outbox only what the cancel has sent: `trfail`, `can`, `add`, and its answer.
    let all = shop.store.unsent(&shop.orders[0].claim, 10).unwrap();
    shop.publish(&all[forward.len()..]);
    while shop.turn(0, Pay) | shop.turn(0, Stock) {}
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (100, 10));
    assert_eq!(world.count("SELECT count(*) FROM pay_transaction WHERE is_rollback AND amnt IS NULL"), 1);
    shop.publish(&forward);
    while shop.turn(0, Pay) | shop.turn(0, Stock) {}
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (100, 10), "nothing is taken after its rollback");
    let refused = "SELECT count(*) FROM pay_transaction WHERE NOT is_rollback AND outcome = 'refused'";
    assert_eq!(world.count(refused), 1);
    assert!(shop.store.mark_sent(&shop.orders[0].claim, all.last().unwrap().number + 1).unwrap());
    shop.drain();
    assert_eq!((shop.state("o").as_str(), shop.ends("o")), ("not_paid", vec![failed(Why::Cancelled)]));
    shop.is_at_rest(&world);
}

/// 1,000 orders on 100 units: never more than 100 are paid, and those that were refused only because others held units at
/// that moment get them when they ask again.
#[test]
fn a_thousand_orders_share_a_hundred_units() {
    for delivery in [Delivery::Once, Delivery::TwiceAndLate] {
        let Some((world, mut shop)) = Shop::open(4) else { return };
        shop.delivery = delivery;
        let users = ShopCommand::InitUsers { first: 0, count: 700, credit: whole(1) };
        shop.does(&users);
        shop.stocked(&[], &[("i", 100, 1)], &[]);
        let orders: Vec<String> = (0..1_000).map(|number| format!("order-{number}")).collect();
        for (number, order) in orders.iter().enumerate() {
            // Users come again: the second order of one is refused by the payment side.
            let user = (number * 7 % 700).to_string();
            shop.stocked(&[], &[], &[(order, &user, "i", 1)]);
        }
        for order in &orders {
            shop.ask(order, checkout());
        }
        shop.drain();
        let paid_now = || world.count("SELECT count(*) FROM orders WHERE paid");
        let sums = |paid: i64| {
            assert_eq!(world.count("SELECT 100 - stock FROM items"), paid, "units gone");
            assert_eq!(world.count("SELECT 700 - sum(credit)::bigint FROM users"), paid, "credit gone");
        };
        assert!(paid_now() <= 100);
        sums(paid_now());
        for _ in 0..20 {
            if paid_now() == 100 {
                break;
            }
            for order in &orders {
                if shop.state(order) == "not_paid" {
                    shop.ask(order, checkout());
                    shop.drain();
                }
            }
        }
        assert_eq!(paid_now(), 100);
        sums(100);
        assert_eq!(shop.alarms, []);
        shop.is_at_rest(&world);
    }
}

#[test]
fn an_idempotency_key_gets_the_stored_answer() {
    let Some((world, mut shop)) = Shop::open(2) else { return };
    shop.stocked(&[("u", 1)], &[("i", 9, 5)], &[("o", "u", "i", 1), ("p", "u", "i", 1)]);
    let (_, state) = shop.run("o", checkout_under("k", 1));
    assert_eq!((state.as_str(), shop.ends("o")), ("not_paid", vec![failed(Why::Pay)]));
    shop.does(&ShopCommand::AddFunds { user: id("u"), amount: whole(100) });
    // The same key: the same answer, and nothing is tried, though it could be paid now.
    let (again, state) = shop.run("o", checkout_under("k", 1));
    assert_eq!((again, state.as_str()), (Ok(failed(Why::Pay)), "not_paid"));
    let (other, _) = shop.run("o", checkout_under("k", 2));
    assert_eq!(other, Err(ShopRefusal::KeyReused));
    let (elsewhere, _) = shop.run("p", checkout_under("k", 1));
    assert_eq!(elsewhere, Err(ShopRefusal::KeyReused));

    // Who joins under a key gets the answer of the try that it joined.
    let first = shop.ask("o", checkout_under("k2", 1));
    let joined = shop.ask("o", checkout_under("k3", 1));
    shop.drain();
    for trace in [first, joined] {
        assert!(matches!(shop.answered(trace), Ok(CheckoutAnswer::Open { .. })));
    }
    let second = CheckoutAnswer::Paid { tr: TrNum::try_from(2).unwrap() };
    for key in ["k2", "k3"] {
        assert_eq!(shop.run("o", checkout_under(key, 1)).0, Ok(second));
    }
    assert_eq!(shop.credit("u"), 96, "charged once");
    shop.is_at_rest(&world);

    // After a day the key is free, whether or not somebody has removed it.
    let later = world.count("SELECT (extract(epoch FROM max(ends_at)) * 1000)::bigint FROM idempotency_key");
    world.set_clock(later + 1);
    let (_, state) = shop.run("p", checkout_under("k", 7));
    assert_eq!(state, "paid");
    assert_eq!(shop.store.remove_ended_keys(10).unwrap(), 2, "k is in use again");
    assert_eq!(world.count("SELECT count(*) FROM idempotency_key"), 1);
    shop.is_at_rest(&world);
}

#[test]
fn commands_are_refused_as_an_embedded_shop_refuses_them() {
    let Some((world, mut shop)) = Shop::open(2) else { return };
    shop.stocked(&[("u", 100)], &[("i", 9, 5)], &[("o", "u", "i", 1)]);
    let trace = shop.ask("unknown", checkout());
    shop.drain();
    assert_eq!(shop.answered(trace), Err(ShopRefusal::UnknownOrder(id("unknown"))));
    for command in [CANCEL, RETRY] {
        let (answer, state) = shop.run("o", command);
        assert!(matches!(answer, Err(ShopRefusal::NotNow { .. })), "{answer:?}");
        assert_eq!(state, "not_paid");
    }
    let (_, state) = shop.run("o", checkout());
    assert_eq!(state, "paid");
    for command in [CANCEL, RETRY] {
        let (answer, state) = shop.run("o", command);
        assert!(matches!(answer, Err(ShopRefusal::NotNow { .. })), "{answer:?}");
        assert_eq!(state, "paid");
    }
    shop.is_at_rest(&world);
}

/// What cannot be read, what lies in the wrong topic and what PostgreSQL will not store is put aside, and stops nothing.
#[test]
fn poison_is_put_aside() {
    let Some((world, mut shop)) = Shop::with_an_order(1) else { return };
    let key = r#"{"order_id":"o","tr_num":1}"#;
    shop.orders[0].push("o", b"{}");
    shop.pay[0].push(key, b"nonsense");
    shop.pay[0].push(key, br#"{"type":"sub","items":[]}"#);
    shop.pay[0].push(r#"{"order_id":"\u0000","tr_num":1}"#, br#"{"type":"pay","user_id":"u","amnt":1}"#);
    shop.stock[0].push("o", br#"{"type":"sub","items":[]}"#);
    shop.outcomes[0].push(key, br#"{"type":"psucc","user_id":"u"}"#);
    shop.outcomes[0].push(r#"{"order_id":"\u0000","tr_num":1}"#, br#"{"type":"trsucc"}"#);
    let (_, state) = shop.run("o", checkout());
    assert_eq!(state, "paid");
    let mut topics: Vec<(String, u64)> =
        shop.dead_letters.iter().map(|letter| (letter.topic.clone(), letter.offset)).collect();
    topics.sort();
    let wanted =
        [("orders", 0), ("outcomes", 0), ("outcomes", 1), ("pay", 0), ("pay", 1), ("pay", 2), ("stock", 0)];
    assert_eq!(topics, wanted.map(|(topic, offset)| (topic.to_owned(), offset)));
    assert_eq!(world.count("SELECT count(*) FROM dead_letter"), 7);
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (79, 7));
    shop.is_at_rest(&world);
}

/// What is said about tries that nobody began, or against what was asked, is reported and changes nothing.
#[test]
fn outcomes_that_cannot_be_are_reported() {
    let Some((world, mut shop)) = Shop::with_an_order(1) else { return };
    let first = r#"{"order_id":"o","tr_num":1}"#;
    shop.outcomes[0].push(first, br#"{"type":"psucc","user_id":"u","amnt":21}"#);
    shop.outcomes[0].push(r#"{"order_id":"x","tr_num":1}"#, br#"{"type":"trsucc"}"#);
    shop.drain();
    shop.asks("o", checkout(), &[Orders]);
    shop.outcomes[0].push(first, br#"{"type":"psucc","user_id":"u","amnt":20}"#);
    shop.outcomes[0].push(first, br#"{"type":"csucc","user_id":"u","amnt":21}"#);
    shop.turn(0, Outcomes);
    assert_eq!(shop.state("o"), "pending");
    shop.drain();
    assert_eq!(shop.state("o"), "paid");
    shop.outcomes[0].push(first, br#"{"type":"trfail"}"#);
    shop.pay[0].push(first, br#"{"type":"pay","user_id":"u","amnt":20}"#);
    shop.drain();
    let names: Vec<&str> = shop.alarms.iter().map(|alarm| alarm.name()).collect();
    assert_eq!(
        names,
        ["never-started", "unknown-order", "other-value", "unasked", "differs", "contradiction"]
    );
    assert_eq!((shop.state("o").as_str(), shop.credit("u")), ("paid", 79));
    shop.is_at_rest(&world);
}

/// Whoever may write to `outcomes` may write a decision too. One that nobody made pays nothing, and takes nothing for ever.
#[test]
fn decisions_that_nobody_made_are_not_believed() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(
        &[("u", 100)],
        &[("i", 10, 7)],
        &[("o", "u", "i", 3), ("p", "u", "i", 20), ("q", "u", "i", 3)],
    );
    for order in ["o", "p", "q"] {
        shop.asks(order, checkout(), &[Orders]);
    }
    for (order, verdict) in [("o", "trsucc"), ("p", "trsucc"), ("q", "trfail")] {
        let key = format!(r#"{{"order_id":"{order}","tr_num":1}}"#);
        shop.outcomes[0].push(&key, format!(r#"{{"type":"{verdict}"}}"#).as_bytes());
    }
    shop.turn(0, Outcomes);
    let states = ["o", "p", "q"].map(|order| shop.state(order));
    assert_eq!(states, ["pending", "pending", "cancelling"]);
    shop.drain();
    // The first is paid by its sides, the second refused by the stock, and the third gives back.
    let states = ["o", "p", "q"].map(|order| shop.state(order));
    assert_eq!(states, ["paid", "not_paid", "not_paid"]);
    assert_eq!((shop.credit("u"), shop.stock_of("i")), (79, 7));
    let undecided = shop.alarms.iter().filter(|alarm| alarm.name() == "undecided").count();
    assert_eq!(undecided, 3, "{:?}", shop.alarms);
    shop.is_at_rest(&world);
}

/// The notice of a checkout goes to those who wait at nodes. The callbacks handler reads the same topic and makes nothing of it.
#[test]
fn no_callback_is_made_of_a_checkout() {
    let Some((world, mut shop)) = Shop::with_an_order(1) else { return };
    shop.asks("o", checkout(), &[Orders]);
    let sent = shop.store.unsent(&shop.orders[0].claim, 10).unwrap();
    let notices: Vec<Incoming<Notification>> = sent
        .iter()
        .filter(|row| row.topic == Topic::Notifications)
        .enumerate()
        .map(|(offset, row)| Incoming::read(offset as u64, row.key.clone().into_bytes(), row.value.clone()))
        .collect();
    assert_eq!(notices.len(), 1);
    let claim = shop.store.claim(&Source::Consumer(Topic::Notifications, 0)).unwrap();
    let step = done(shop.store.callbacks(&claim, &Batch::new(0, &notices)).unwrap());
    assert_eq!((step.messages, step.dead_letters, step.unheard), (1, 0, 0));
    assert_eq!(world.count("SELECT count(*) FROM callback"), 0);
}

/// A message to a side is answered on the partition that it was read from, wherever its order belongs.
#[test]
fn an_answer_goes_where_the_question_came_from() {
    let Some((_world, mut shop)) = Shop::open(3) else { return };
    shop.stocked(&[("u", 100)], &[], &[]);
    let elsewhere = (partition_of("o", 3) as usize + 1) % 3;
    let (key, value) = (r#"{"order_id":"o","tr_num":1}"#, br#"{"type":"pay","user_id":"u","amnt":1}"#);
    let message = PayMessage::read(key.as_bytes(), value).unwrap();
    assert_eq!(message.trace(), TraceId::NOBODY);
    shop.pay[elsewhere].say(&message);
    shop.turns(elsewhere, &[Pay, Relay]);
    assert_eq!(shop.outcomes[elsewhere].log.len(), 1);
    let message =
        StockMessage::read(key.as_bytes(), br#"{"type":"sub","items":[{"id":"i","amnt":1}]}"#).unwrap();
    shop.stock[elsewhere].say(&message);
    shop.turns(elsewhere, &[Stock, Relay]);
    assert_eq!(shop.outcomes[elsewhere].log.len(), 2);
}
