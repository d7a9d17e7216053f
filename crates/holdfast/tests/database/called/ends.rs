//! Who wants to know how checkouts end hears of each, although a node is killed with what it was about to tell.

use std::collections::BTreeSet;

use super::{calling, checkout};
use crate::shop::at_once;
use crate::support::shop::{item, order, post, text};
use crate::support::sink::{Manner, Received, Sink};
use crate::world::World;

fn told(received: &[Received]) -> BTreeSet<(String, String)> {
    let taken = received.iter().filter(|end| end.acknowledged).map(Received::json);
    taken.map(|end| (text(&end, "order"), text(&end, "state"))).collect()
}

#[test]
fn ends_are_told_although_the_node_that_tells_is_killed() {
    const ORDERS: usize = 40;
    let Some(mut world) = World::beside_others() else { return };
    // It hangs: what the first node has in hand when it is killed was taken by nobody.
    let listener = Sink::new(Manner::Hang);
    let settings = [format!("shop.webhook=http://{}/ends", listener.address)];
    // Only the first tells.
    world.add_nodes_with(1, &calling(&settings));
    let silent = [calling(&settings), vec!["--roles", "api,expiry,order,pay,stock,tokens"]].concat();
    world.add_nodes_with(2, &silent);
    let wanted = item(world.node(1), 1, 1_000);
    post(world.node(1), "/payment/batch_init/20/1");
    let numbers: Vec<usize> = (0..ORDERS).collect();
    // Every second user is not there.
    let orders = at_once(&world, &numbers, |node, number| order(node, &number.to_string(), &wanted, 1));
    let answers = at_once(&world, &orders, |node, order| checkout(node, order).0);
    let ends: BTreeSet<(String, String)> = orders
        .iter()
        .zip(answers)
        .map(|(order, status)| (order.clone(), if status == 200 { "paid" } else { "not_paid" }.to_owned()))
        .collect();
    assert_eq!(ends.iter().filter(|(_, state)| state == "paid").count(), 20);
    listener.wait_for(32);
    world.take_node().kill();
    assert_eq!(told(&listener.received()), BTreeSet::new());
    assert_eq!(world.count("SELECT count(*) FROM checkout_outcome"), ORDERS as i64, "none is lost");
    listener.behave(Manner::FailFirst(5, 500));
    world.add_nodes_with(1, &calling(&settings));
    listener.wait("all are told", |received| told(received).is_superset(&ends));
    assert_eq!(told(&listener.received()), ends, "and as they were");
    world.await_count("SELECT count(*) FROM checkout_outcome", |rows| rows == 0);
    world.verify();
}
