//! A warehouse or a bank that is called.

use std::collections::BTreeSet;

use holdfast_kafka::Topic;
use serde_json::{Value, json};

use super::partner::{Manner, Partner};
use super::{await_state, callers, calling, checkout};
use crate::shop::{at_once, begin};
use crate::support::http::{figure, send};
use crate::support::server::Server;
use crate::support::shop::{item, new_item, order, post, shown};
use crate::support::sink::{Manner as Mood, Sink};
use crate::support::wait::await_that;
use crate::world::World;

/// Sixty want twenty, some of them without the money for it. All are told of, and all books agree.
#[test]
fn a_called_warehouse_sells_no_more_than_it_has() {
    const ORDERS: usize = 60;
    const UNITS: u64 = 20;
    let Some(mut world) = World::beside_others() else { return };
    let (warehouse, told) = (Partner::open(), Sink::new(Mood::Good));
    let settings =
        [format!("shop.stock={}", warehouse.url()), format!("shop.webhook=http://{}/ends", told.address)];
    world.add_nodes_with(3, &calling(&settings));
    post(world.node(0), "/payment/batch_init/50/1");
    let wanted = new_item(world.node(1), 1);
    warehouse.put(&wanted, UNITS);
    let numbers: Vec<usize> = (0..ORDERS).collect();
    // Ten users are not there: what the warehouse has taken for them it must give back.
    let orders = at_once(&world, &numbers, |node, number| order(node, &number.to_string(), &wanted, 1));
    let answers = at_once(&world, &orders, |node, order| checkout(node, order));
    let paid: BTreeSet<&String> = orders
        .iter()
        .zip(&answers)
        .filter(|(_, (status, _))| *status == 200)
        .map(|(order, _)| order)
        .collect();
    let why = |why: &Option<String>| matches!(why.as_deref(), Some("pay" | "stock" | "both"));
    assert!(answers.iter().all(|(status, refused)| *status == 200 || *status == 402 && why(refused)));
    assert!(paid.len() <= 20 && paid.len() >= 10, "{} were paid", paid.len());
    // Both books, and those of the shop.
    let books = warehouse.books();
    assert_eq!(books.holds().iter().collect::<BTreeSet<_>>(), paid);
    assert_eq!(books.left[&wanted], UNITS - paid.len() as u64);
    drop(books);
    let count = i64::try_from(paid.len()).expect("few");
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid"), count);
    assert_eq!(world.count("SELECT (50 - sum(credit))::bigint FROM users"), count);
    // Every end was told, as it was.
    told.wait("every end is told", |received| {
        let ends: BTreeSet<String> =
            received.iter().filter_map(|end| Some(end.json()["order"].as_str()?.to_owned())).collect();
        orders.iter().all(|order| ends.contains(order))
    });
    for end in told.received() {
        let end = end.json();
        let order = end["order"].as_str().expect("an order").to_owned();
        let state = if paid.contains(&order) { "paid" } else { "not_paid" };
        assert_eq!((&end["tr"], &end["state"]), (&json!(1), &json!(state)), "{end}");
        assert_eq!(end["why"].is_null(), state == "paid", "{end}");
    }
    world.await_count("SELECT count(*) FROM checkout_outcome", |rows| rows == 0);
    world.verify();
}

pub fn says(node: &Server, order: &str, tr: u64, side: &str, outcome: &str) -> (u16, Value) {
    let body = json!({ "outcome": outcome }).to_string();
    let answer = send(node, "POST", &format!("/hub/checkouts/{order}/{tr}/{side}"), &body);
    (answer.status, answer.json())
}

/// And meanwhile callers and operators ask at all nodes about orders that it leaves open.
#[test]
fn a_called_warehouse_hangs_fails_and_answers_later() {
    let Some(mut world) = World::beside_others() else { return };
    let (warehouse, told) = (Partner::open(), Sink::new(Mood::Good));
    let settings =
        [format!("shop.stock={}", warehouse.url()), format!("shop.webhook=http://{}/ends", told.address)];
    world.add_nodes_with(3, &calling(&settings));
    post(world.node(0), "/payment/batch_init/1/100");
    std::thread::scope(|scope| {
        let callers = scope.spawn(|| callers::of_any_node(&world, &warehouse));
        hangs_fails_and_answers_later(&world, &warehouse, &told);
        callers.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    world.verify();
}

fn hangs_fails_and_answers_later(world: &World, warehouse: &Partner, told: &Sink) {
    let wanted = new_item(world.node(1), 5);
    warehouse.put(&wanted, 10);
    let of = |quantity| order(world.node(0), "0", &wanted, quantity);

    // In trouble for a while.
    let failing = of(1);
    warehouse.behave_about(&failing, Manner::FailFirst(4, 500));
    assert_eq!(checkout(world.node(1), &failing), (200, None));
    // Five times, and once or twice more where an answer came too late for the node that had asked.
    let asked = |order: &str| warehouse.books().count(order, "sub");
    assert!((5..8).contains(&asked(&failing)), "{} times", asked(&failing));

    // It needs longer, and has it when it is asked again.
    let slow = of(1);
    warehouse.behave_about(&slow, Manner::LaterFirst(3));
    assert_eq!(checkout(world.node(2), &slow), (200, None));
    assert!((4..7).contains(&asked(&slow)), "{} times", asked(&slow));

    // It needs longer, and says it itself: at any node, and twice.
    let later = of(1);
    warehouse.behave_about(&later, Manner::LaterFirst(u32::MAX));
    begin(world.node(0), &later, 60_000);
    warehouse.wait("it is asked", |books| books.count(&later, "sub") > 0);
    assert_eq!(says(world.node(1), &later, 2, "stock", "ssucc").0, 404, "no such try");
    assert_eq!(says(world.node(1), &later, 1, "pay", "psucc").0, 409, "that side is inside");
    let items = json!({"type": "sub", "items": [{"id": wanted, "amnt": 1}]});
    assert_eq!(warehouse.books().act(&later, 1, &items), "ssucc");
    let (status, heard) = says(world.node(2), &later, 1, "stock", "ssucc");
    assert_eq!((status, &heard["counted"]), (200, &json!(true)), "{heard}");
    await_state(world, &later, "paid");
    let (status, again) = says(world.node(0), &later, 1, "stock", "ssucc");
    assert_eq!((status, &again["counted"], &again["state"]), (200, &json!(false), &json!("paid")), "{again}");

    // It hangs about one order. Others go on, the deadline ends it, and it is asked to give back until it does.
    let lost = of(2);
    warehouse.behave_about(&lost, Manner::Hang);
    begin(world.node(1), &lost, 1_500);
    warehouse.wait("it is asked", |books| books.count(&lost, "sub") > 0);
    assert_eq!(checkout(world.node(2), &of(1)), (200, None), "another order does not wait for it");
    await_state(world, &lost, "cancelling");
    warehouse.wait("it is asked to give back", |books| books.count(&lost, "add") > 2);
    // It is told of the side, and an answer about another order ends it until the next one that hangs.
    let told_why =
        |node: &Server| shown(node, &lost)["detail"].as_str().unwrap_or_default().contains("no answer");
    await_that(
        "the node that asks knows why it waits",
        || (0..3).any(|at| told_why(world.node(at))),
        |told| *told,
    );
    assert!(!warehouse.books().holds().contains(&lost));
    warehouse.behave_about(&lost, Manner::Well);
    await_state(world, &lost, "not_paid");
    let end = |received: &[crate::support::sink::Received]| {
        received.iter().map(|end| end.json()).find(|end| end["order"] == json!(lost))
    };
    let received = told.wait("its end is told", |received| end(received).is_some());
    let end = end(&received).expect("it was told");
    assert_eq!((&end["state"], &end["why"]), (&json!("not_paid"), &json!("deadline")), "{end}");

    // It took and could not say so, for longer than the deadline: it gives back what it took.
    let taken = of(2);
    warehouse.behave_about(&taken, Manner::DoAndHang);
    begin(world.node(2), &taken, 1_500);
    warehouse.wait("it took", |books| books.holds().contains(&taken));
    await_state(world, &taken, "cancelling");
    warehouse.behave_about(&taken, Manner::Well);
    await_state(world, &taken, "not_paid");
    assert_eq!(warehouse.books().left[&wanted], 6);
    assert_eq!(checkout(world.node(0), &taken), (200, None), "the next try is another");
    assert_eq!(warehouse.books().left[&wanted], 4);
    assert_eq!(world.count("SELECT credit FROM users WHERE user_id = '0'"), 70);
}

/// How many partitions of a topic a node has, by its own words.
pub fn partitions_of(node: &Server, topic: Topic) -> u32 {
    let name = format!("holdfast_cluster_partitions{{topic=\"{}\"}}", topic.name());
    figure(node, &name).unwrap_or(0)
}

/// Two nodes do nothing but ask. One dies with its requests under way; the other finds in the store what it has to ask.
#[test]
fn the_node_that_asks_is_killed_and_another_goes_on() {
    const EACH: usize = 3;
    let Some(mut world) = World::beside_others() else { return };
    let warehouse = Partner::open();
    let settings = [format!("shop.stock={}", warehouse.url())];
    let with_roles = |roles| [calling(&settings), vec!["--roles", roles]].concat();
    world.add_nodes_with(2, &with_roles("stock"));
    world.add_nodes_with(1, &with_roles("api,expiry,callbacks,order,pay"));
    let edge = || world.node(2);
    post(edge(), "/payment/batch_init/1/100");
    let wanted = new_item(edge(), 1);
    warehouse.put(&wanted, 100);
    // Some of each partition.
    let partitions = world.topics().partitions(Topic::Stock);
    let orders = world.for_each_partition(Topic::Stock, EACH, || order(edge(), "0", &wanted, 1));
    let orders: Vec<String> = orders.into_iter().map(|(order, _)| order).collect();
    // Both nodes have their share: the one that will be killed too.
    let shares = || [0, 1].map(|node| partitions_of(world.node(node), Topic::Stock));
    await_that("the partitions are shared", shares, |shares| {
        !shares.contains(&0) && shares.iter().sum::<u32>() == partitions
    });
    let epochs =
        "SELECT sum(epoch)::bigint FROM segment WHERE segment_type = 'consumer' AND table_name = 'stock'";
    let before = world.count(epochs);
    warehouse.behave(Manner::DoAndHang);
    orders.iter().for_each(|order| begin(edge(), order, 600_000));
    warehouse.wait("it is asked about all", |books| orders.iter().all(|order| books.count(order, "sub") > 0));
    assert!(!shares().contains(&0), "both nodes ask: {:?}", shares());
    assert_eq!(world.count(epochs), before, "no partition has moved since");
    world.take_node().kill();
    let before = warehouse.books().asked.len();
    warehouse.behave(Manner::Well);
    world.await_count("SELECT count(*) FROM orders WHERE state = 'pending'", |open| open == 0);
    assert_eq!(world.count("SELECT count(*) FROM orders WHERE paid"), orders.len() as i64);
    assert!(warehouse.books().asked.len() > before);
    assert_eq!(warehouse.books().left[&wanted], 100 - orders.len() as u64, "each was taken once");
    world.take_node().stop();
    world.verify();
}

#[test]
fn a_called_bank_charges_once_or_gives_back() {
    let Some(mut world) = World::beside_others() else { return };
    let bank = Partner::open();
    world.add_nodes_with(3, &calling(&[format!("shop.payment={}", bank.url())]));
    bank.put("ann", 12);
    let wanted = item(world.node(0), 5, 3);
    let of = |quantity| order(world.node(2), "ann", &wanted, quantity);
    let money = || bank.books().left["ann"];
    let stock = || world.count(&format!("SELECT stock FROM items WHERE item_id = '{wanted}'"));

    bank.behave(Manner::FailFirst(2, 503));
    assert_eq!(checkout(world.node(0), &of(1)), (200, None));
    assert_eq!((money(), stock()), (7, 2));
    assert_eq!(checkout(world.node(1), &of(2)), (402, Some("pay".to_owned())), "the bank says no");
    assert_eq!((money(), stock()), (7, 2), "and the stock is back");
    bank.put("ann", 100);
    let dear = of(9);
    assert_eq!(checkout(world.node(2), &dear), (402, Some("stock".to_owned())), "there are two left");
    assert_eq!(
        (money(), stock(), bank.books().count(&dear, "can") > 0),
        (100, 2, true),
        "and the money is back"
    );
    // It took, cannot say so, and gives back after the deadline.
    let lost = of(1);
    bank.behave_about(&lost, Manner::DoAndHang);
    begin(world.node(0), &lost, 1_500);
    await_state(&world, &lost, "cancelling");
    bank.wait("it is asked to give back", |books| books.count(&lost, "can") > 0);
    bank.behave(Manner::Well);
    await_state(&world, &lost, "not_paid");
    assert_eq!((money(), stock()), (100, 2));
    world.verify();
}
