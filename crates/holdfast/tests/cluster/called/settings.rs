//! A node that would serve a side otherwise than the others does not start.

use super::partner::Partner;
use super::{calling, checkout, item, order, post};
use crate::world::World;

pub fn all_nodes_call_the_same_sides() {
    let Some(mut world) = World::new() else { return };
    let warehouse = Partner::open();
    let settings = [format!("shop.stock={}", warehouse.url())];
    world.add_nodes_with(1, &calling(&settings));
    post(world.node(0), "/payment/batch_init/1/10");
    let wanted = item(world.node(0), 1);
    warehouse.put(&wanted, 1);
    assert_eq!(checkout(world.node(0), &order(world.node(0), "0", &wanted, 1)), (200, None));
    let refused = world.command(&[]).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("shop.stock") && said.contains("all nodes"), "{said}");
    // When nobody is at work it may change.
    world.take_node().stop();
    world.add_nodes_with(1, &[]);
    assert_eq!(
        checkout(world.node(0), &order(world.node(0), "0", &wanted, 1)),
        (402, Some("stock".to_owned()))
    );
    post(world.node(0), &format!("/stock/add/{wanted}/1"));
    assert_eq!(checkout(world.node(0), &order(world.node(0), "0", &wanted, 1)), (200, None));
    assert_eq!(warehouse.books().asked.len(), 1, "it is asked no more");
}
