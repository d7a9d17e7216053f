//! Data sets that are generated, against what the handlers make of them.

use std::time::{Duration, Instant};

use holdfast_domain::command::{Command, Fulfil, FulfilAction};
use holdfast_domain::ids::{ParticipantId, TransferId};
use holdfast_postgres::generate::PREIMAGE;
use holdfast_postgres::{DataSet, Error};

use crate::world::*;

const HOUR: i64 = 3_600_000;

fn data_set() -> DataSet {
    DataSet { total: 12_000, expired: 300, hours: (1, 168), progress_every: 2_500, ..DataSet::default() }
}

/// What a node makes of it: everything adds up, and exactly the expired ones end.
#[test]
fn the_expired_ones_end_and_no_other() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let mut told = Vec::new();
    let generated = store.generate(&data_set(), |done| told.push(done)).unwrap();
    assert_eq!(told, [2_500, 5_000, 7_500, 10_000, 12_000]);
    assert_eq!((generated.transfers, generated.expired), (12_000, 300));
    let verified = store.verify().unwrap();
    assert_eq!(verified.findings, []);
    assert_eq!(verified.state_changes, generated.state_changes);
    assert_eq!(verified.position_changes, generated.position_changes);
    assert_eq!(world.rows("transfer_timeout"), generated.open.cast_signed());
    let open = "SELECT count(*) FROM transfer WHERE current_state IN (1, 3)";
    assert_eq!(world.count(open), generated.open.cast_signed());
    assert!((1_200..1_800).contains(&generated.open), "{generated:?}");

    let expired = "SELECT count(*) FROM transfer WHERE current_state IN (10, 11)";
    let before = world.count(expired);
    let reserved = world.rows("transfer WHERE current_state = 3 AND expiration_date < now()");
    let mut node = Node::new(&world, 2);
    assert_eq!(node.expire(), 300);
    assert_eq!(node.expire(), 0);
    assert_eq!(world.count(expired), before + 300);
    assert!((200..290).contains(&reserved), "most of them had a position to give back: {reserved}");
    assert_eq!(world.count(open), generated.open.cast_signed() - 300);
    assert_eq!(
        node.notifications.len() as i64,
        2 * reserved + (300 - reserved),
        "payer and payee, or the payer"
    );
    world.verify();
}

/// A second data set follows the first, and what is open can be fulfilled.
#[test]
fn generated_holds_are_holds() {
    let Some((world, mut node)) = node(1) else { return };
    let data = DataSet { total: 500, expired: 0, ..data_set() };
    node.store.generate(&data, |_| ()).unwrap();
    node.store.generate(&data, |_| ()).unwrap();
    world.verify();
    let row = world
        .sql()
        .query_one("SELECT transfer_id::text, payee_id FROM transfer WHERE current_state = 3 LIMIT 1", &[])
        .unwrap();
    let (id, payee): (String, i64) = (row.get(0), row.get(1));
    let (id, payee): (TransferId, _) = (id.parse().unwrap(), ParticipantId(u32::try_from(payee).unwrap()));
    node.ask(&[Command::Fulfil(Fulfil::new(payee, id, FulfilAction::Commit, PREIMAGE))]);
    assert_eq!(world.state(id), "COMMITTED");
    world.verify();
}

/// A scan that finds nothing reads nothing, however many holds are open: the clock bounds the index.
#[test]
fn an_idle_scan_does_not_look_at_open_holds() {
    let Some((world, mut node)) = node(1) else { return };
    let data = DataSet { expired: 0, ..data_set() };
    let open = node.store.generate(&data, |_| ()).unwrap().open;
    assert!(open > 1_000);
    let read =
        "SELECT coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'transfer_timeout'";
    let scans = "SELECT coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'transfer_timeout'";
    let (read_before, scans_before) = (world.count(read), world.count(scans));
    assert_eq!(node.expire_only(), 0);
    assert_eq!(node.store.due_shards().unwrap(), [0_i16; 0]);
    // A connection tells what it read at the latest when it ends.
    drop(node);
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.count(scans) < scans_before + 16 {
        assert!(Instant::now() < deadline, "the server never told of the scans");
    }
    assert_eq!(world.count(read), read_before);
}

/// One look tells which shards are worth a scan.
#[test]
fn due_shards_are_told() {
    let Some((world, mut node)) = node(1) else { return };
    node.store.generate(&DataSet { total: 2, expired: 2, ..data_set() }, |_| ()).unwrap();
    let rows = world.sql().query("SELECT DISTINCT shard FROM transfer_timeout ORDER BY shard", &[]).unwrap();
    let expected: Vec<i16> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(node.store.due_shards().unwrap(), expected);
    node.expire();
    assert_eq!(node.store.due_shards().unwrap(), [0_i16; 0]);
}

/// Fault 16: both copies of an expiration move together.
#[test]
fn shifted_holds_run_out_when_they_say() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let data = DataSet { total: 2_000, expired: 50, hours: (1, 2), ..data_set() };
    let open = store.generate(&data, |_| ()).unwrap().open;
    assert_eq!(store.shift_expirations(3 * HOUR).unwrap(), open);
    world.verify();
    let mut node = Node::new(&world, 1);
    assert_eq!(node.expire(), 0, "those that were due have time again");
    assert_eq!(store.shift_expirations(-6 * HOUR).unwrap(), open);
    world.verify();
    assert_eq!(node.expire() as u64, open, "and now none has");
    world.verify();
}

#[test]
fn a_data_set_is_bounded() {
    let Some(world) = World::new() else { return };
    let mut store = world.store();
    let good = data_set();
    for bad in [
        DataSet { total: 0, expired: 0, ..good.clone() },
        DataSet { expired: 12_001, ..good.clone() },
        DataSet { amount: (0, 1), ..good.clone() },
        DataSet { amount: (5, 4), ..good.clone() },
        DataSet { hours: (2, 1), ..good.clone() },
        DataSet { currencies: Vec::new(), ..good.clone() },
        DataSet { currencies: vec![usd(), usd()], ..good.clone() },
        DataSet { progress_every: 0, ..good },
    ] {
        assert!(matches!(store.generate(&bad, |_| ()), Err(Error::DataSet(_))), "{bad:?}");
    }
    assert_eq!(world.rows("transfer"), 0);
}
