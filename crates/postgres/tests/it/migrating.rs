//! A new schema beside those who use the old one.

use std::thread;
use std::time::Duration;

use holdfast_postgres::{Settings, Store, keys_are_required};

use crate::world::World;

/// What an insert asks for.
const AS_A_STEP: &str = "SET lock_timeout = '15s'; BEGIN; LOCK TABLE audit IN ROW EXCLUSIVE MODE; COMMIT";

/// A dump or `verify` reads for as long as it takes. The change of a table waits for it, and steps do not wait behind the change.
#[test]
fn a_change_behind_a_long_reader_stops_no_step() {
    let Some(world) = World::new() else { return };
    drop(world.store());
    let before_13 = "ALTER TABLE pay_transaction DROP COLUMN batch_id; ALTER TABLE stock_transaction DROP COLUMN batch_id;
                     ALTER TABLE audit DROP COLUMN rows_hash; DELETE FROM schema_version WHERE version > 12";
    world.run(before_13);
    let (mut reader, mut step) = (world.sql(), world.sql());
    let mut reading = reader.transaction().unwrap();
    reading.query("SELECT count(*) FROM audit", &[]).unwrap();

    let url = world.url.clone();
    let node = thread::spawn(move || Store::open(&url, Settings::default()).map(drop));
    world.await_waiting();
    step.batch_execute(AS_A_STEP).expect("the step's turn comes while the reader reads");
    reading.commit().unwrap();
    node.join().unwrap().expect("the schema changes when the reader is done");
}

/// A start that is refused for want of keys leaves the schema as it was.
#[test]
fn whether_keys_are_needed_is_asked_without_a_change() {
    let Some(world) = World::new() else { return };
    let needed = || keys_are_required(&world.url, Duration::from_secs(5)).unwrap();
    assert!(!needed());
    assert_eq!(world.rows("pg_tables WHERE schemaname = 'public'"), 0);
    let mut store = world.store();
    store.require_keys().unwrap();
    assert!(needed());
    store.waive_keys().unwrap();
    assert!(!needed());
}
