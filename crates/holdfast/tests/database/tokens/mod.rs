//! Wallets on nodes that are processes of their own, before one PostgreSQL.

mod crowd;
mod faults;
mod funded;
mod hot;
pub mod wallet;

use std::net::SocketAddr;

use crate::world::World;

/// Nodes that only have an edge.
const API: [&str; 2] = ["--roles", "api"];

/// Writes down whenever a lock goes from one live holder to another, or a spent token comes back: what must never happen,
/// watched by the database itself.
const WATCH: &str = "
    CREATE TABLE broken_promise (token_id text, old_spender text, new_spender text, why text);
    CREATE FUNCTION watch_locks() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.spent AND (NOT NEW.spent OR NEW.spender_tx_id IS DISTINCT FROM OLD.spender_tx_id) THEN
            INSERT INTO broken_promise VALUES (OLD.token_id, OLD.spender_tx_id, NEW.spender_tx_id, 'spent and back');
        END IF;
        IF OLD.spender_tx_id IS NOT NULL AND NEW.spender_tx_id IS NOT NULL AND NEW.fence <> OLD.fence
                AND OLD.expires_at > clock_timestamp() THEN
            INSERT INTO broken_promise VALUES (OLD.token_id, OLD.spender_tx_id, NEW.spender_tx_id, 'held twice');
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER watch_locks BEFORE UPDATE ON token_lock FOR EACH ROW EXECUTE FUNCTION watch_locks();";

/// A world with nodes whose locks are watched, and their addresses.
fn watched(world: Option<World>, nodes: usize, arguments: &[&str]) -> Option<(World, Vec<SocketAddr>)> {
    let mut world = world?;
    world.add_nodes_with(nodes, arguments);
    world.sql().batch_execute(WATCH).expect("a trigger");
    let addresses = world.addresses.lock().expect("whole").clone();
    Some((world, addresses))
}

/// No promise was broken, and nothing was made or lost.
fn judge(world: &World, issued: u64) {
    assert_eq!(world.count("SELECT count(*) FROM broken_promise"), 0);
    let twice = "SELECT count(*) - count(DISTINCT id) FROM token_selection, unnest(token_ids) AS id WHERE state = 'SPENT'";
    assert_eq!(world.count(twice), 0, "a token was spent twice");
    let left =
        "SELECT sum(t.quantity)::bigint FROM token t JOIN token_lock l USING (token_id) WHERE NOT l.spent";
    assert_eq!(u64::try_from(world.count(left)).expect("a sum"), issued);
    world.verify();
}
