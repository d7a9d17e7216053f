//! Both sides are inside, and all nodes do everything: one order for many callers, words that come twice, late or against each
//! other, and what nobody can read.

use holdfast_kafka::{Outgoing, Topic};
use serde_json::json;

use super::{CREDIT, LONG_MS, NODES, PRICE, Shop, TOPICS, UNITS};
use crate::offsets::{self, Times};
use crate::shop::begin;
use crate::support::shop::post;
use crate::support::wait::await_that;
use crate::world::{PARTITIONS, Telling, World};

/// One after the other in one world.
#[test]
fn orders_at_three_nodes() {
    let Some(mut world) = World::beside_others() else { return };
    let told: Vec<Telling> = (0..NODES).map(|_| world.add_telling_node(&[])).collect();
    world.await_shared(&TOPICS);
    let shop = Shop::open(&world, CREDIT);
    let sold = many_callers_are_charged_once(&shop)
        + a_second_word_against_the_first(&shop, &told)
        + poison_lies_between_checkouts(&shop);
    let poor = Shop::open(&world, PRICE);
    let bought = late_words_of_the_first_try(&poor);
    world.await_read(&TOPICS);
    shop.has_sold(sold, CREDIT);
    poor.has_sold(bought, bought * PRICE);
    offsets::judge(&world, Times::Calm);
    world.verify();
}

/// Two at each node ask for one order at once, and all find it under way. Then it is paid, and stays as it is.
fn many_callers_are_charged_once(shop: &Shop<'_>) -> u64 {
    const CALLERS: usize = 6;
    let order = shop.order(2);
    let (mut sql, asked) = (shop.world.sql(), shop.world.ends(Topic::Orders).iter().sum::<u64>());
    let held = shop.hold(&mut sql);
    std::thread::scope(|scope| {
        let order = order.as_str();
        let callers: Vec<_> =
            (0..CALLERS).map(|node| (node, scope.spawn(move || shop.checkout(node, order)))).collect();
        let ends = || shop.world.ends(Topic::Orders).iter().sum::<u64>();
        await_that("all of them ask", ends, |ends| *ends >= asked + CALLERS as u64);
        shop.world.await_looked_at(&[Topic::Orders]);
        shop.takes_no_more_lines(order);
        held.rollback().expect("the item is free");
        for (node, caller) in callers {
            let answer = caller.join().expect("an answer");
            let told = answer.json();
            assert_eq!(
                (answer.status, &told["tr"], &told["state"]),
                (200, &json!(1), &json!("paid")),
                "at node {node}: {told}"
            );
        }
    });
    assert_eq!(shop.words(Topic::Pay, &order), [(1, "pay".to_owned())], "it is charged once");
    assert_eq!(shop.words(Topic::Stock, &order), [(1, "sub".to_owned())]);

    for node in 0..NODES {
        let again = shop.checkout(node, &order);
        assert_eq!(
            (again.status, &again.json()["charged"]),
            (200, &json!(false)),
            "at node {node}: {again:?}"
        );
    }
    shop.takes_no_more_lines(&order);
    assert_eq!(shop.words(Topic::Pay, &order).len(), 1, "a paid order asks nobody for anything");
    shop.has_sold(2, CREDIT);
    2
}

/// A side says that it has taken, and then that it has not: one while the order is under way, the other when it is paid.
fn a_second_word_against_the_first(shop: &Shop<'_>, told: &[Telling]) -> u64 {
    let order = shop.order(3);
    let mut sql = shop.world.sql();
    let held = shop.hold(&mut sql);
    begin(shop.world.node(0), &order, LONG_MS);
    shop.await_order(&order, "pay_outcome = 'taken'");
    shop.say(&order, 1, &shop.payment("pfail", 3));
    shop.world.await_looked_at(&[Topic::Outcomes]);
    shop.await_order(&order, "state = 'pending' AND pay_outcome = 'taken'");
    held.rollback().expect("the item is free");
    assert_eq!(shop.checkout(1, &order).status, 200);
    shop.say(&order, 1, &shop.items("sfail", 3));
    shop.world.await_looked_at(&[Topic::Outcomes]);
    shop.await_order(&order, "paid AND tr_num = 1");
    let lines: String = told.iter().map(Telling::text).collect();
    for against in ["pfail contradicts psucc", "sfail contradicts trsucc"] {
        let line = format!("order {order} try 1: {against}");
        let told =
            lines.lines().find(|told| told.contains(&line)).unwrap_or_else(|| panic!("'{line}' in {lines}"));
        assert!(told.contains("alarm=\"contradiction\""), "{told}");
    }
    assert_eq!(shop.words(Topic::Pay, &order), [(1, "pay".to_owned())], "nothing is given back");
    assert_eq!(shop.words(Topic::Stock, &order), [(1, "sub".to_owned())]);
    3
}

/// Too little to pay with; then there is enough, and while the second try is under way all is said again about the first.
fn late_words_of_the_first_try(shop: &Shop<'_>) -> u64 {
    let order = shop.order(4);
    let refused = shop.checkout(0, &order);
    assert_eq!((refused.status, &refused.json()["why"]), (402, &json!("pay")), "{refused:?}");
    assert_eq!((shop.credit(), shop.stock()), (PRICE, UNITS), "whatever was taken is back");
    let first = shop.words(Topic::Outcomes, &order);
    let mut said: Vec<&str> = first.iter().map(|(_, word)| word.as_str()).collect();
    said.sort_unstable();
    assert_eq!(said, ["asucc", "pfail", "ssucc", "trfail"], "all that there is to say of it");
    post(shop.world.node(1), &format!("/payment/add_funds/{}/{}", shop.user, 3 * PRICE));

    let mut sql = shop.world.sql();
    let held = shop.hold(&mut sql);
    begin(shop.world.node(2), &order, LONG_MS);
    shop.await_order(&order, "tr_num = 2 AND pay_outcome = 'taken'");
    for (tr, word) in first {
        assert_eq!(tr, 1);
        let again = match word.as_str() {
            "trfail" => json!({"type": "trfail"}),
            "pfail" => shop.payment("pfail", 4),
            _ => shop.items(&word, 4),
        };
        shop.say(&order, 1, &again);
    }
    shop.world.await_looked_at(&[Topic::Outcomes]);
    shop.await_order(&order, "state = 'pending' AND tr_num = 2 AND stock_outcome IS NULL");
    held.rollback().expect("the item is free");
    let paid = shop.checkout(0, &order);
    assert_eq!((paid.status, &paid.json()["tr"]), (200, &json!(2)), "{paid:?}");
    let words = |topic| {
        shop.words(topic, &order).into_iter().map(|(tr, word)| format!("{word} {tr}")).collect::<Vec<_>>()
    };
    assert_eq!(words(Topic::Pay), ["pay 1", "pay 2"]);
    assert_eq!(words(Topic::Stock), ["sub 1", "add 1", "sub 2"]);
    4
}

/// In each partition of each topic something lies that nobody can read, and something that belongs elsewhere; before it and
/// behind it a checkout, and none of them waits for the other.
fn poison_lies_between_checkouts(shop: &Shop<'_>) -> u64 {
    let (before, behind) = (shop.order_in_each_partition(), shop.order_in_each_partition());
    let mut sql = shop.world.sql();
    // The stock side finds all of it at once.
    let held = shop.hold(&mut sql);
    let begin_all = |orders: &[String]| {
        for (node, order) in orders.iter().enumerate() {
            begin(shop.world.node(node % NODES), order, LONG_MS);
        }
        shop.world.await_looked_at(&[Topic::Orders, Topic::Pay]);
    };
    begin_all(&before);
    let key = json!({"order_id": "nobody", "tr_num": 1}).to_string();
    for topic in TOPICS {
        // A word of the other side; in `orders` nobody says such a thing at all.
        let elsewhere =
            if topic == Topic::Pay { shop.items("sub", 1) } else { shop.payment("pay", 1) }.to_string();
        let poison = (0..PARTITIONS).flat_map(|partition| {
            [
                Outgoing { topic, partition, key: b"nobody's", value: b"not JSON" },
                Outgoing { topic, partition, key: key.as_bytes(), value: elsewhere.as_bytes() },
            ]
        });
        let poison: Vec<Outgoing<'_>> = poison.collect();
        shop.write(&poison);
    }
    begin_all(&behind);
    held.rollback().expect("the item is free");
    for (node, order) in before.iter().chain(&behind).enumerate() {
        let paid = shop.checkout(node % NODES, order);
        assert_eq!((paid.status, &paid.json()["tr"]), (200, &json!(1)), "{paid:?}");
    }
    let letters = "SELECT count(*) FROM (SELECT 1 FROM dead_letter JOIN segment USING (segment_id)
                   GROUP BY table_name, enumeration HAVING count(*) = 2) AS each";
    let each = i64::from(PARTITIONS) * TOPICS.len() as i64;
    shop.world.await_count(letters, |found| found == each);
    assert_eq!(shop.world.count("SELECT count(*) FROM dead_letter"), 2 * each);
    (before.len() + behind.len()) as u64
}
