//! Many check out while a node is killed and another comes, and both servers are restarted: nothing is sold twice or lost, and every end of every try is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::calling;
use super::partner::Partner;
use crate::disasters::{Crowd, insist};
use crate::servers::Servers;
use crate::shop::at_once;
use crate::support::shop::{new_item, order, post, text};
use crate::support::sink::{Manner, Sink};
use crate::world::{PARTITIONS, World};

pub fn a_warehouse_in_a_crowd(crowd: &Crowd) {
    const ORDERS: usize = 150;
    const UNITS: u64 = 60;
    let Some(mut world) = World::of(Servers::default(), PARTITIONS) else { return };
    let (warehouse, told) = (Partner::open(), Sink::new(Manner::Good));
    let settings =
        [format!("shop.stock={}", warehouse.url()), format!("shop.webhook=http://{}/ends", told.address)];
    world.add_nodes_with(3, &calling(&settings));
    post(world.node(0), "/payment/batch_init/120/1");
    let wanted = new_item(world.node(1), 1);
    warehouse.put(&wanted, UNITS);
    let numbers: Vec<usize> = (0..ORDERS).collect();
    // Every fifth user is not there.
    let orders = at_once(&world, &numbers, |node, number| order(node, &number.to_string(), &wanted, 1));
    let addresses = Arc::clone(&world.addresses);
    let ask = |turn: usize, order: &str| {
        insist(&addresses, "/shop/orders/checkout", order, turn);
    };
    crowd.run(&orders, ask, || {
        world.take_node().kill();
        world.add_nodes_with(1, &calling(&settings));
    });
    // What a dead caller began ends too.
    world.await_no_open_checkout();
    let rows = world.sql().query("SELECT order_id, state, tr_num FROM orders", &[]).expect("rows");
    let stands: BTreeMap<String, (String, i64)> =
        rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
    let paid: BTreeSet<&String> =
        stands.iter().filter(|(_, (state, _))| state == "paid").map(|(order, _)| order).collect();
    let books = warehouse.books();
    assert_eq!(books.holds().iter().collect::<BTreeSet<_>>(), paid, "what is sold is paid, and nothing else");
    assert_eq!(books.left[&wanted], UNITS - paid.len() as u64);
    drop(books);
    assert_eq!(
        world.count("SELECT (120 - sum(credit))::bigint FROM users"),
        i64::try_from(paid.len()).expect("few")
    );
    assert!(!paid.is_empty() && paid.len() < ORDERS);
    // Each try was told, the last one as it stands.
    let mut due: BTreeSet<(String, i64, String)> = BTreeSet::new();
    for (order, (state, last)) in &stands {
        due.extend((1..*last).map(|tr| (order.clone(), tr, "not_paid".to_owned())));
        due.insert((order.clone(), *last, state.clone()));
    }
    let heard = |received: &[crate::support::sink::Received]| -> BTreeSet<(String, i64, String)> {
        let ends = received.iter().map(|end| end.json());
        ends.map(|end| (text(&end, "order"), end["tr"].as_i64().unwrap_or(0), text(&end, "state"))).collect()
    };
    let received = told.wait("every end is told", |received| heard(received).is_superset(&due));
    assert_eq!(heard(&received), due, "and nothing else");
    world.await_count("SELECT count(*) FROM checkout_outcome", |rows| rows == 0);
    world.verify();
}
