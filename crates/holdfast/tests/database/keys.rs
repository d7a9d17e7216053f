//! Nodes with API keys.

use crate::support::server::folder;
use crate::support::sight::{Keys, each_sees_its_own};
use crate::world::World;

pub fn a_participant_sees_its_own_at_any_node() {
    let Some(mut world) = World::new() else { return };
    let folder = folder();
    let file = folder.path().join("keys.toml");
    let keys = Keys::create(&file);
    world.add_nodes_with(1, &["--keys", file.to_str().expect("a plain path")]);
    each_sees_its_own(world.node(0), &keys);
}
