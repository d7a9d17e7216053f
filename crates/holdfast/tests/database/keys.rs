//! Nodes with API keys.

use crate::support::server::folder;
use crate::support::sight::{Keys, asks_for_keys_from_the_first_one_on, each_sees_its_own};
use crate::world::World;

pub fn a_participant_sees_its_own_at_any_node() {
    let Some(mut world) = World::new() else { return };
    let folder = folder();
    let file = folder.path().join("keys.toml");
    let keys = Keys::create(&file);
    world.add_nodes_with(1, &["--keys", file.to_str().expect("a plain path")]);
    each_sees_its_own(world.node(0), &keys);
}

/// Each in a data folder of its own, where its keys would lie.
pub fn a_node_asks_for_keys_from_the_first_one_on() {
    let Some(mut world) = World::new() else { return };
    let folder = folder();
    let traces = world.add_telling_node(&["--data", folder.path().to_str().expect("a plain path")]);
    asks_for_keys_from_the_first_one_on(world.node(0), &folder.path().join("keys.toml"));
    traces.await_lines("the first keys are here", 1);
}
