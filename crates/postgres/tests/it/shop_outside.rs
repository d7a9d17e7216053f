//! Sides that are called over HTTP, as far as the store knows of them; and ends of checkouts that wait to be told.

use std::time::Duration;

use holdfast_domain::shop::{CheckoutAnswer, Message, Said, Side, Sides, TrNum, TryKey, Why, spoken};
use holdfast_messages::{OutcomeMessage, Topic};
use holdfast_postgres::shop::{FailedTelling, Served};
use holdfast_postgres::{Batch, Error, Settings, Source, Step, Store};

use crate::shop_world::*;
use crate::world::*;

const NOW: i64 = 2_000_000_000_000;
const STOCK: Sides = Sides { pay: false, stock: true };
const LEASE: Duration = Duration::from_secs(25);

fn calling(world: &World, outside: Sides) -> Store {
    Store::open(&world.url, Settings { outside, ..Settings::default() }).unwrap()
}

/// What is in the warehouse is not in these books; the messages to it are passed by, and its word is taken.
#[test]
fn a_called_side_is_passed_by_and_its_word_counts() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 10)], &[("i", 0, 7)], &[("o", "u", "i", 1)]);
    shop.store = calling(&world, STOCK);
    shop.store.agree_on_serving().unwrap();
    assert_eq!(shop.store.serving().unwrap().called, STOCK);
    // The epoch of the side's partitions has risen: whoever had them must look at it again.
    shop.stock[0].taken_over(&mut shop.store);
    shop.asks("o", checkout(), &[Orders, Relay]);
    shop.stock[0].push("no key", b"nonsense");
    let step = shop.stock[0].take(|claim, batch| shop.store.pass(claim, batch)).unwrap();
    assert_eq!((step.messages, step.dead_letters), (2, 1));
    shop.turns(0, &[Pay, Relay]);
    let (order, _) = shop.store.find_order(&id("o")).unwrap().unwrap();
    let key = TryKey { order_id: id("o"), tr_num: TrNum::FIRST };
    let said = Message { key, body: spoken(&order.order, Side::Stock, Said::Taken) };
    shop.outcomes[0].say(&OutcomeMessage::new(said).unwrap());
    shop.turn(0, Outcomes);
    assert_eq!((shop.state("o").as_str(), shop.credit("u"), shop.stock_of("i")), ("paid", 3, 0));
    world.verify();
    // An order whose stock was to be taken from here, and was not, is found.
    world.run("UPDATE orders SET called = 0");
    assert!(!world.store().verify().unwrap().findings.is_empty());
}

#[test]
fn who_is_called_changes_only_when_nobody_is_at_work() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 10)], &[("i", 1, 7)], &[("o", "u", "i", 1)]);
    let mut other = calling(&world, STOCK);
    let refused = |store: &mut Store| match store.agree_on_serving() {
        Err(Error::Sides { open, unsent, nodes, .. }) => (open + unsent, nodes),
        other => panic!("{other:?}"),
    };
    shop.store.agree_on_serving().unwrap();
    // A node lives.
    assert_eq!(shop.store.count_nodes(Source::Callback(0), 7, LEASE).unwrap(), 1);
    assert_eq!(refused(&mut other), (0, 1));
    shop.store.leave(Source::Callback(0), 7).unwrap();
    // A checkout is open, and its messages are not sent.
    shop.asks("o", checkout(), &[Orders]);
    assert_eq!(refused(&mut other), (2, 0));
    shop.drain();
    assert_eq!(shop.state("o"), "paid");
    // All is sent, and known to be. Then somebody has died before it has sent something.
    world.run("UPDATE segment SET outbox_sent = outbox_next");
    let source = "UPDATE segment SET outbox_next = outbox_next + $1 WHERE segment_type = 'consumer' AND table_name = 'orders' AND enumeration = 0";
    world.sql().execute(source, &[&1_i64]).unwrap();
    assert_eq!(refused(&mut other), (1, 0));
    world.sql().execute(source, &[&-1_i64]).unwrap();
    other.agree_on_serving().unwrap();
    other.agree_on_serving().unwrap();
    assert_eq!(shop.store.serving().unwrap().called, STOCK);
    // Whoever took messages of that side takes none any more; the other side is as it was.
    let (stock, pay) = (&shop.stock[0], &shop.pay[0]);
    assert_eq!(shop.store.stock(&stock.claim, &Batch::new(stock.at, &[])).unwrap(), Step::Fenced);
    assert!(matches!(shop.store.pay(&pay.claim, &Batch::new(pay.at, &[])).unwrap(), Step::Done(_)));
    world.verify();
}

/// A warehouse that reads the topic itself is something that all nodes agree on. When its side comes inside, what was its to answer
/// is not asked again.
#[test]
fn a_side_that_comes_back_from_kafka_begins_behind_what_was_another_s() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    shop.stocked(&[("u", 20)], &[("i", 6, 7)], &[("first", "u", "i", 1), ("o", "u", "i", 1)]);
    // The nodes have served it before: it has a chain of audit records.
    assert_eq!(shop.run("first", checkout()).1, "paid");
    world.run("UPDATE segment SET outbox_sent = outbox_next");
    let before = shop.stock[0].at;
    let settings = Settings { on_kafka: STOCK, ..Settings::default() };
    let mut outside = Store::open(&world.url, settings).unwrap();
    outside.agree_on_serving().unwrap();
    assert_eq!(outside.serving().unwrap().of(Side::Stock), Served::OnKafka);
    shop.store = outside;
    shop.asks("o", checkout(), &[Orders, Relay, Pay, Relay]);
    assert_eq!(shop.stock[0].pending().len(), 1, "the warehouse reads it");
    let asked = before + 1;
    let first = r#"{"order_id":"o","tr_num":1}"#;
    shop.outcomes[0].push(first, br#"{"type":"ssucc","items":[{"id":"i","amnt":1}]}"#);
    shop.turn(0, Outcomes);
    assert_eq!((shop.state("o").as_str(), shop.stock_of("i")), ("paid", 5));
    while shop.turn(0, Outcomes) | shop.relay() {}
    world.run("UPDATE segment SET outbox_sent = outbox_next");
    world.verify();

    let mut inside = world.store();
    inside.pass_to(Topic::Stock, &[asked]).unwrap();
    inside.agree_on_serving().unwrap();
    let claim = inside.claim(&Source::Consumer(Topic::Stock, 0)).unwrap();
    assert_eq!(claim.offset, asked, "the warehouse has answered that");
    world.verify();
}

/// One that is paid and one that is not, with every message twice: each end is there once, in one hand at a time.
#[test]
fn an_end_waits_until_it_was_told() {
    let Some((world, mut shop)) = Shop::open(1) else { return };
    world.set_clock(NOW);
    shop.delivery = Delivery::TwiceAndLate;
    shop.stocked(&[("u", 100)], &[("i", 1, 7)], &[("o", "u", "i", 1), ("p", "u", "i", 1)]);
    assert_eq!(shop.run("o", checkout()).1, "paid");
    assert_eq!(shop.store.count_outcomes(10).unwrap(), 0, "nobody wants to know");
    shop.store = Store::open(&world.url, Settings { tells_outcomes: true, ..Settings::default() }).unwrap();
    assert_eq!(shop.run("p", checkout()).1, "not_paid");
    shop.stocked(&[], &[], &[("q", "u", "i", 1)]);
    shop.does(&holdfast_domain::shop::ShopCommand::AddStock { item: id("i"), amount: whole(1) });
    assert_eq!(shop.run("q", checkout()).1, "paid");
    assert_eq!(shop.run("q", checkout()).1, "paid", "which is no end");
    let (mut one, mut other) = (world.store(), world.store());
    let first = one.take_outcomes(1, LEASE).unwrap();
    let second = other.take_outcomes(10, LEASE).unwrap();
    assert_eq!((first.len(), second.len()), (1, 1), "each end once, each in one hand");
    assert_eq!(one.take_outcomes(10, LEASE).unwrap(), []);
    let (tr, why) = (TrNum::FIRST, Why::Stock);
    assert_eq!((first[0].end.order.as_str(), first[0].end.answer), ("p", CheckoutAnswer::Failed { tr, why }));
    assert_eq!((second[0].end.order.as_str(), second[0].end.answer), ("q", CheckoutAnswer::Paid { tr }));
    assert_eq!((first[0].at, first[0].attempts), (NOW, 0));
    // One fails and is told later; the node that has the other dies.
    let pause = Duration::from_secs(2);
    one.outcomes_failed(&[FailedTelling { id: first[0].id, attempts: 1, pause }]).unwrap();
    world.set_clock(NOW + 1_999);
    assert_eq!(one.take_outcomes(10, LEASE).unwrap(), []);
    world.set_clock(NOW + 2_000);
    let again = one.take_outcomes(10, LEASE).unwrap();
    assert_eq!((again.len(), again[0].id, again[0].attempts), (1, first[0].id, 1));
    world.set_clock(NOW + 25_000);
    assert_eq!(one.take_outcomes(10, LEASE).unwrap(), second);
    one.remove_outcomes(&[first[0].id, second[0].id]).unwrap();
    assert_eq!(one.count_outcomes(10).unwrap(), 0);
    shop.is_at_rest(&world);
}
