//! kill -9 of the node that ends holds, in the middle of it.

use crate::support::command::done;
use crate::support::server::run;
use crate::world::World;

/// Holds that have run out: some twenty scans, a second of work.
const EXPIRED: i64 = 20_000;
const HOLDS: &str = "SELECT count(*) FROM transfer_timeout";

/// Some were reserved, some had only been received.
const ENDED: &str =
    "SELECT count(*) FROM transfer t JOIN transfer_state s ON s.transfer_state_id = t.current_state
                     WHERE s.enumeration IN ('EXPIRED_RESERVED', 'EXPIRED_PREPARED')";

#[test]
fn the_expiring_node_is_killed_in_the_middle_of_it() {
    let Some(mut world) = World::alone() else { return };
    let count = EXPIRED.to_string();
    done(&run(&["generate", "transfers", "--store", world.url(), "--total", &count, "--expired", &count]));
    assert_eq!(world.count(HOLDS), EXPIRED);
    world.add_nodes(1);
    world.await_count(HOLDS, |left| left < EXPIRED);
    world.take_node().kill();
    let left = world.count(HOLDS);
    assert!(left > 0, "it was killed too late to be in the middle");
    world.add_nodes(1);
    world.await_count(ENDED, |ended| ended == EXPIRED);
    assert_eq!(world.count(HOLDS), 0);
    world.await_count("SELECT count(*) FROM outbox", |rows| rows == 0);
    let held = "SELECT (coalesce(sum(abs(value)), 0) * 10000)::bigint FROM participant_position p
                JOIN participant_currency c USING (participant_currency_id) WHERE c.ledger_account_type = 'POSITION'";
    assert_eq!(world.count(held), 0, "all of it was given back, once");
    world.verify();
}
