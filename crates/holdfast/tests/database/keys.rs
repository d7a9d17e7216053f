//! Nodes with API keys.

use crate::support::keys::{
    Keys, asks_for_keys_from_the_first_one_on, each_sees_its_own, refused_without_keys,
};
use crate::support::server::{Server, folder};
use crate::world::World;

#[test]
fn a_participant_sees_its_own_at_any_node() {
    let Some(mut world) = World::beside_others() else { return };
    let folder = folder();
    let file = folder.path().join("keys.toml");
    let keys = Keys::create(&file);
    world.add_nodes_with(1, &["--keys", file.to_str().expect("a plain path")]);
    each_sees_its_own(world.node(0), &keys);
}

/// Its keys would lie in its data folder. What it was asked for once every node of this database is asked for.
#[test]
fn a_node_asks_for_keys_from_the_first_one_on() {
    let Some(mut world) = World::beside_others() else { return };
    let folder = folder();
    let here = ["--data", folder.path().to_str().expect("a plain path")];
    let traces = world.add_telling_node(&here);
    asks_for_keys_from_the_first_one_on(world.node(0), &folder.path().join("keys.toml"));
    traces.await_lines("the first keys are here", 1);
    world.take_node().stop();
    refused_without_keys(&mut world.command(&here));
    let waived = world.add_telling_node(&[here[0], here[1], "--without-keys"]);
    waived.await_lines("callers need no keys from now on", 1);
    world.take_node().stop();
    Server::launch(&mut world.command(&here)).stop();
}
