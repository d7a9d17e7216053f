//! What a node says of itself.

use crate::world::{World, await_part};

/// Callbacks are delivered by the crate `delivery`, which these nodes do not have.
const NOT_HERE: &str = "delivery";

/// The second node gets none of the only partitions, which stay with the first, and is as well as that one.
#[test]
fn a_node_without_a_partition_is_well() {
    let Some(world) = World::with_partitions(1) else { return };
    let await_well = |node: &holdfast_database::Node| {
        let handle = node.handle();
        for part in handle.health().parts().iter().filter(|part| part.name() != NOT_HERE) {
            await_part(&handle, part.name(), |trouble| trouble.is_none());
        }
    };
    let first = world.node(1);
    await_well(&first);
    let second = world.node(2);
    await_well(&second);
    await_well(&first);
}
