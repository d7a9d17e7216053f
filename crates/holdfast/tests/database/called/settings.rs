//! A node that would serve a side otherwise than the others does not start.

use std::time::Instant;

use holdfast_kafka::Topic;
use holdfast_services::PATIENCE;
use serde_json::json;

use super::partner::Partner;
use super::{calling, checkout};
use crate::support::command::complaint;
use crate::support::http::get;
use crate::support::server::Server;
use crate::support::shop::{new_item, order, post};
use crate::world::World;

/// A node with both sides inside does not start.
pub fn refused_for(world: &World, why: &str) {
    let refused = world.command(&[]).output().expect("the binary runs");
    let said = complaint(&refused);
    assert!(!refused.status.success() && said.contains(why), "{said}");
}

#[test]
fn all_nodes_call_the_same_sides() {
    let Some(mut world) = World::beside_others() else { return };
    let warehouse = Partner::open();
    let settings = [format!("shop.stock={}", warehouse.url())];
    world.add_nodes_with(1, &calling(&settings));
    post(world.node(0), "/payment/batch_init/1/10");
    let wanted = new_item(world.node(0), 1);
    warehouse.put(&wanted, 1);
    let buy = |node: &Server| checkout(node, &order(node, "0", &wanted, 1));
    assert_eq!(buy(world.node(0)), (200, None));
    let asked = warehouse.books().asked.len();
    refused_for(&world, "shop.stock is a URL for the nodes of this hub, and inside here");
    let stats = get(world.node(0), "/hub/stats").json();
    assert_eq!((&stats["shop"]["payment"], &stats["shop"]["stock"]), (&json!("credit"), &json!("outside")));
    // When nobody is at work and everything was read it may change.
    world.take_node().stop();
    let topics = world.topics();
    let late = topics.outgoing(Topic::Stock, b"late", b"a message that nobody has read");
    world.producer().send_all(&[late], Instant::now() + PATIENCE).expect("Kafka is there");
    refused_for(&world, "1 messages of");
    world.add_nodes_with(1, &calling(&settings));
    world.await_count("SELECT count(*) FROM dead_letter", |buried| buried == 1);
    world.take_node().stop();
    world.add_nodes_with(1, &[]);
    assert_eq!(buy(world.node(0)), (402, Some("stock".to_owned())));
    post(world.node(0), &format!("/stock/add/{wanted}/1"));
    assert_eq!(buy(world.node(0)), (200, None));
    assert_eq!(warehouse.books().asked.len(), asked, "it is asked no more");
}
